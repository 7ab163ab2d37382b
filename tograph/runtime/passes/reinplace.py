"""Functional updates write into memory that nothing else needs: see ``ownership`` for what may.

``select_scatter``, ``index_put``, list pushes and the like become ``inplace.OP``; the initial value of a loop's state that
somebody else needs is copied once, before the loop; a read of a resource whose uses all come before the next write looks
at the resource without a copy. A list that was written in place becomes a tuple again where it leaves the list ops.
Only for programs that autograd does not watch.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import map_graphs
from ..graph.types import ListType
from .ownership import Analysis, Plan
from .updates import BORROW, FREEZE, INPLACE

_TAKE_LISTS = ("tg.list_", "tg.array_", "tg.identity", "tg.choose", INPLACE)


def reinplace(graph: Graph) -> Graph:
    """``graph`` with updates in place."""
    plan = Analysis(graph).plan
    lists = any(isinstance(n.outputs[0].type, ListType) for n in plan.writes)
    map_graphs(graph, lambda g: _apply(g, plan))
    if lists:
        map_graphs(graph, _freeze_arguments)
        _freeze_outputs(graph)
    return graph


def _apply(graph: Graph, plan: Plan) -> None:
    nodes: list[Node] = []
    for node in graph.nodes:
        if node in plan.writes:
            node.op = INPLACE + node.op
        elif node in plan.looks:
            node.op = BORROW
        for i in range(len(node.outputs)):
            if (node, i) in plan.copies:
                nodes.append(_copy(node.args[i], node))
                node.args = (*node.args[:i], nodes[-1].outputs[0], *node.args[i + 1 :])
        nodes.append(node)
    graph.nodes = nodes


def _copy(value: Value, node: Node) -> Node:
    op = FREEZE if isinstance(value.type, ListType) else "aten.clone.default"
    return Node(op, (value,), None, (value.type,), location=node.location, grad=node.grad)


def _freeze_arguments(graph: Graph) -> None:
    nodes: list[Node] = []
    for node in graph.nodes:
        if not node.regions and not node.op.startswith(_TAKE_LISTS):
            made = {v: _copy(v, node) for v in _lists(node)}
            nodes += made.values()
            if made:
                node.replace_inputs(lambda v, made=made: made[v].outputs[0] if v in made else v)
        nodes.append(node)
    graph.nodes = nodes


def _lists(node: Node) -> Iterator[Value]:
    return (v for v in dict.fromkeys(node.inputs) if isinstance(v.type, ListType))


def _freeze_outputs(graph: Graph) -> None:
    for i, value in enumerate(graph.outputs):
        if isinstance(value.type, ListType) and value.node is not None:
            graph.nodes.append(_copy(value, value.node))
            graph.outputs[i] = graph.nodes[-1].outputs[0]
