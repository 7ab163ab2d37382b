"""Rows of tensors are selected right before they are used, also those that an ``unbind`` gave.

What repeats in a graph (``roll``) selects its own row then. Nothing moves where a node of the graph writes into values.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..graph.ir import Graph, Node, Value
from ..graph.ordering import node_effects
from ..graph.rewrite import Renaming

UNBIND, SELECT = "aten.unbind.int", "aten.select.int"


def select_late(graph: Graph, least: int) -> None:
    """Move the selections of ``graph``, and those of an ``unbind`` into ``least`` rows or more."""
    if any(node_effects(n).overwrites for n in graph.nodes):
        return
    rows = {v: n for n in graph.nodes if _gives_rows(n, least) for v in n.outputs}
    late = set(rows.values())
    names, nodes = Renaming(), list[Node]()

    def fetch(values: Sequence[Value]) -> None:
        for v in values:
            if v in rows and v not in names:
                x, dim, i = _row(v)
                fetch([x])
                names[v] = _select(nodes, (names.of(x), dim, i), v, rows[v])

    for node in graph.nodes:
        if node not in late:
            fetch([*node.inputs, *node.over])
            names.apply(node)
            node.over = tuple(map(names.of, node.over))
            nodes.append(node)
    fetch([*graph.outputs, *graph.over])
    names.outputs(graph)
    graph.nodes, graph.over = nodes, tuple(map(names.of, graph.over))


def _gives_rows(node: Node, least: int) -> bool:
    if node.over or node.kwargs:
        return False
    if node.op == UNBIND:
        return len(node.outputs) >= least
    return node.op == SELECT and all(type(i) is int for i in node.args[1:]) and _in_range(node)


def _in_range(node: Node) -> bool:
    """Whether the row is surely there: an error keeps its place."""
    x, dim, i = node.args
    length = x.type.shape[dim]
    return length is not None and -length <= i < length


def _row(v: Value) -> tuple[Value, int, int]:
    """The tensor of which a value is a row, the dim and the number of the row."""
    assert v.node is not None
    x, *rest = v.node.args
    dim, i = rest if v.node.op == SELECT else (rest[0] if rest else 0, v.index)
    return x, dim, i


def _select(nodes: list[Node], args: tuple, v: Value, like: Node) -> Value:
    nodes.append(Node(SELECT, args, None, [v.type], location=like.location, grad=like.grad))
    return nodes[-1].outputs[0]
