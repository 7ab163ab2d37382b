"""Which inputs of a graph its outputs depend on by ways that gradients can take, and what a graph as a whole lets gradients through to."""

from __future__ import annotations

from ... import collector
from ..carrier import differentiable
from ..freed import is_freed
from ..ir import Graph, Node, Value
from ..ops import NONE, REGION_OPS, lookup
from ..passes.lift_writes import lifted, writes_inside
from ..passes.settle import has_try
from ..watching import calls_python

Dependence = frozenset[int]
NOTHING: Dependence = frozenset()


def dependences(graph: Graph) -> list[Dependence]:
    """For each output the positions of the inputs; a superset of what torch's autograd finds."""
    known: dict[Value, Dependence] = {
        v: frozenset([i]) if differentiable(v.type) else NOTHING for i, v in enumerate(graph.inputs)
    }
    for node in graph.nodes:
        for value, depends in zip(node.outputs, output_dependences(node, known)):
            known[value] = depends if differentiable(value.type) else NOTHING
    return [known[v] for v in graph.outputs]


def reached(graph: Graph) -> Dependence | None:
    """The inputs that an output which is no input and whose gradient the function did not take itself, or a variable that is written while gradients are on, depends on.

    A superset; such a variable itself is among them. None where that is not known. Not known: what Python code brings, and what is written in the regions of a ``try``.
    """
    if calls_python(graph) or (has_try(graph) and writes_inside(graph)):
        return None
    with collector.seldom():
        graph = lifted(graph)
    if writes_inside(graph):
        return None
    made = Graph(graph.name)
    made.inputs, made.nodes = graph.inputs, graph.nodes
    inputs = set(graph.inputs)
    written = [v for n in graph.nodes if n.op == "tg.assign" and n.grad for v in n.args]
    made.outputs = [*(v for v in graph.outputs if v not in inputs and not is_freed(v)), *written]
    return NOTHING.union(*dependences(made))


def stops(node: Node) -> bool:
    """Whether no gradient goes through a node."""
    if node.op == "aten.detach.default" or not node.grad:
        return True
    return node.op not in REGION_OPS and lookup(node.op).gradient == NONE


def output_dependences(node: Node, known: dict[Value, Dependence]) -> list[Dependence]:
    """What the outputs of a node depend on, given what its inputs do."""
    count = len(node.outputs)
    if stops(node):
        return [NOTHING] * count
    if node.op in REGION_OPS:
        return _regions(node, known)
    return [frozenset().union(*(known[v] for v in node.inputs))] * count


def _regions(node: Node, known: dict[Value, Dependence]) -> list[Dependence]:
    skip = len(node.args) - len(next(iter(node.regions.values())).inputs)
    outer = [known[a] if isinstance(a, Value) else NOTHING for a in node.args[skip:]]
    if "gradient" in node.regions:
        return [NOTHING.union(*(outer[i] for i in node.kwargs["wrt"]))] * len(node.outputs)
    found = [NOTHING] * len(node.outputs)
    if node.op == "While":
        found = outer[: len(found)]
    changed = True
    while changed:
        changed = False
        for name, region in node.regions.items():
            if name == "cond":
                continue
            for k, inner in enumerate(dependences(region)):
                new = found[k].union(*(outer[i] for i in inner))
                changed |= new != found[k]
                found[k] = new
        if node.op != "While":
            break
        outer[: len(found)] = found
    return found
