"""Staged Python numbers: ``torch.SymInt``, ``SymFloat`` and ``SymBool`` over a value of a graph.

torch takes these wherever it takes a number: as sizes, as indices, as the scalar of ``x * s``, with the
promotion of a Python number. Here each carries a ``ScalarNode``, which records ``py.*`` ops: Python's own
arithmetic, done when the graph runs. ``StagedInt`` and its sisters override every operator, so that mixed kinds,
bools in arithmetic and divisions give what Python gives; the sizes that torch makes itself (of a tensor with a
symbolic shape) are plain ``SymInt`` over the same node.

A node that comes from the size of an argument has a ``hint``, the size at the traced call. Where torch must
know whether a relation of sizes holds, the hint answers and the relation becomes a guard of the trace.
"""

from __future__ import annotations

from typing import Any

import torch

from ..errors import GraphBoolError, StagingError
from .funcgraph import FuncGraph, Ref, current_graph, user_location
from .ir import Value
from .known import UNKNOWN, known
from .meta_kernel import rules
from .ops import ARITHMETIC, COMPARISONS, PYTHON
from .types import ScalarType


class ScalarNode:
    """The node behind a staged number: a constant, or a value of a graph."""

    __slots__ = ("constant_", "expr", "hint", "kind", "ref")

    def __init__(
        self,
        kind: type,
        ref: Ref | None = None,
        constant: Any = None,
        hint: Any = None,
        expr: Any = None,
    ):
        self.kind, self.ref, self.constant_, self.hint, self.expr = kind, ref, constant, hint, expr

    def value(self, graph: FuncGraph) -> Any:
        """What stands for the number in a node's arguments."""
        return self.constant_ if self.ref is None else graph.resolve(self.ref)

    def same(self, other: ScalarNode) -> bool:
        """Whether both are known to be the same number."""
        if self.ref is not None and other.ref is not None:
            return self.ref.value is other.ref.value or (
                self.expr is not None and self.expr == other.expr
            )
        return self.ref is None and other.ref is None and self.constant_ == other.constant_

    # What torch asks of a node.
    pytype = property(lambda self: self.kind)
    constant = property(lambda self: None)

    def is_int(self):
        return self.kind is int

    def is_float(self):
        return self.kind is float

    def is_bool(self):
        return self.kind is bool

    def is_symbolic(self):
        return True

    def is_nested_int(self):
        return False

    def is_constant(self):
        return False

    def has_hint(self):
        return self.hint is not None

    def maybe_as_int(self):
        return self.constant_ if self.ref is None and self.kind is int else None

    def maybe_as_float(self):
        return self.constant_ if self.ref is None and self.kind is float else None

    def maybe_as_bool(self):
        return self.constant_ if self.ref is None and self.kind is bool else None

    def clone(self):
        return self

    def str(self):
        return "?" if self.ref is not None else repr(self.constant_)

    _graph_repr = __repr__ = __str__ = str

    def wrap_int(self, number):
        return ScalarNode(int, constant=number, hint=number, expr=number)

    def wrap_float(self, number):
        return ScalarNode(float, constant=number, hint=number, expr=number)

    def wrap_bool(self, number):
        return ScalarNode(bool, constant=number, hint=number, expr=number)

    def _decide(self, what: str):
        """The number itself, where it can be known while tracing; it becomes a guard."""
        if self.ref is None:
            return self.constant_
        found = known(self.ref.value)
        if found is not UNKNOWN:
            return found
        if self.hint is None or self.expr is None:
            raise GraphBoolError(
                f"Using a staged Python `{self.kind.__name__}` as a Python `{what}` is not allowed: its value is known "
                "only when the graph runs. Here the code runs as plain Python: it was not converted.",
                user_location(),
            )
        current_graph().root.guards.append((self.expr, self.hint))
        return self.hint

    def guard_bool(self, file, line):
        if self.ref is not None and (self.hint is None or self.expr is None):
            answer = assumed(self)
            if answer is None and current_graph().replaying:
                answer = self._settled()
            if answer is not None:
                return answer
        return bool(self._decide("bool"))

    def _settled(self) -> bool | None:
        """While a recorded graph is replayed: two unknown sizes that torch compares are equal, for the program ran; none is 0 or 1."""
        node = self.ref.value.node
        if node is None or node.op not in ("py.eq", "py.ne"):
            return None
        small = any(not isinstance(a, Value) and a in (0, 1) for a in node.args)
        return (node.op == "py.eq") is not small

    def guard_int(self, file, line):
        return int(self._decide("int"))

    def guard_float(self, file, line):
        return float(self._decide("float"))

    def bool_(self):
        return self.guard_bool("", 0) if rules.depth else bool(self._decide("bool"))

    def int_(self):
        return int(self._decide("int"))

    def expect_true(self, file, line):
        return True

    def expect_size(self, file, line):
        return True

    def guard_size_oblivious(self, file, line):
        return bool(self.hint) if self.ref is None else self._likely(False)

    def guard_or_false(self, file, line):
        return bool(self.constant_) if self.ref is None else self._likely(False)

    def guard_or_true(self, file, line):
        return bool(self.constant_) if self.ref is None else self._likely(True)

    def _likely(self, default: bool) -> bool:
        # x == x and x != x need no guess; anything else takes torch's default for an unknown size.
        if (
            isinstance(self.expr, tuple)
            and self.expr[0] in ("eq", "ne")
            and self.expr[1] == self.expr[2]
        ):
            return self.expr[0] == "eq"
        return default

    def statically_known_true(self, file, line):
        return bool(self.constant_) if self.ref is None else self._likely(False)

    def nested_int(self):
        return None

    def sym_sum(self, others):
        total = self.wrap_int(0)
        for other in others:
            total = combine("add", total, other)
        return total

    def sym_ite(self, then, orelse):
        if self.ref is None:
            return then if self.constant_ else orelse
        graph = current_graph()
        options = [n.value(graph) for n in (orelse, then)]
        tag = graph.emit("py.int", self.value(graph), type=ScalarType(int))
        value = graph.emit("tg.choose", tag, options, type=ScalarType(then.kind))
        return ScalarNode(then.kind, Ref(value, graph))

    def is_channels_last(self, *args):
        return self.wrap_bool(False)

    is_channels_last_contiguous_2d = is_channels_last_contiguous_3d = is_channels_last
    is_channels_last_strides_2d = is_channels_last_strides_3d = is_channels_last

    def is_contiguous(self, *args):
        return self.wrap_bool(True)

    def is_non_overlapping_and_dense(self, *args):
        return self.wrap_bool(True)

    def is_non_overlapping_and_dense_indicator(self, *args):
        return self.wrap_int(1)


