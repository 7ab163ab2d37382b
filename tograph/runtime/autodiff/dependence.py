"""Which inputs of a graph its outputs depend on by ways that gradients can take."""

from __future__ import annotations

from ..carrier import differentiable
from ..freed import is_freed
from ..ir import Graph, Node, Value
from ..ops import NONE, REGION_OPS, lookup

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


def given_dependences(graph: Graph) -> list[Dependence]:
    """The same, where an output whose gradient the function took itself depends on nothing."""
    return [NOTHING if is_freed(v) else d for v, d in zip(graph.outputs, dependences(graph))]


def output_dependences(node: Node, known: dict[Value, Dependence]) -> list[Dependence]:
    """What the outputs of a node depend on, given what its inputs do."""
    count = len(node.outputs)
    stops = node.op == "aten.detach.default" or not node.grad
    if stops or (node.op not in REGION_OPS and lookup(node.op).gradient == NONE):
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
