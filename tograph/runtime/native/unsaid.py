"""What a ``raise`` says is not made by native code.

There a ``raise`` only ends the run: the host runs all of it again, makes the exception and raises it. So the text of an exception, and the
fields of one of a user's class, are nothing that native code needs a form for.
"""

from __future__ import annotations

from ..graph.ir import Graph, all_nodes
from ..graph.rewrite import copied
from ..passes.prune import prune
from ..passes.settle import has_try

_RAISE = "tg.raise"


def unsaid(graph: Graph) -> Graph:
    """``graph``, or a copy of it in which a ``raise`` has no inputs."""
    speaks = any(n.op == _RAISE and n.inputs for n in all_nodes(graph))
    if not speaks or has_try(graph):  # a handler may ask what was said
        return graph
    made = copied(graph)
    for node in all_nodes(made):
        if node.op == _RAISE:
            node.args, node.kwargs = (), {}
    return prune(made)