# ---- what torch's own code may assume of sizes that are known only when the graph runs

_USUAL_SIZE = 12  # neither 0 nor 1, nor smaller than a window or an order that is asked for


def assumed(node: ScalarNode) -> bool | None:
    """The answer that a relation of sizes usually has: the graph checks it when it runs. None for other conditions.

    torch's C++ code asks whether a size is 0 or 1, or two sizes are equal, to check arguments or to take a shortcut.
    """
    assert node.ref is not None
    answer = _usual(node.ref.value)
    if not isinstance(answer, bool):
        return None
    graph = current_graph()
    key = _structure(node.ref.value)
    if key not in graph.assumed:
        graph.assumed.add(key)
        value = graph.resolve(node.ref)
        test = value if answer else graph.emit("py.not", value, type=ScalarType(bool))
        graph.add("tg.assert", (test, "tg.UnexpectedSizeError", (_ASSUMED,)))
    return answer


_ASSUMED = (
    "torch's code for this call asks for a size that is known only when the graph runs, and was traced for tensors of the usual "
    "sizes (not empty, more than one element, equal where two must be); here the size is another one. Treat that case "
    "with an `if` of its own, or pass the size as a dimension of an argument."
)


def _fixed(x: Any) -> Any:
    """The number that an argument of a node is, whatever runs; None otherwise."""
    if not isinstance(x, Value):
        return x
    x = _captured(x)
    return x.node.args[0] if x.node is not None and x.node.op == "py.constant" else None


def _usual(value: Value) -> Any:
    """The number that a value usually is, when it comes from sizes alone; None otherwise."""
    value = _captured(value)
    node = value.node
    if node is None or not node.op.startswith("py."):
        return None
    if node.op == "py.size":
        return _USUAL_SIZE
    if node.op == "py.constant":
        return node.args[0]
    function = PYTHON.get(node.op[3:])
    parts = [_usual(a) if isinstance(a, Value) else a for a in node.args]
    if function is None or any(p is None for p in parts):
        return None
    if node.op in ("py.eq", "py.ne") and not any(_fixed(a) in (0, 1) for a in node.args):
        return node.op == "py.eq"  # two sizes that torch compares, however each was computed
    try:
        return function(*parts)
    except (ArithmeticError, ValueError, TypeError):
        return None


