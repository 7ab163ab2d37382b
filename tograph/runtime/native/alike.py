"""Concatenations and stacks have parts of their own dtype, and concatenations parts of their own number of dimensions.

torch converts the parts to a common dtype, and leaves out those of shape (0,), as a cache holds that has no keys yet.
"""

from __future__ import annotations

from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.rewrite import copied, map_graphs
from ..graph.types import TensorType
from .groups import CAT

_STACK = "aten.stack.default"
_CONVERT = "aten._to_copy.default"


def alike(graph: Graph) -> Graph:
    """``graph``, or a copy of it in which what is joined is alike."""
    if not any(_suits(n) for n in all_nodes(graph)):
        return graph
    made = copied(graph)
    map_graphs(made, _rewrite)
    return made


def _suits(node: Node) -> bool:
    if node.op not in (CAT, _STACK):
        return False
    return any(_left_out(node, v) or _converted(node, v) for v in node.args[0])


def _left_out(node: Node, v: Value) -> bool:
    return node.op == CAT and v.type.shape == (0,) and len(node.outputs[0].type.shape) > 1


def _converted(node: Node, v: Value) -> bool:
    return v.type.dtype != node.outputs[0].type.dtype


def _rewrite(graph: Graph) -> None:
    nodes: list[Node] = []
    for node in graph.nodes:
        if _suits(node):
            parts = [v for v in node.args[0] if not _left_out(node, v)]
            made = {v: _conversion(node, v) for v in parts if _converted(node, v)}
            node.args = ([made[v].outputs[0] if v in made else v for v in parts], *node.args[1:])
            nodes += made.values()
        nodes.append(node)
    graph.nodes = nodes


def _conversion(node: Node, v: Value) -> Node:
    dtype = node.outputs[0].type.dtype
    kind = TensorType(dtype, v.type.shape, v.type.device)
    return Node(_CONVERT, (v,), {"dtype": dtype}, [kind], location=node.location)
