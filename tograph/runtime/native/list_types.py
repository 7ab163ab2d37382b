"""The kind of items of lists that begin empty: where a list is made nobody may have known it yet.

A value of the type ``list<?>`` is empty. Whoever takes it for a list of something gets an empty list of that, so that one such list may serve
as lists of several kinds, as the keys and values of a dict do. Where nobody says of what, it is of ints.

A list of such lists (``groups[k]`` of a ``defaultdict(list)`` that begins empty) has the kind that those have for whom it is made, the later ones first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.rewrite import copied, lead
from ..graph.types import INT, ListType, OptionalType, Type

_OPEN = ListType(None)
_BASES = (
    "tg.list_push",
    "tg.list_insert",
    "tg.list_set",
    "tg.list_extend",
    "tg.list_slice",
    "tg.list_pop",
)
_MAKE = ("tg.list_of", "tg.optional_some")


def typed(graph: Graph) -> Graph:
    """``graph``, or a copy of it in which such lists have a kind."""
    if any(v.type == _OPEN for v in graph.inputs) or not any(v.type == _OPEN for n in all_nodes(graph) for v in n.outputs):  # fmt: skip
        return graph
    made = copied(graph)
    kinds = [v.type for v in made.outputs]
    _Refining().run(made, kinds)
    _settle(made, kinds)
    return made


class _Refining:
    """Gives lists of lists without a kind, in one graph, the kind that they are taken for, from the end on.

    One that is taken for lists of several kinds is made once for each: ``open`` has the type it had, ``copies`` what is made in the place of a node.
    """

    def __init__(self) -> None:
        self.open: dict[Value, Type] = {}
        self.copies: dict[Node, dict[Type, Node]] = {}

    def run(self, graph: Graph, given: list[Type]) -> None:
        """``given``: what the outputs of the graph are."""
        nodes = list[Node]()
        graph.outputs = [self._as(v, kind) for v, kind in zip(graph.outputs, given, strict=True)]
        for node in reversed(graph.nodes):
            for made in (node, *self.copies.get(node, {}).values()):
                for name, region in made.regions.items():
                    _Refining().run(region, _taken(made, name))
                wanted = zip(made.args, _wanted(made), strict=True)
                made.args = tuple(self._each(x, kind) for x, kind in wanted)
                nodes.append(made)
        graph.nodes = nodes[::-1]

    def _each(self, x: Any, kind: Type | None) -> Any:
        if isinstance(x, (list, tuple)):
            return type(x)(self._as(v, kind) for v in x)
        return self._as(x, kind)

    def _as(self, v: Any, kind: Type | None) -> Any:
        """A value, as a list of this kind."""
        if not isinstance(v, Value) or v.type == _OPEN or not _may_be(v):
            return v
        wanted = _merged(self.open.get(v, v.type), kind)
        if v not in self.open:
            if wanted != v.type:
                self.open[v], v.type = v.type, wanted
            return v
        if wanted in (v.type, self.open[v]):
            return v
        if v.node is None or v.node.op not in (*_MAKE, *_BASES) or len(v.node.outputs) > 1:
            return v
        copies = self.copies.setdefault(v.node, {})
        if wanted not in copies:
            copies[wanted] = Node(v.node.op, v.node.args, v.node.kwargs, types=[wanted])
        return copies[wanted].outputs[0]


def _may_be(v: Value) -> bool:
    """Whether the kind of a list follows from its value alone: a loop has the same one in several places."""
    return v.node is None or "cond" not in v.node.regions


def _merged(a: Any, b: Any) -> Any:
    """The type ``a``, with what ``b`` says of lists without a kind."""
    if not isinstance(a, ListType) or not isinstance(b, ListType):
        return a
    return b if a == _OPEN else ListType(_merged(a.element, b.element))


def _settle(graph: Graph, given: list[Type]) -> None:
    """Give the lists of a graph a kind; ``given``: what its outputs are taken for."""
    nodes, known = list[Node](), dict[Type, Node]()

    def of(x: Any, kind: Type | None) -> Any:
        """``x``, or an empty list of a kind."""
        if isinstance(x, (list, tuple)):
            return type(x)(of(v, kind) for v in x)
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
        if node.op in _MAKE:
            yield items
        elif node.op == "tg.choose":
            yield made
        elif node.op in _BASES:
            yield made if i == 0 or node.op == "tg.list_extend" else items
        else:
            yield None
