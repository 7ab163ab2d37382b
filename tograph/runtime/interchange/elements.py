"""The element types of lists that are empty where they are made: those of what is put into them later.

A graph may say ``list<?>`` of an empty list and ``list<f32[3]>`` of the loop that fills it. The forms of other systems
need the type from the start, so types flow backwards until nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..graph.ir import Graph, Value
from ..graph.rewrite import map_graphs, passed
from ..graph.types import ListType, join

_SAME = frozenset(f"tg.{n}" for n in ("list_push", "list_set", "list_insert", "list_slice", "list_extend", "array_write",
                                      "list_pop", "list_spread", "identity", "handle_add"))  # fmt: skip


def close_elements(graph: Graph) -> Graph:
    """``graph`` with the element types that can be known."""
    changed = True

    def sweep(g: Graph) -> None:
        nonlocal changed
        for a, b in _pairs(g):
            both = join(a.type, b.type)
            for v in (a, b):
                if both is not None and isinstance(v.type, ListType) and v.type.element is None and v.type != both:  # fmt: skip
                    v.type, changed = both, True

    while changed:
        changed = False
        map_graphs(graph, sweep)
    return graph


def _pairs(graph: Graph) -> Iterator[tuple[Value, Value]]:
    """Values that hold lists of one kind."""
    for node in graph.nodes:
        for name, region in node.regions.items():
            for a, v in zip(passed(node), region.inputs):
                if isinstance(a, Value):
                    yield a, v
            if name != "cond":
                yield from zip(node.outputs, region.outputs)
                if node.op == "While":
                    yield from zip(region.inputs, region.outputs)
        if node.op in _SAME and isinstance(node.outputs[0].type, ListType):
            for v in node.inputs:
                if isinstance(v.type, ListType):
                    yield v, node.outputs[0]
