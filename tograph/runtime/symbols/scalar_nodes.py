"""The node behind a staged number: a constant, or a value of a graph. It is what torch asks of a symbolic size.

``combine`` records ``py.*`` ops over nodes: Python's own arithmetic, done when the graph runs; constants fold.

A node that comes from the size of an argument has a ``hint``, the size at the traced call. Where torch must know whether a
relation of sizes holds, the hint answers and the relation becomes a guard of the trace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ...errors import GraphBoolError
from ..graph.ir import Value
from ..graph.ops import COMPARISONS, PYTHON
from ..graph.types import ScalarType
from ..inference.meta_kernel import rules
from .asking import number_asked, refusal
from .assumptions import assume, assumed, exactly, of_one_item, settled
from .contents import asked_for
from .funcgraph import FuncGraph, Ref, current_graph, user_location
from .known import UNKNOWN, known
from .required import expected


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

    def decide(self, what: str):
        """The number itself, where it can be known while tracing; it becomes a guard."""
        if self.ref is None:
            return self.constant_
        found = known(self.ref.value)
        if found is not UNKNOWN:
            return found
        if self.hint is None or self.expr is None:
            if (number := settled(self.ref.value)) is not None:
                return number
            if (found := asked_for(self.ref.value)) is not UNKNOWN:
                return found
            if self.kind is bool and (answer := expected(self.ref)) is not None:
                return answer
            error = GraphBoolError(
                f"Using a staged Python `{self.kind.__name__}` as a Python `{what}` is not allowed: its value is known "
                f"only when the graph runs. {number_asked()}",
                user_location(),
            )
            error.formula = torch._C._current_autograd_node()
            raise refusal(error)
        current_graph().root.guards.append((self.expr, self.hint))
        return self.hint

    def guard_bool(self, file, line):
        if self.ref is not None and (self.hint is None or self.expr is None):
            answer = assumed(self.ref)
            if answer is None and current_graph().replaying:
                answer = self._settled()
            if answer is not None:
                return answer
        return bool(self.decide("bool"))

    def require(self):
        """A relation of sizes that an op needs: a guard, or what the graph checks."""
        if self.ref is not None and (self.hint is None or self.expr is None):
            assume(self.ref)
        else:
            self.guard_bool("", 0)

    def _settled(self) -> bool | None:
        """While a recorded graph is replayed: two unknown sizes that torch compares are equal, for the program ran; none is 0 or 1."""
        node = self.ref.value.node
        if node is None or node.op not in ("py.eq", "py.ne"):
            return None
        small = any(not isinstance(a, Value) and a in (0, 1) for a in node.args)
        return (node.op == "py.eq") is not small

    def guard_int(self, file, line):
        if self.ref is not None and (self.hint is None or self.expr is None):
            length = exactly(self.ref)
            if length is not None:
                return length
        return int(self.decide("int"))

    def guard_float(self, file, line):
        return float(self.decide("float"))

    def bool_(self):
        return self.guard_bool("", 0) if rules.depth else bool(self.decide("bool"))

    def int_(self):
        return int(self.decide("int"))

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
        if torch._C._current_autograd_node() is not None and of_one_item(self.ref):
            return bool(assumed(self.ref))  # whether a cotangent is a sum
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

    def sym_sqrt(self):
        if self.ref is not None:
            return combine("math.sqrt", self)
        root = math.sqrt(self.constant_)
        return ScalarNode(float, constant=root, hint=root, expr=root)

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
    if op in ("truediv", "float", "math.sqrt"):
        return float
    if op in ("and_", "or_", "xor") and all(k is bool for k in kinds):
        return bool
    if op in ("min", "max") and len(set(kinds)) == 1:
        return kinds[0]
    if op == "pow" and kinds == (int, int) and nodes[1].ref is None and nodes[1].constant_ < 0:
        return float
    return float if float in kinds else int


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
    if op in _SIMPLE and (same := _SIMPLE[op](*nodes)) is not None:
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


def _beside(unit: int) -> Callable[[ScalarNode, ScalarNode], ScalarNode | None]:
    """The other one of two integers, where one is 0 in a sum or 1 in a product."""

    def other(a: ScalarNode, b: ScalarNode) -> ScalarNode | None:
        for x, y in ((a, b), (b, a)):
            if x.ref is None and x.kind is int is y.kind and x.constant_ == unit:
                return y
        return None

    return other


def _by_one(a: ScalarNode, b: ScalarNode) -> ScalarNode | None:
    """What is left of an integer divided by 1."""
    whole = b.ref is None and b.kind is int is a.kind and b.constant_ == 1
    return a.wrap_int(0) if whole else None


_SIMPLE = {"add": _beside(0), "mul": _beside(1), "mod": _by_one}


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
