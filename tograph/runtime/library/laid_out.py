"""Where the elements of a gradient lie in memory when it becomes the ``.grad`` of a leaf: as those of the leaf.

What a staged construct gives lies in a run as its branches made it, an expanded cotangent with all elements in one place, and shows while tracing the strides of
a tensor whose elements lie in order. So what was computed of such is not taken at its word.
"""

from __future__ import annotations

from typing import Any

import torch

from ..graph.ir import Value
from ..graph.types import TensorType
from ..symbols.funcgraph import FuncGraph, current_graph
from ..symbols.symbolic import value_of

# They lay out what they give themselves, whatever they are given.
_IN_ORDER = ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "zeros", "ones", "full", "scalar_tensor", "arange", "embedding_dense_backward", "_embedding_bag_dense_backward", "one_hot")  # fmt: skip


def laid_out(g: torch.Tensor, leaf: torch.Tensor) -> torch.Tensor:
    """A gradient in the layout of its leaf, which torch gives it: that of a sum, for one, comes as one number expanded."""
    if not all(type(n) is int for x in (g, leaf) for n in (*x.shape, *x.stride())):
        return g
    wanted: Any = torch.empty_like(leaf, device="meta").stride()
    if all(a == b for n, a, b in zip(g.shape, g.stride(), wanted) if n > 1) and _is_known(g):
        return g
    if leaf.is_contiguous():
        return g.clone(memory_format=torch.contiguous_format)
    return torch.empty_like(leaf, requires_grad=False).copy_(g)


def _is_known(g: torch.Tensor) -> bool:
    """Whether the strides that a tensor shows are those that it has in every run."""
    graph = current_graph()
    todo, seen = [value_of(g, graph)], set[Value]()
    while todo:
        value = todo.pop()
        if value in seen or not _has_strides(value):
            continue
        seen.add(value)
        node = value.node
        if node is None:
            if graph.outer is not None and not _is_outside(value, graph):
                return False
        elif node.regions or not node.op.startswith(("aten.", "tg.read")):
            return False
        elif node.op.split(".")[1] not in _IN_ORDER:
            todo += node.inputs
    return True


def _has_strides(value: Value) -> bool:
    kind = value.type
    return isinstance(kind, TensorType) and len(kind.shape) > 0


def _is_outside(value: Value, graph: FuncGraph) -> bool:
    """Whether an input of a region stands for a tensor from outside of the function, which is laid out as it says."""
    while graph.outer is not None:
        at = next((k for k, v in graph.captures.items() if v is value), None)
        if at is None:
            return False
        found = graph.arguments.get(at)
        if not isinstance(found, Value):
            return False
        value, graph = found, graph.outer
        if value.node is not None:
            return False
    return True
