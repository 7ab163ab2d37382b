"""Staged Python numbers: ``torch.SymInt``, ``SymFloat`` and ``SymBool`` over a value of a graph.

torch takes these wherever it takes a number: as sizes, as indices, as the scalar of ``x * s``, with the
promotion of a Python number. Here each carries a ``ScalarNode``, which records ``py.*`` ops: Python's own
arithmetic, done when the graph runs. ``StagedInt`` and its sisters override every operator, so that mixed kinds,
bools in arithmetic and divisions give what Python gives; the sizes that torch makes itself (of a tensor with a
symbolic shape) are plain ``SymInt`` over the same node.
"""

from __future__ import annotations

from typing import Any

import torch

from ..errors import StagingError
from .funcgraph import FuncGraph, Ref, current_graph, user_location
from .ir import Value
from .ops import ARITHMETIC, COMPARISONS
from .scalar_nodes import ScalarNode, combine
from .types import ScalarType


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
        return float(self.node.decide("float"))

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


for _kind, _name in ((StagedInt, "int"), (StagedFloat, "float"), (StagedBool, "bool")):
    _kind.__name__ = _kind.__qualname__ = _name  # what Python's messages call it
