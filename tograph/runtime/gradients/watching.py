"""Whether somebody watches what a program does to tensors while it runs: autograd, forward-mode AD, ``torch.func``.

A program that is watched must not write into values that it has computed; one that is not may.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.ops import REGION_OPS
from ..graph.ordering import node_effects
from ..graph.types import ScalarType
from ..recording.variables import PLAIN
from . import transforms


def is_watched(values: Iterable[Any]) -> bool:
    """Whether a program on these values is watched."""
    grad = torch.is_grad_enabled()
    for x in values:
        if isinstance(x, torch.Tensor) and ((grad and x.requires_grad) or type(x) not in PLAIN):
            return True
    return transforms.active()


def calls_python(graph: Graph, seen: tuple[Graph, ...] = ()) -> bool:
    """Whether a graph reads values of Python code, but numbers, which may be tensors that autograd watches. ``seen``: graphs that were looked at."""
    read = _read(graph)
    for node in all_nodes(graph):
        called = called_graph(node)
        if called is not None:
            if called not in seen and calls_python(called, (*seen, called)):
                return True
        elif all(isinstance(v.type, ScalarType) for v in node.outputs):
            continue
        elif node.op not in REGION_OPS and node.op != "tg.py_item" and not read.isdisjoint(node.outputs):  # fmt: skip
            effects = node_effects(node)
            if effects.io and effects.may_fail:
                return True
    return False


def _read(graph: Graph) -> set[Value]:
    """The values that something reads, inner graphs too."""
    inner = (g for n in all_nodes(graph) for g in n.regions.values())
    given = (v for g in (graph, *inner) for v in g.outputs if isinstance(v, Value))
    return {*given, *(v for n in all_nodes(graph) for v in n.inputs)}


def called_graph(node: Node) -> Graph | None:
    """The graph of the function that a node calls, which may call itself."""
    if node.op != "tg.recursion":
        return None
    found = getattr(getattr(node.args[0].value, "__self__", None), "graph", None)
    return found if isinstance(found, Graph) else None


def keeps_histories(graph: Graph) -> bool:
    """Whether a graph writes what autograd does not see, so that a tensor keeps its history: the passes do away with that."""
    return any(n.op == "tg.written" for n in all_nodes(graph))


def own_gradients(graph: Graph) -> bool:
    """Whether a graph holds a ``Call`` with a gradient of its own."""
    return any("gradient" in n.regions for n in all_nodes(graph))
