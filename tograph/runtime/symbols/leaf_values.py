"""Values that the code makes leaves of, and what has used them before: in the graphs of one trace (``Root.leaves``)."""

from __future__ import annotations

from typing import Any

from ...errors import GradientError
from ..graph.ir import Node, Value
from .funcgraph import FuncGraph, current_graph, user_location


def check(x: Any, wanted: bool) -> None:
    """An error where a region changes what a tensor from before it requires: that would last on some paths only."""
    if x.requires_grad is not wanted and x.born < current_graph().born:
        raise GradientError(_IN_REGION, user_location())


_IN_REGION = (
    "requires_grad_() in a staged branch or loop changes what a tensor that was made before it requires: which paths were taken is known only when the graph runs. "
    "Make a tensor there (`w = w.detach()`, `w = w.detach().requires_grad_()`), or switch it outside."
)


def begin(value: Value, graph: FuncGraph) -> tuple[Value, Node | None]:
    """``value`` is that of a leaf from now on; it, and the node before."""
    nodes = graph.graph.nodes
    # While it is none in between, what reads it takes another value (``symbolic.value_of``).
    graph.root.leaves.setdefault(value, [n for n in nodes if value in n.inputs])
    return value, nodes[-1] if nodes else None


def end(value: Value, graph: FuncGraph) -> None:
    """It is no leaf any more. Where nothing but what has filled it has used it since, it never was one."""
    nodes, before = graph.graph.nodes, graph.root.leaves.get(value, [])
    since = [n for n in nodes if value in n.inputs and n.grad and n not in before]
    if value.node in nodes and all(n.op == "tg.written" for n in since):
        graph.root.leaves.pop(value, None)
