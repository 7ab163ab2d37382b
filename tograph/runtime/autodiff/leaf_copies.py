"""What stands for the leaves that regions made where a graph is recorded anew, or a region is copied: these values are such leaves, too.

Not those that were used before they were leaves: what uses the copy is not told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph.ir import Graph, Node
from ..symbols.funcgraph import current_graph
from .objects import value_in


def _known() -> list[Any]:
    root = current_graph().root.origin or current_graph().root
    return [leaves for leaves in (root.leaves, root.left_leaves) if leaves]


def replayed(node: Node, made: Sequence[Any]) -> None:
    """A node was recorded anew, and gave these objects."""
    for leaves in _known():
        for v, x in zip(node.outputs, made):
            if leaves.get(v) == []:
                leaves.setdefault(value_in(x, current_graph()), [])


def copied(old: Graph, new: Graph) -> None:
    """A region was copied, node by node."""
    if _known():
        _copied(old, new)


def _copied(old: Graph, new: Graph) -> None:
    for node, copy in zip(old.nodes, new.nodes, strict=True):
        for leaves in _known():
            for v, x in zip(node.outputs, copy.outputs):
                if leaves.get(v) == []:
                    leaves.setdefault(x, [])
        for name, region in node.regions.items():
            _copied(region, copy.regions[name])
