"""Items and parts of tensors that kernels read where they are, instead of a copy.

``opened``    a part that ``split`` or ``unbind`` gives is a slice or an item of its own, so that kernels look through it.
``readable``  an item at a number of the run that surely is inside becomes ``tg.item``, which regions read through as they do through views;
              what else asks for it, such as a product, gets a copy.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import carried, replaced
from ..graph.types import TensorType
from ..kernels.views import ITEM

PARTS = frozenset(["aten.split.Tensor", "aten.split_with_sizes.default", "aten.unsafe_split.Tensor",
                   "aten.unsafe_split_with_sizes.default", "aten.unbind.int"])  # fmt: skip


def opened(graph: Graph) -> Graph:
    """Change the parts of tensors in a graph and in those inside of it, and return it."""
    return replaced(graph, lambda node, nodes: parts(node, nodes) if node.op in PARTS else None)


def parts(node: Node, nodes: list[Node]) -> list[Value]:
    """Append a slice or an item for each part."""
    x = node.args[0]
    by_item = node.op == "aten.unbind.int"
    d = (node.args[1:] if by_item else node.args[2:])[:1]
    dim = d[0] if d else 0
    made: list[Value] = []
    start = 0
    for i, v in enumerate(node.outputs):
        width = 1 if by_item else v.type.shape[dim]
        op, args = ("aten.select.int", (x, dim, i)) if by_item else ("aten.slice.Tensor", (x, dim, start, start + width))  # fmt: skip
        nodes.append(Node(op, args, {}, [v.type], location=node.location))
        made.append(nodes[-1].outputs[0])
        start += width
    return made


def readable(graph: Graph, safe: Set[Node]) -> None:
    """Change the items of a graph that are among ``safe``; not of a tensor that is written there: it is written in place, behind a copy of the item."""
    written = {v for n in graph.nodes for v in _written(n)}
    for node in graph.nodes:
        if node.op == "aten.select.int" and node in safe and node.args[0] not in written and _item(node.args, node.outputs[0]):  # fmt: skip
            node.op, node.control_inputs = ITEM, []


def _written(node: Node) -> tuple[Any, ...]:
    """What a node may write over, if nobody reads it later."""
    return node.args[:1] if "_scatter" in node.op else node.args[: carried(node)]


def _item(args: tuple[Any, ...], out: Value) -> bool:
    x, _, number = args
    known = isinstance(x.type, TensorType) and isinstance(out.type, TensorType)
    return isinstance(number, Value) and known and 0 not in out.type.shape and 0 not in x.type.shape
