"""Values that the code makes leaves of, and what has used them before: in the graphs of one trace (``Root.leaves``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..graph.ir import Node, Value

if TYPE_CHECKING:
    from .funcgraph import FuncGraph


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
