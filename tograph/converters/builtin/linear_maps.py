"""What ``torch.func.linearize`` gives: a graph of its own, which each call of it records again.

A gradient that is taken in the body of a loop, through staged control flow from before that, changes what the loop takes at each trace of its body. So
the derivative is traced once, where it is made; what it uses is read there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...runtime import control_flow
from ...runtime.autodiff import objects
from ...runtime.autodiff.replay import replay
from ...runtime.graph.ir import Graph, Node, Value, all_nodes
from ...runtime.graph.ordering import graph_effects
from ...runtime.graph.rewrite import replaced
from ...runtime.inference.infer import tensor_type
from ...runtime.symbols.funcgraph import FuncGraph, Ref, Storage, current_graph
from ...runtime.symbols.symbolic import as_symbolic, value_of
from ...runtime.values.flattening import symbolic


class LinearMap:
    """``graph``: tensors like those it was made for, then what it ``took`` -> results. None: it is no graph, ask ``function`` each time."""

    def __init__(self, function: Callable[[Sequence[Any]], list[Any]], like: Sequence[Any]):
        self.function, self.graph = function, None
        here, given = current_graph(), list[Any]()

        def before(graph: FuncGraph) -> None:
            kinds = [tensor_type(as_symbolic(x).meta) for x in like]
            given.extend(symbolic(graph.input(kind), graph) for kind in kinds)

        region = control_flow.trace_region("linear", lambda: function(given), before, False)
        outputs = [value_of(x, region.graph) for x in region.result]
        keys = list(region.graph.arguments)
        control_flow.close(region.graph, keys, outputs, len(given))
        found = _without_reads(region.graph.graph, keys, len(given))
        if region.changed or found is None:
            return
        self.graph = found
        taken = [here.current(k) if isinstance(k, Storage) else region.graph.arguments[k] for k in keys]  # fmt: skip
        self.took = [Ref(v, here) for v in taken]

    def __call__(self, tangents: Sequence[Any]) -> list[Any]:
        if self.graph is None:
            return self.function(tangents)
        graph = current_graph()
        rest = [objects.object_of(graph.resolve(ref), graph) for ref in self.took]
        return replay(self.graph, [*tangents, *rest])


def _without_reads(graph: Graph, keys: Sequence[Any], lead: int) -> Graph | None:
    """The graph for the content of the tensors that it reads, or None where it does more than compute from that."""
    read = {v for v, k in zip(graph.inputs[lead:], keys) if isinstance(k, Storage)}
    effects = graph_effects(graph)
    inner = (n for node in graph.nodes for r in node.regions.values() for n in all_nodes(r))
    if effects.io or effects.writes or effects.random or any(n.op == "tg.read" for n in inner):
        return None

    def content(node: Node, nodes: list[Node]) -> Sequence[Value] | None:
        return [node.args[0]] if node.op == "tg.read" and node.args[0] in read else None

    return replaced(graph, content)