def _captured(value: Value) -> Value:
    """The value that the input of a branch or a loop body stands for, where that is one from outside of it."""
    graph: FuncGraph | None = current_graph()
    while value.node is None and graph is not None:
        value = next(
            (k for k, v in graph.captures.items() if v is value and isinstance(k, Value)), value
        )
        graph = graph.outer
    return value


def _structure(value: Any) -> Any:
    """What a number is computed from: equal for two computations of the same number."""
    if not isinstance(value, Value) or value.node is None:
        return value
    if value.node.op == "py.size":
        return value.node.args
    return (value.node.op, *map(_structure, value.node.args))


def _node_unary(op: str):
    return lambda self: combine(op, self)


def _node_binary(op: str):
    return lambda self, other: combine(op, self, other)


for _method, _op in {
    "add": "add", "sub": "sub", "mul": "mul", "mod": "mod", "float_pow": "pow", "pow_by_natural": "pow", "pow": "pow",
    "float_truediv": "truediv", "int_truediv": "truediv", "truediv": "truediv", "int_floordiv": "floordiv",
    "floordiv": "floordiv", "lshift": "lshift", "rshift": "rshift", "and_": "and_", "or_": "or_", "sym_and": "and_",
    "sym_or": "or_", "bitwise_and": "and_", "bitwise_or": "or_", "bitwise_xor": "xor", "eq": "eq", "ne": "ne",
    "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "sym_min": "min", "sym_max": "max", "min": "min", "max": "max",
}.items():  # fmt: skip
    setattr(ScalarNode, _method, _node_binary(_op))
for _method, _op in {"neg": "neg", "pos": "pos", "abs": "abs", "sym_not": "not", "sym_float": "float",
                     "sym_int": "int", "trunc": "trunc", "ceil": "ceil", "floor": "floor"}.items():  # fmt: skip
    setattr(ScalarNode, _method, _node_unary(_op))


def _expression(op: str, nodes: tuple[ScalarNode, ...]) -> Any:
    parts = tuple(n.expr for n in nodes)
    return None if any(p is None for p in parts) else (op, *parts)


def _kind(op: str, kinds: tuple[type, ...], nodes: tuple[ScalarNode, ...]) -> type:
    """The type that Python gives the result."""
    if op in COMPARISONS or op in ("not", "bool"):
        return bool
    if op in ("int", "trunc", "ceil", "floor", "lshift", "rshift", "invert"):
        return int
    if op in ("truediv", "float"):
        return float
    if op in ("and_", "or_", "xor") and all(k is bool for k in kinds):
        return bool
    if op in ("min", "max") and len(set(kinds)) == 1:
        return kinds[0]
    if op == "pow" and kinds == (int, int) and nodes[1].ref is None and nodes[1].constant_ < 0:
        return float
    return float if float in kinds else int


_UNITS = {"add": 0, "mul": 1}
_OF_EQUALS = {
    "eq": True,
    "le": True,
    "ge": True,
    "ne": False,
    "lt": False,
    "gt": False,
}  # of one number with itself


def combine(op: str, *nodes: ScalarNode) -> ScalarNode:
    """Record ``py.<op>`` over nodes; constants fold."""
    if all(n.ref is None for n in nodes):
        number = PYTHON[op](*(n.constant_ for n in nodes))
        return ScalarNode(type(number), constant=number, hint=number, expr=number)
    if op in _UNITS and (same := _unchanged(nodes, _UNITS[op])) is not None:
        return same
    if op in _OF_EQUALS and nodes[0].kind is not float and nodes[0].same(nodes[1]):
        return nodes[0].wrap_bool(_OF_EQUALS[op])
    graph = current_graph()
    kinds = tuple(n.kind for n in nodes)
    kind = _kind(op, kinds, nodes)
    value = _recorded(graph, op, tuple(n.value(graph) for n in nodes), kind, float not in kinds)
    hint = None
    if all(n.hint is not None for n in nodes) and op in PYTHON:
        hint = PYTHON[op](*(n.hint for n in nodes))
    return ScalarNode(kind, Ref(value, graph), hint=hint, expr=_expression(op, nodes))


