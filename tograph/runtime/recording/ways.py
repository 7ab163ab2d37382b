"""Zeros in a gradient that stand for None: what a formula makes of them is zero.

Where the path that a run takes does not use a tensor, eager PyTorch has no gradient of it, and runs no formula behind it. A graph has
zeros there, and the formula of a square root at 0 makes NaN of these: 0 / 0. So a cotangent that only some paths give has
a **way**, a bool of the graph that says whether there is one. What a formula computes of it and of other floating tensors is replaced by
zeros where there is none; what only scales or moves it has the same way, and what is computed of several of them is there where all are. A sum has one
where one of its terms has; with a term that is always there it has no way: it is always there.

The zeros are part of the graph: its derivative has the same way there, which ``_guard`` finds.

The cotangents of items of lists have no ways, nor have gradients of the second order whose first is taken inside of the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..graph.families import ZEROS
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
    if (guard := _guard(node)) is not None:
        known[node.outputs[0]] = of_all("py.and_", [guard, known.get(node.args[1], guard)], graph)
        return node.outputs
    if not known:
        return node.outputs
    found = list(dict.fromkeys(known[v] for v in node.inputs if v in known))
    beside = any(_floating(v) and v not in known for v in node.inputs)
    sums = node.op in _SUMS
    if not found or (beside and sums):
        return node.outputs
    way = of_all("py.or_" if sums else "py.and_", found, graph)
    outs = node.outputs
    several = len(found) > 1 and not sums
    if (beside or several) and torch._C._current_autograd_node() is not None:
        outs = [_zero_without(v, way, graph) if _floating(v) else v for v in outs]
    known.update((v, way) for v in outs if _floating(v))
    return outs


def of_all(op: str, found: Sequence[Value], graph: FuncGraph) -> Value:
    """What ``op`` makes of ways; what is the same is computed once."""
    way = found[0]
    for other in found[1:]:
        if other is not way:
            key = op, way, other
            if key not in graph.numbers:
                graph.numbers[key] = graph.emit(op, way, other, type=BOOL)
            way = graph.numbers[key]
    return way


def _guard(node: Node) -> Value | None:
    """The way by which a node of the derivative of ``_zero_without`` chooses between a cotangent and zeros."""
    test = node.args[0].node if node.op in ("aten.where.self", "aten.where.ScalarOther") else None
    if test is None or test.op != "aten.scalar_tensor.default" or not _none(node.args[2]):
        return None
    way = test.args[0].node if isinstance(test.args[0], Value) else None
    if way is None or way.op != "py.or_" or way.args[0] is not way.args[1]:
        return None
    return way.args[0] if torch._C._current_autograd_node() is not None else None


def _none(x: Any) -> bool:
    """Whether something is zeros."""
    node = x.node if isinstance(x, Value) else None
    if node is not None and node.op == "aten.scalar_tensor.default":
        x = node.args[0]
    return x == 0 if not isinstance(x, Value) else node is not None and node.op in ZEROS


def _floating(v: Value) -> bool:
    kind = v.type
    return isinstance(kind, TensorType) and (kind.dtype.is_floating_point or kind.dtype.is_complex)


def _zero_without(v: Value, way: Value, graph: FuncGraph) -> Value:
    device = device_of(v.type)
    way = graph.emit(
        "py.or_", way, way, type=BOOL
    )  # tells the test from those of the code, see ``_guard``
    test = TensorType(torch.bool, (), v.type.device)
    taken = graph.emit("aten.scalar_tensor.default", way, type=test, dtype=torch.bool, device=device)  # fmt: skip
    return graph.emit("aten.where.ScalarOther", taken, v, 0, type=v.type)
