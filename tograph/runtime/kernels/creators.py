"""Ops that make tensors of numbers: ``CREATORS[op]`` gives the element at an index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..graph.ir import Node, Value
from ..graph.types import ScalarType
from .elements import Elements
from .exprs import Term
from .loop_ir import Unsupported
from .views import Index


def _creator(place: int, default: Any = None) -> Callable[[Elements, Node, Index], Term]:
    """A tensor whose elements are argument ``place``, or always ``default``."""

    def formula(b: Elements, node: Node, index: Index) -> Term:
        value = default if default is not None else node.args[place]
        if isinstance(value, Value) and isinstance(value.type, ScalarType):
            return b.at(value, ())
        if isinstance(value, Value) or not isinstance(value, (bool, int, float)):
            raise Unsupported("a fill value that is not a number")
        return b.maker.const(value, b.dtype(node.outputs[0]))

    return formula


def _arange(b: Elements, node: Node, index: Index) -> Term:
    args = node.args
    start, step = (0, 1) if len(args) == 1 else (args[0], args[2] if len(args) > 2 else 1)
    if not all(type(a) is int for a in (start, step)):
        raise Unsupported("a range of floats")
    return b.maker.index(index[0].scaled(step).shifted(start))


def creator_value(node: Node) -> Value | None:
    """The number of the run that a creator's elements are, if they are one."""
    place = {"full": 1, "full_like": 1, "scalar_tensor": 0}.get(node.op.split(".")[1])
    value = node.args[place] if place is not None else None
    return value if isinstance(value, Value) else None


CREATORS: dict[str, Callable[[Elements, Node, Index], Term]] = {
    "aten.full.default": _creator(1),
    "aten.full_like.default": _creator(1),
    "aten.scalar_tensor.default": _creator(0),
    "tg.constant": _creator(0),
    "aten.zeros.default": _creator(0, 0),
    "aten.zeros_like.default": _creator(0, 0),
    "aten.empty.memory_format": _creator(0, 0),  # whatever is there in eager PyTorch
    "aten.empty_like.default": _creator(0, 0),
    "aten.ones.default": _creator(0, 1),
    "aten.ones_like.default": _creator(0, 1),
    "aten.arange.default": _arange,
    "aten.arange.start": _arange,
    "aten.arange.start_step": _arange,
}  # fmt: skip
