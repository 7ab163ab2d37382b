"""Who uses the values of a graph: its own nodes, and its caller as results. What a region captures is an input of its node."""

from __future__ import annotations

from collections import Counter

from .ir import Graph, Node, Value


def readers(graph: Graph) -> dict[Value, list[Node]]:
    """The nodes that read each value, in their order."""
    found: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for v in dict.fromkeys(node.inputs):
            found.setdefault(v, []).append(node)
    return found


def users(graph: Graph) -> dict[Value, list[Node | None]]:
    """The nodes that read each value, then None for each result that it is."""
    found: dict[Value, list[Node | None]] = {v: [*nodes] for v, nodes in readers(graph).items()}
    for v in graph.outputs:
        found.setdefault(v, []).append(None)
    return found


def use_counts(graph: Graph) -> Counter[Value]:
    """How often nodes and results name each value."""
    return Counter([*(v for n in graph.nodes for v in n.inputs), *graph.outputs])