def _unchanged(nodes: tuple[ScalarNode, ...], unit: int) -> ScalarNode | None:
    """The other one of two integers, where one is 0 in a sum or 1 in a product."""
    a, b = nodes
    for x, y in ((a, b), (b, a)):
        if x.ref is None and x.kind is int is y.kind and x.constant_ == unit:
            return y
    return None


def _recorded(graph: FuncGraph, op: str, parts: tuple, kind: type, exact: bool) -> Value:
    """The value of ``py.<op>``: an ``exact`` one (of integers) is recorded once in a graph. torch asks for the same sizes and
    strides over and over."""
    key = (op, kind, *parts)
    found = graph.numbers.get(key) if exact else None
    if found is None or found in graph.undone:
        found = graph.emit(f"py.{op}", *parts, type=ScalarType(kind))
        if exact:
            graph.numbers[key] = found
    return found


# ---- the numbers that users see


def _as_node(x: Any) -> ScalarNode | None:
    if isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return x.node
    if isinstance(x, (bool, int, float)):
        return ScalarNode(type(x), constant=x, hint=x, expr=x)
    return None


def staged(node: ScalarNode) -> Any:
    """The number over a node: a plain one when it is constant."""
    if node.ref is None:
        return node.constant_
    return {int: StagedInt, float: StagedFloat, bool: StagedBool}[node.kind](node)


def new_scalar(op: str, args: tuple, kind: type, graph: FuncGraph, **kwargs) -> Any:
    """Record an op that gives a Python number of ``kind``."""
    value = graph.emit(op, *args, type=ScalarType(kind), **kwargs)
    return staged(ScalarNode(kind, Ref(value, graph)))


def scalar(value: Value, graph: FuncGraph) -> Any:
    """The staged number for a value of ``ScalarType``."""
    return staged(ScalarNode(value.type.kind, Ref(value, graph)))


def size_of(
    value: Value, dim: int, graph: FuncGraph, hint: Any = None, expr: Any = None
) -> torch.SymInt:
    """The staged size of a dimension of a tensor value."""
    size = graph.emit("py.size", value, dim, type=ScalarType(int))
    return StagedInt(ScalarNode(int, Ref(size, graph), hint=hint, expr=expr))


def to_python(x: Any, op: str) -> Any:
    """``op`` ("int", "float", "bool", ...) of a staged number."""
    return staged(combine(op, _as_node(x)))


def _operator(op: str, reflected: bool = False):
    def method(self, other):
        node = _as_node(other)
        if node is None:
            return NotImplemented
        return staged(combine(op, node, self.node) if reflected else combine(op, self.node, node))

    return method


def _unary_operator(op: str):
    return lambda self: staged(combine(op, self.node))


class _Staged:
    """The operators of staged numbers; ``node`` is a ``ScalarNode``."""

    __slots__ = ()
    node: ScalarNode

    def __bool__(self):
        return self.node.bool_()

    def __int__(self):
        return self.node.int_()

    def __index__(self):
        return self.node.int_()

    def __float__(self):
        return float(self.node._decide("float"))

    def __hash__(self):
        raise StagingError(
            "a staged number cannot be hashed: its value is known only when the graph runs. As a key of a dict, or an item of a set, "
            "it is compared with what is there by `in`, get() and []; a set, and new keys, cannot be made of it",
            user_location(),
        )

    def __repr__(self):
        return f"<symbolic {self.node.kind.__name__}>"

    __str__ = __repr__

    def __format__(self, spec):
        return repr(self)

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __round__(self, digits=None):
        graph = current_graph()
        kind = int if digits is None or self.node.kind is not float else float
        return new_scalar("py.round", (self.node.value(graph), digits), kind, graph)

    def item(self):
        return self

    def is_integer(self):
        return self == self // 1

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self


for _op in ARITHMETIC:
    _plain = _op.rstrip("_")
    setattr(_Staged, f"__{_plain}__", _operator(_op))
    setattr(_Staged, f"__r{_plain}__", _operator(_op, reflected=True))
for _op in COMPARISONS:
    setattr(_Staged, f"__{_op}__", _operator(_op))
for _op in ("neg", "pos", "abs", "invert", "trunc", "ceil", "floor"):
    setattr(_Staged, f"__{_op}__", _unary_operator(_op))


class StagedInt(_Staged, torch.SymInt):
    """A Python int known when the graph runs."""


class StagedFloat(_Staged, torch.SymFloat):
    """A Python float known when the graph runs."""


class StagedBool(_Staged, torch.SymBool):
    """A Python bool known when the graph runs."""
