"""Sums of matrix products over the trips of a loop.

The gradient of a weight that every trip uses is a sum of products: ``sum over t of A_t' B_t``; that of a bias is the sum over the rows
of all B_t. Instead of a product and an addition of the size of the weight in every trip, the backward loop does one of two things:

* it collects A_t and B_t, and after it one product of all of them stacked gives the sum;
* where A_t and B_t have many rows it adds their product to the **running** sum in one step (``addmm``), which on a CPU is made in the
  sum's own memory while the operands are still in the cache; collected they would have to come back from memory.

Views of the product (``t``, ``view``) commute with the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..graph.ir import Graph, Node, Value
from ..graph.ops import overload
from ..graph.types import TensorType
from .cut import size
from .graphs import append
from .objects import emit

MANY, MOST = 32, 1 << 20  # rows of the operands, and bytes of a sum, of which a cache holds some
_VIEWS = ("aten.t.default", "aten.view.default", "aten._unsafe_view.default", "aten.transpose.int")


@dataclass
class Deferred:
    """``node``: the product, or sum over rows, of ``operands`` in one trip. ``views``: what happens to the sum, in order."""

    node: Node
    operands: list[Value]
    views: list[Node]

    @property
    def running(self) -> bool:
        """Whether each trip adds its part."""
        kind, operand = self.node.outputs[0].type, self.operands[-1].type
        assert isinstance(kind, TensorType) and isinstance(operand, TensorType)
        rows = operand.shape[0] or 0
        near = size(self.node.outputs[0]) <= MOST or rows >= 4 * MANY
        return kind.device == "cpu" and rows >= MANY and near

    def add(self, graph: Graph, total: Value) -> Value:
        """Record the sum with this trip's part."""
        part = self.node.outputs[0]
        if self.node.op == "aten.mm.default":
            return append(graph, "aten.addmm.default", total, *self.node.args, type=part.type)
        return append(graph, "aten.add.Tensor", total, part, type=part.type)

    def zero(self) -> Any:
        """What a running sum begins with."""
        kind = self.node.outputs[0].type
        return torch.zeros(kind.shape, dtype=kind.dtype, device=kind.device)

    def total(self, lists: list[Any]) -> Any:
        """The sum, from the collected operands."""
        stacked = [_stacked(items, v) for items, v in zip(lists, self.operands)]
        if len(stacked) == 2:
            out = torch.mm(stacked[0].t(), stacked[1])
        else:
            out = stacked[0].sum(*self.node.args[1:])
        return self.viewed(out)

    def viewed(self, out: Any) -> Any:
        """The gradient, from the sum."""
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
    elif node.op == "aten.sum.dim_IntList" and list(node.args[1] or ()) == [0] and not node.kwargs:
        operands = [node.args[0]]
    else:
        return None
    if any(v in fixed or not _matrix(v) for v in operands):
        return None
    return Deferred(node, operands, views)


def _matrix(v: Value) -> bool:
    return isinstance(v.type, TensorType) and len(v.type.shape) == 2 and None not in v.type.shape
