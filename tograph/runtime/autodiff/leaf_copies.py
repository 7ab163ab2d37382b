"""What stands for the leaves that regions made where a graph is recorded anew, or a region is copied: these values are such leaves, too.

Not those that were used before they were leaves: what uses the copy is not told apart. ``Root.anew`` says it of all tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph.ir import Graph, Node
from ..symbols.funcgraph import current_graph
from ..symbols.symbolic import SymTensor
from .objects import value_in


def _known() -> list[Any]:
    root = current_graph().root.origin or current_graph().root
    return [leaves for leaves in (root.leaves, root.left_leaves) if leaves]


def replayed(node: Node, made: Sequence[Any]) -> None:
    """A node was recorded anew, and gave these objects."""
    origin = current_graph().root.origin
    for v, x in zip(node.outputs, made) if origin is not None else ():
        if isinstance(x, SymTensor) and x.ref is not None:
            origin.anew[x.ref.value] = origin.anew.get(v, v)
    for leaves in _known():
        for v, x in zip(node.outputs, made):
            if leaves.get(v) == []:
                leaves.setdefault(value_in(x, current_graph()), [])


def copied(old: Graph, new: Graph) -> None:
    """A region was copied, node by node."""
    origin = current_graph().root.origin
    if origin is not None or _known():
        _copied(old, new, {} if origin is None else origin.anew)


def _copied(old: Graph, new: Graph, anew: dict[Any, Any]) -> None:
    anew[new] = anew.get(old, old)
    for node, copy in zip(old.nodes, new.nodes, strict=True):
        anew.update((x, anew.get(v, v)) for v, x in zip(node.outputs, copy.outputs))
        for leaves in _known():
            for v, x in zip(node.outputs, copy.outputs):
                if leaves.get(v) == []:
                    leaves.setdefault(x, [])
        for name, region in node.regions.items():
            _copied(region, copy.regions[name], anew)
