"""Staged Python numbers: ``torch.SymInt``, ``SymFloat`` and ``SymBool`` over a value of a graph.

torch takes these wherever it takes a number: as sizes, as indices, as the scalar of ``x * s``, with the
promotion of a Python number. Here each carries a ``ScalarNode``, which records ``py.*`` ops: Python's own
arithmetic, done when the graph runs. ``StagedInt`` and its sisters override every operator, so that mixed kinds,
bools in arithmetic and divisions give what Python gives; the sizes that torch makes itself (of a tensor with a
symbolic shape) are plain ``SymInt`` over the same node.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ...errors import StagingError, SymbolicValueError
from ..graph.ir import Value
from ..graph.ops import ARITHMETIC, COMPARISONS
from ..graph.types import ScalarType
from .contents import content
from .funcgraph import FuncGraph, Ref, current_graph, is_tracing, user_location
from .known import UNKNOWN
from .retrace import Retrace
from .scalar_nodes import ScalarNode, combine


def _as_node(x: Any) -> ScalarNode | None:
    if isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return x.node
    if isinstance(x, (bool, int, float)):
        # Of subclasses the number: numpy's float64 and the items of an IntEnum have a text that is no number of Python.
        kind = next(k for k in (bool, int, float) if isinstance(x, k))
        x = x if type(x) is kind else kind(x)
        return ScalarNode(kind, constant=x, hint=x, expr=x)
    return None


def staged(node: ScalarNode) -> Any:
    """The number over a node: a plain one when it is constant."""
    if node.ref is None:
        return node.constant_
    return {int: StagedInt, float: StagedFloat, bool: StagedBool}[node.kind](node)


_OF_TORCH = (torch.SymInt, torch.SymFloat, torch.SymBool)


def own(x: Any) -> Any:
    """A number of torch's own class, such as a size or what torch's operators made of one, as ours: those lack some of Python's operators and methods."""
    return staged(x.node) if type(x) in _OF_TORCH else x


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


_OF_INTS = frozenset(["lshift", "rshift", "and_", "or_", "xor"])


def to_python(x: Any, op: str) -> Any:
    """``op`` ("int", "float", "bool", ...) of a staged number."""
    return staged(combine(op, _as_node(x)))


def _operator(op: str, reflected: bool = False):
    of_ints = op in _OF_INTS

    def method(self, other):
        node = _as_node(other)
        if isinstance(other, complex):
            raise StagingError(
                "a complex number of one that is known only when the graph runs is not supported; use torch.complex",
                user_location(),
            )
        if node is None or (of_ints and float in (node.kind, self.node.kind)):
            return NotImplemented
        return staged(combine(op, node, self.node) if reflected else combine(op, self.node, node))

    return method


def _unary_operator(op: str):
    return lambda self: staged(combine(op, self.node))


def _invert(self):
    if self.node.kind is float:
        raise TypeError("bad operand type for unary ~: 'float'")
    return staged(combine("invert", self.node))


# What a function of numpy gives of an array and a staged number, NotImplemented where that is not known: set by ``converters.staged_array``.
BESIDE_ARRAYS: list[Callable[[Any, Any], Any]] = [lambda ufunc, inputs: NotImplemented]


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
        return float(self.node.decide("float"))

    def __hash__(self):
        raise StagingError(
            "a staged number cannot be hashed: its value is known only when the graph runs. As a key of a dict, or an item of a set, "
            "it is compared with what is there by `in`, get() and []; a set, and new keys, cannot be made of it",
            user_location(),
        )

    def __repr__(self):
        if is_tracing() and current_graph().root.repeated:
            # Code that is not converted makes text of it: of a number of Python's, as the loop has it that was staged.
            raise Retrace(straight=True)
        return f"<{self.node.kind.__name__}, known when the graph runs>"

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
        if isinstance(digits, _Staged):
            digits = digits.node.value(graph)
        return new_scalar("py.round", (self.node.value(graph), digits), kind, graph)

    def item(self):
        return self

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        """Arithmetic with a number of numpy is that with a Python number."""
        op, others = _UFUNCS.get(ufunc.__name__), [x for x in inputs if not isinstance(x, _Staged)]
        if op is None or method != "__call__" or kwargs or not all(map(_counts_as_python, others)):
            found = BESIDE_ARRAYS[0](ufunc, inputs) if method == "__call__" and not kwargs else NotImplemented  # fmt: skip
            return self._no_array(f"numpy.{ufunc.__name__}") if found is NotImplemented else found
        return of_numpy(
            op(*[x.item() if isinstance(x, (np.generic, np.ndarray)) else x for x in inputs])
        )

    def __array__(self, *args, **kwargs):
        found = content(self.node.value(current_graph()))
        if found is UNKNOWN:
            self._no_array("a numpy array")
        return np.array(found, *args, **kwargs)

    def _no_array(self, what: str):
        raise SymbolicValueError(
            f"{what} needs the value of a staged Python `{self.node.kind.__name__}`, which is known only when the graph runs. Use functions of "
            "torch or math, or tg.py_function.",
            user_location(),
        )

    __invert__ = _invert

    def as_integer_ratio(self):
        """ValueError for NaN, OverflowError for an infinity, as Python's."""
        graph = current_graph()
        return tuple(
            new_scalar("py.ratio_part", (self.node.value(graph), part), int, graph)
            for part in (0, 1)
        )

    def __getattr__(self, name):
        kind = self.node.kind.__name__
        if hasattr(self.node.kind, name):
            raise StagingError(
                f"{kind}.{name} of a staged Python `{kind}` is not supported: its value is known only when the graph runs. "
                "Return the number and use it outside of the function, or use tg.py_function.",
                user_location(),
            )
        raise AttributeError(f"'{kind}' object has no attribute '{name}'", name=name, obj=self)

    real = property(lambda self: +self)
    imag = property(lambda self: 0.0 if self.node.kind is float else 0)

    def conjugate(self):
        return +self

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self


