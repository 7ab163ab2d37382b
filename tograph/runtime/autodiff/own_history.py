"""Writes that leave a tensor of the caller with the history that it has: those by ``x.data``, in branches and loops too.

A value has the history of a variable where it is read from it, where it is the content of something else with that history
(``tg.written``), and where each region of a node gives it back as it was given.
"""

from __future__ import annotations

from ..graph.families import CONSTRUCTS
from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import passed

Homes = dict[Value, Value]  # for a value the one whose history it has, where that is another


def changes_history(graph: Graph) -> list[Node]:
    """The writes of a graph, made while gradients are on, after which a variable may have another history."""
    writes = [n for n in graph.nodes if n.op == "tg.assign" and n.grad]
    homes = _homes(graph) if writes else {}
    return [n for n in writes if homes.get(n.args[1]) is not n.args[0]]


def _homes(graph: Graph) -> Homes:
    homes: Homes = {}
    for node in graph.nodes:
        if node.op in ("tg.read", "tg.written"):
            homes[node.outputs[0]] = homes.get(node.args[0], node.args[0])
        elif node.op in CONSTRUCTS and "gradient" not in node.regions:
            given = passed(node)
            for k, at in enumerate(_given_back(node)):
                if at is not None and isinstance(given[at], Value):
                    homes[node.outputs[k]] = homes.get(given[at], given[at])
    return homes


def _given_back(node: Node) -> list[int | None]:
    """For each output of a node the position of what its regions are given whose history it surely has."""
    rows = [_positions(r) for name, r in node.regions.items() if name != "cond"]
    found = [ways[0] if len(set(ways)) == 1 else None for ways in zip(*rows)]
    if node.op == "While":
        return [at if at == k else None for k, at in enumerate(found)]
    return found


def _positions(region: Graph) -> list[int | None]:
    homes, index = _homes(region), {v: i for i, v in enumerate(region.inputs)}
    return [index.get(homes.get(v, v)) for v in region.outputs]
