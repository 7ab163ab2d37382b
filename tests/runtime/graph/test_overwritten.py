"""What regions write over is known by each once, from the inner ones to the outer."""

import torch

from tograph.runtime.graph import overwritten
from tograph.runtime.graph.ir import Graph, Node, Value
from tograph.runtime.graph.types import BOOL, TensorType
from tograph.runtime.passes.prune import prune

TENSOR = TensorType(torch.float32, (2,))


def nest(levels):
    """Branches in each other, of which the innermost writes over what the graph is given."""
    graph = Graph("main")
    graph.inputs = [Value(BOOL), Value(TENSOR)]
    here = graph
    for _ in range(levels):
        flag, x = here.inputs
        then, orelse = Graph("then"), Graph("orelse")
        for region in (then, orelse):
            region.inputs = [Value(BOOL), Value(TENSOR)]
        node = Node("If", (flag, flag, x), regions={"then": then, "orelse": orelse})
        here.nodes.append(node)
        here = then
    write = Node("tg.print", (here.inputs[1],))
    write.over = (here.inputs[1],)
    here.nodes.append(write)
    return graph


def test_written_from_within():
    graph = nest(3)
    (node,) = graph.nodes
    assert overwritten.written(graph) == {graph.inputs[1]}
    assert overwritten.targets(node) == [2]
    known = {region: set() for region in node.regions.values()}
    assert overwritten.written(graph, known) == set()


def test_prune_asks_each_region_once(monkeypatch):
    levels, asked, ask = 20, [], overwritten._inputs
    monkeypatch.setattr(overwritten, "_inputs", lambda *args: asked.append(args[0]) or ask(*args))
    graph = nest(levels)
    prune(graph, writers=True)
    assert overwritten.written(graph) == {graph.inputs[1]}
    assert len(asked) <= 6 * levels
