"""Weights that every iteration of a loop multiplies by are laid out for that once, before the loop.

``x @ w.t()`` with a ``w`` from outside reads rows of ``w``; the micro-kernel for contiguous columns is up to twice as fast, from a few rows
of ``x`` on. So a transposed matrix that a loop only takes the product with is copied where the loop begins.
"""

from __future__ import annotations

import torch

from ..graph.families import MATRIX_PRODUCTS
from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import carried, copied, lead, passed
from ..graph.types import TensorType

ROWS = 4  # of the matrix on the left, below which a copy does not pay
_TURNED = frozenset(["aten.t.default", "aten.transpose.int", "aten.permute.default"])
_DTYPES = (torch.float32, torch.float64)


def packed(graph: Graph) -> Graph:
    """``graph``, or a copy of it in which such matrices are contiguous."""
    if not any(_places(n) for n in graph.nodes):
        return graph
    made = copied(graph)
    nodes: list[Node] = []
    for node in made.nodes:
        for place in _places(node):
            x = node.args[place]
            copy = Node("aten.clone.default", (x,), {"memory_format": torch.contiguous_format}, [x.type], location=node.location)  # fmt: skip
            nodes.append(copy)
            node.args = (*node.args[:place], copy.outputs[0], *node.args[place + 1 :])
        nodes.append(node)
    made.nodes = nodes
    return made


def _places(node: Node) -> list[int]:
    """The arguments of a loop that are to be copied."""
    if node.op != "While":
        return []
    first = lead(node)
    return [
        first + i
        for i, x in enumerate(passed(node))
        if i >= carried(node) and _is_turned(x) and _multiplied(node, i)
    ]


def _is_turned(x: object) -> bool:
    if not isinstance(x, Value) or x.node is None or x.node.op not in _TURNED:
        return False
    kind = x.type
    return isinstance(kind, TensorType) and kind.dtype in _DTYPES and len(kind.shape) == 2 and None not in kind.shape and min(kind.shape) > 1  # type: ignore[type-var]  # fmt: skip


def _multiplied(node: Node, place: int) -> bool:
    """Whether the regions of a node use an input on the right of products only, and in one at least."""
    found = [_use(region, region.inputs[place]) for region in node.regions.values()]
    return None not in found and any(found)


def _use(region: Graph, x: Value) -> bool | None:
    """Whether products have ``x`` on the right; None where something else uses it."""
    if x in region.outputs:
        return None
    used = False
    for node in region.nodes:
        if x not in node.inputs:
            continue
        if node.regions:
            places = [i for i, a in enumerate(passed(node)) if a is x]
            if x in node.args[: lead(node) + carried(node)] or not all(_multiplied(node, i) for i in places):  # fmt: skip
                return None
        elif not _on_the_right(node, x):
            return None
        used = True
    return used


def _on_the_right(node: Node, x: Value) -> bool:
    if node.op not in MATRIX_PRODUCTS or node.kwargs or node.inputs.count(x) != 1:
        return False
    at = MATRIX_PRODUCTS[node.op]
    rows = node.args[at].type.shape[0]
    return node.args[at + 1] is x and (rows is None or rows >= ROWS)
