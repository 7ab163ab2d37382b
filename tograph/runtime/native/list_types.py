"""The kind of items of lists that begin empty: where a list is made nobody may have known it yet.

A value of the type ``list<?>`` is empty. Whoever takes it for a list of something gets an empty list of that, so that one such list may serve
as lists of several kinds, as the keys and values of a dict do. Where nobody says of what, it is of ints.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.rewrite import copied, lead
from ..graph.types import INT, ListType, OptionalType, Type

_OPEN = ListType(None)
_BASES = ("tg.list_push", "tg.list_insert", "tg.list_set", "tg.list_extend")


def typed(graph: Graph) -> Graph:
    """``graph``, or a copy of it in which such lists have a kind."""
    if any(v.type == _OPEN for v in graph.inputs) or not any(v.type == _OPEN for n in all_nodes(graph) for v in n.outputs):  # fmt: skip
        return graph
    made = copied(graph)
    _settle(made, [v.type for v in made.outputs])
    return made


def _settle(graph: Graph, given: list[Type]) -> None:
    """Give the lists of a graph a kind; ``given``: what its outputs are taken for."""
    nodes, known = list[Node](), dict[Type, Node]()

    def of(x: Any, kind: Type | None) -> Any:
        """``x``, or an empty list of a kind."""
        if not isinstance(x, Value) or x.type != _OPEN or not isinstance(kind, ListType) or kind == _OPEN:  # fmt: skip
            return x
        if kind not in known:
            known[kind] = Node("tg.list_of", types=[kind])
        return known[kind].outputs[0]

    for node in graph.nodes:
        for name, region in node.regions.items():
            _settle(region, _taken(node, name))
        node.args = tuple(of(x, kind) for x, kind in zip(node.args, _wanted(node), strict=True))
        nodes.append(node)
    graph.outputs = [of(x, kind) for x, kind in zip(graph.outputs, given, strict=True)]
    graph.nodes = [*known.values(), *nodes]
    for v in (*graph.inputs, *(v for n in nodes for v in n.outputs)):
        if v.type == _OPEN:
            v.type = ListType(INT)


def _taken(node: Node, name: str) -> list[Type]:
    """What the outputs of a region are taken for."""
    region, outputs = node.regions[name], [v.type for v in node.outputs]
    if len(region.outputs) != len(outputs) or name == "cond":
        return [v.type for v in region.outputs]
    return outputs


def _wanted(node: Node) -> Iterator[Type | None]:
    """What a node takes each of its arguments for, where it says so."""
    if node.regions:
        region = next(iter(node.regions.values()))
        yield from (None for _ in range(lead(node)))
        yield from (v.type for v in region.inputs)
        return
    made = node.outputs[0].type if node.outputs else None
    items = made.element if isinstance(made, (ListType, OptionalType)) else None
    for i in range(len(node.args)):
        if node.op in ("tg.list_of", "tg.optional_some"):
            yield items
        elif node.op in _BASES:
            yield made if i == 0 or node.op == "tg.list_extend" else items
        else:
            yield None
