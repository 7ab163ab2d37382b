"""Calls become the nodes of the functions that they call.

The nodes stand where the call stood, so whatever had to come before the call comes before them and whatever waited
for it waits for those of them that have an effect: control inputs follow from effects and program order. Its nodes know
whether they run without gradients; all of them do where the Call does.
"""

from __future__ import annotations

from typing import Any

from ..graph.ir import Graph, Node
from ..graph.rewrite import replaced, splice


def inline(graph: Graph) -> Graph:
    """``graph`` without Call."""
    return replaced(graph, _called)


def _called(node: Node, nodes: list[Node]) -> list[Any] | None:
    """The nodes of the function that a Call calls."""
    if node.op != "Call":
        return None
    return splice(node.regions["function"], node.args, nodes, node.grad)
