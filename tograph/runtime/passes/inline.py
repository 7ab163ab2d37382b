"""Calls become the nodes of the functions that they call.

The nodes stand where the call stood, so whatever had to come before the call comes before them and whatever waited
for it waits for those of them that have an effect: control inputs follow from effects and program order. A function
called while gradients are off runs without gradients.
"""

from __future__ import annotations

from ..ir import Graph
from ..rewrite import Renaming, splice


def inline(graph: Graph) -> Graph:
    """``graph`` without Call."""
    names, nodes = Renaming(), []
    for node in graph.nodes:
        names.apply(node)
        for region in node.regions.values():
            inline(region)
        if node.op != "Call":
            nodes.append(node)
            continue
        outs = splice(node.regions["function"], node.args, nodes, node.grad)
        names.update(zip(node.outputs, outs))
    graph.nodes = nodes
    names.outputs(graph)
    return graph
