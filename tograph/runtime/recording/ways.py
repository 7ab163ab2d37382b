"""Zeros in a gradient that stand for None: what a formula makes of them is zero.

Where the path that a run takes does not use a tensor, eager PyTorch has no gradient of it, and runs no formula behind it. A graph has
zeros there, and the formula of a square root at 0 makes NaN of these: 0 / 0. So a cotangent that only some paths give has
a **way**, a bool of the graph that says whether there is one. What a formula computes of it and of other floating tensors is replaced by
zeros where there is none; what only scales or moves it has the same way. A sum has one where one of its terms has; with a term that is
always there it has no way: it is always there.

The cotangents of the state of loops, those of items of lists, and gradients of the second order on have no ways.
"""

from __future__ import annotations

from typing import Any

import torch

from ..graph.ir import Node, Value
from ..graph.types import BOOL, TensorType, device_of
from ..symbols.funcgraph import FuncGraph, current_graph
from ..symbols.symbolic import argument

_SUMS = frozenset(["aten.add.Tensor", "aten.sub.Tensor", "aten.stack.default", "aten.cat.default"])


def tell(x: Any, way: Value) -> None:
    """``x``, a cotangent that was recorded just now, is zeros that stand for None where ``way`` is False."""
    if isinstance(x, torch.Tensor):
        graph = current_graph()
        value = argument(graph, x)
        if _floating(value):
            graph.root.ways[value] = way


def results(node: Node, graph: FuncGraph) -> list[Value]:
    """The outputs of a node that was recorded just now, zeros where its cotangent has no way."""
    known = graph.root.ways
    if not known:
        return node.outputs
    found = list(dict.fromkeys(known[v] for v in node.inputs if v in known))
    beside = any(_floating(v) and v not in known for v in node.inputs)
    sums = node.op in _SUMS
    if not found or (beside and sums) or (len(found) > 1 and not sums):
        return node.outputs
    way = found[0]
    for other in found[1:]:
        way = graph.emit("py.or_", way, other, type=BOOL)
    outs = node.outputs
    if beside and torch._C._current_autograd_node() is not None:
        outs = [_zero_without(v, way, graph) if _floating(v) else v for v in outs]
    known.update((v, way) for v in outs if _floating(v))
    return outs


def _floating(v: Value) -> bool:
    kind = v.type
    return isinstance(kind, TensorType) and (kind.dtype.is_floating_point or kind.dtype.is_complex)


def _zero_without(v: Value, way: Value, graph: FuncGraph) -> Value:
    device = device_of(v.type)
    test = TensorType(torch.bool, (), v.type.device)
    taken = graph.emit("aten.scalar_tensor.default", way, type=test, dtype=torch.bool, device=device)  # fmt: skip
    return graph.emit("aten.where.ScalarOther", taken, v, 0, type=v.type)
