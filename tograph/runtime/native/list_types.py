"""The kind of items of lists that begin empty: where a list is made nobody may have known it yet."""

from __future__ import annotations

from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.rewrite import copied, passed
from ..graph.types import ListType


def typed(graph: Graph) -> Graph:
    """``graph``, or a copy of it in which such lists have the kind of items that the loop or branch takes to which they are given."""
    if not any(map(_found, all_nodes(graph))):
        return graph
    made = copied(graph)
    for node in all_nodes(made):
        for value, kind in _found(node):
            value.type = kind
    return made


def _found(node: Node) -> list[tuple[Value, ListType]]:
    """The empty lists that a node's regions take as lists of something."""
    found = []
    for i, x in enumerate(passed(node) if node.regions else ()):
        empty = isinstance(x, Value) and x.type == ListType(None)
        if not empty or x.node is None or x.node.op != "tg.list_of":
            continue
        kinds = {r.inputs[i].type for r in node.regions.values()} - {x.type}
        if len(kinds) == 1:
            found.append((x, kinds.pop()))
    return found
