"""From which tensors outside of a loop an iteration's state was computed: what the nodes ``tg.leads`` of a body say (``writes.iterations``).

It is state of the loop: what a place leads to after an iteration follows from what the places before it lead to, by the ways of ``paths``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..graph.ir import Graph, Node, Value
from ..graph.types import BOOL
from ..symbols.funcgraph import FuncGraph
from ..writes import iterations
from .own_leaves import OwnLeaves
from .paths import Loop, Terms, Way, closed, paths

Entries = Callable[[int], Sequence[int]]


def tell(node: Node, graph: FuncGraph, earlier: iterations.Earlier, entries: Entries) -> None:
    """Put what they say in the place of such nodes, in a ``While`` that is not recorded yet. ``entries``: the inputs by which a tensor outside, or what requires a gradient, enters."""
    body = node.regions["body"]
    asked = [n for n in body.nodes if n.op == iterations.LEADS and n.args[0] == earlier.loop]
    if not asked:
        return
    sources = {k: entries(k) for k in sorted({n.args[2] for n in asked})}
    leaves = OwnLeaves(graph).leaves if iterations.REQUIRES in sources else ()
    state = closed(node, sorted({n.args[1] for n in asked}))
    entering = {*state, *(i for inputs in sources.values() for i in inputs)}
    steps = dict(zip(state, paths(body, state, entering, leaves=leaves)))
    loop = Loop(node, steps, Terms(graph.graph))
    found = {i: loop.both(i, False)[0] for i in sorted({i for inputs in sources.values() for i in inputs})}  # fmt: skip
    loop.finish()
    for n in asked:
        place, k = n.args[1:]
        _replace(body, n, [found[i][place] for i in sources[k]])


def _replace(body: Graph, node: Node, ways: Sequence[Way]) -> None:
    """Make a node say whether any of the ways is there."""
    block = Terms(Graph("block"))
    way = block.any(ways)
    node.op, node.args = ("py.bool", (way,)) if isinstance(way, Value) else ("py.constant", (way,))
    at = body.nodes.index(node)
    body.nodes[at:at] = block.graph.nodes
    assert node.outputs[0].type == BOOL
