"""Building graphs node by node."""

from __future__ import annotations

from typing import Any

from ..graph.ir import Graph, Node, Value
from ..graph.types import Type
from ..symbols.funcgraph import FuncGraph


def append(graph: Graph, op: str, *args: Any, type: Type, **kwargs: Any) -> Value:
    """A new last node of a graph, with one output."""
    node = Node(op, args, kwargs, [type])
    graph.nodes.append(node)
    return node.outputs[0]


def before(node: Node, graph: FuncGraph, op: str, *args: Any, type: Any) -> Value:
    """A new node in front of another one of a graph that is being recorded."""
    made = Node(op, args, {}, [type], location=node.location)
    nodes = graph.graph.nodes
    nodes.insert(nodes.index(node), made)
    return made.outputs[0]
