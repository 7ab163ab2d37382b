"""The kind of items of lists that begin empty: where a list is made nobody may have known it yet."""

from __future__ import annotations

from ..ir import Graph, Node, Value
from ..rewrite import copied, passed
from ..types import ListType


def typed(graph: Graph) -> Graph:
    """``graph``, or a copy of it in which such lists have the kind of items that the loop or branch takes to which they are given."""
    if not _somewhere(graph):
        return graph
    made = copied(graph)
    _settle(made)
    return made


def _somewhere(graph: Graph) -> bool:
    return any(_found(n) or any(map(_somewhere, n.regions.values())) for n in graph.nodes)


def _settle(graph: Graph) -> None:
    for node in graph.nodes:
        for value, kind in _found(node):
            value.type = kind
        for region in node.regions.values():
            _settle(region)


def _found(node: Node) -> list[tuple[Value, ListType]]:
    """The empty lists that a node's regions take as lists of something."""
    found = []
    for i, x in enumerate(passed(node) if node.regions else ()):
        if (
            not isinstance(x, Value)
            or x.type != ListType(None)
            or x.node is None
            or x.node.op != "tg.list_of"
        ):
            continue
        kinds = {r.inputs[i].type for r in node.regions.values()} - {x.type}
        if len(kinds) == 1:
            found.append((x, kinds.pop()))
    return found