_UFUNCS = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv, "true_divide": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "power": operator.pow, "equal": operator.eq, "not_equal": operator.ne,
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge, "absolute": abs,
}  # fmt: skip


def _counts_as_python(x: Any) -> bool:
    """Whether arithmetic with it is Python's: numpy's float32 and small integers round and wrap."""
    kind = getattr(x, "dtype", None)
    return np.ndim(x) == 0 and (kind is None or kind in (np.float64, np.int64, np.bool_))


for _op in ARITHMETIC:
    _plain = _op.rstrip("_")
    setattr(_Staged, f"__{_plain}__", _operator(_op))
    setattr(_Staged, f"__r{_plain}__", _operator(_op, reflected=True))
for _op in COMPARISONS:
    setattr(_Staged, f"__{_op}__", _operator(_op))
for _op in ("neg", "pos", "abs", "trunc", "ceil", "floor"):
    setattr(_Staged, f"__{_op}__", _unary_operator(_op))


def _bits(op: str):
    """A method of ints that counts bits."""

    def count(self):
        graph = current_graph()
        return new_scalar(f"py.{op}", (self.node.value(graph),), int, graph)

    return count


class _Whole(_Staged):
    """What an int has, and a bool with it."""

    __slots__ = ()
    numerator = property(lambda self: +self)
    denominator = property(lambda self: 1)
    bit_length, bit_count = _bits("bit_length"), _bits("bit_count")
    if hasattr(int, "is_integer"):  # from Python 3.12 on

        def is_integer(self):
            return True


class StagedInt(_Whole, torch.SymInt):
    """A Python int known when the graph runs."""


class StagedFloat(_Staged, torch.SymFloat):
    """A Python float known when the graph runs."""

    def is_integer(self):
        return self == self // 1

    def hex(self):  # torch's own asks for the value
        return self.__getattr__("hex")


class StagedBool(_Whole, torch.SymBool):
    """A Python bool known when the graph runs."""


def _logical(op: str):
    plain = getattr(StagedBool, f"__{op}__")

    def method(self, other):
        return of_numpy(plain(self, bool(other) if isinstance(other, np.bool_) else other))

    return method


class NumpyBool(StagedBool):
    """A bool that numpy gave: ``~`` negates it, where that of a bool of Python is an int; ``&``, ``|`` and ``^`` keep it one."""

    def __invert__(self):
        return of_numpy(staged(combine("not", self.node)))


for _op in ("and", "or", "xor", "rand", "ror", "rxor"):
    setattr(NumpyBool, f"__{_op}__", _logical(_op))


def of_numpy(x: Any) -> Any:
    """A result of a function or number of numpy."""
    return NumpyBool(x.node) if isinstance(x, StagedBool) else x


for _kind, _name in (
    (StagedInt, "int"),
    (StagedFloat, "float"),
    (StagedBool, "bool"),
    (NumpyBool, "bool"),
):
    _kind.__name__ = _kind.__qualname__ = _name  # what Python's messages call it
