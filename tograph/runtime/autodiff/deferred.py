"""Sums over the trips of a loop that are one matrix product in the end.

The gradient of a weight that every trip uses is a sum of products: ``sum over t of A_t' B_t``. Instead of a product and an addition
of the size of the weight in every trip, the backward loop collects A_t and B_t, and after it one product of all of them
stacked gives the sum; a bias is a sum over the rows of all B_t. Views of the product (``t``, ``view``) commute with the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..ir import Node, Value
from ..ops import overload
from ..types import TensorType
from .objects import emit

_VIEWS = ("aten.t.default", "aten.view.default", "aten._unsafe_view.default", "aten.transpose.int")


@dataclass
class Deferred:
    """``operands``: what each trip collects. ``views``: what happens to the sum, in order."""

    operands: list[Value]
    views: list[Node]
    keep_dim: bool = False

    def total(self, lists: list[Any]) -> Any:
        """The sum, from the collected operands."""
        stacked = [_stacked(items, v) for items, v in zip(lists, self.operands)]
        if len(stacked) == 2:
            out = torch.mm(stacked[0].t(), stacked[1])
        else:
            out = stacked[0].sum(0, keepdim=self.keep_dim)
        for node in self.views:
            out = overload(node.op)(out, *node.args[1:])
        return out


def _stacked(items: Any, like: Value) -> Any:
    kind = like.type
    assert isinstance(kind, TensorType)
    out = TensorType(kind.dtype, (None, *kind.shape[1:]), kind.device)
    return emit(
        "tg.list_concat", items, kind.dtype, kind.shape[1:], torch.device(kind.device), type=out
    )


def deferred(g: Value, fixed: set[Value]) -> Deferred | None:
    """How a cotangent that is summed over the trips can be computed after them; ``fixed`` values are the same in every trip."""
    views: list[Node] = []
    while g.node is not None and g.node.op in _VIEWS and not g.node.kwargs:
        views.insert(0, g.node)
        g = g.node.args[0]
    node = g.node
    if node is None or not all(isinstance(a, (int, list)) for v in views for a in v.args[1:]):
        return None
    if node.op == "aten.mm.default":
        left, right = node.args
        if left.node is None or left.node.op != "aten.t.default":
            return None
        operands = [left.node.args[0], right]
        keep = False
    elif node.op == "aten.sum.dim_IntList" and list(node.args[1]) == [0] and not node.kwargs:
        operands, keep = [node.args[0]], len(node.args) > 2 and bool(node.args[2])
    else:
        return None
    if any(v in fixed or not _matrix(v) for v in operands):
        return None
    return Deferred(operands, views, keep)


def _matrix(v: Value) -> bool:
    return isinstance(v.type, TensorType) and len(v.type.shape) == 2 and None not in v.type.shape
