"""What the contents depend on that a graph writes to tensors of the caller while gradients are on.

On all paths, and also where a run fails halfway: every write counts, whatever is written behind it. So such a tensor surely keeps the history
that it has where neither it nor anything that these contents depend on requires a gradient.
"""

from __future__ import annotations

from ..graph.families import CONSTRUCTS
from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.rewrite import carried, passed
from ..symbols.carrier import differentiable
from .dependence import NOTHING, Dependence, output_dependences


def contents(graph: Graph) -> Dependence | None:
    """The inputs that are written, and those that what is written may depend on; None where that is not known."""
    inputs = {v: i for i, v in enumerate(graph.inputs)}
    known = {v: frozenset([i]) if differentiable(v.type) else NOTHING for v, i in inputs.items()}
    found: dict[int, Dependence] = {}
    if not _collect(graph, known, inputs, found):
        return None
    return NOTHING.union(found, *found.values())


def _collect(
    graph: Graph,
    known: dict[Value, Dependence],
    variables: dict[Value, int],
    found: dict[int, Dependence],
) -> bool:
    """Note what each of the ``variables`` is given in ``found``; whether all writes are known. ``known``: what the inputs depend on."""
    for node in graph.nodes:
        for value, depends in zip(node.outputs, output_dependences(node, known)):
            known[value] = depends if differentiable(value.type) else NOTHING
        if node.op == "tg.assign" and node.grad:
            place = variables.get(node.args[0])
            if place is None:
                return False
            found[place] = found.get(place, NOTHING) | known.get(node.args[1], NOTHING)
        if node.regions and not _collect_inside(node, known, variables, found):
            return False
    return True


def _collect_inside(
    node: Node,
    known: dict[Value, Dependence],
    variables: dict[Value, int],
    found: dict[int, Dependence],
) -> bool:
    if node.op not in CONSTRUCTS or "gradient" in node.regions:
        return not any(_seen(n) for r in node.regions.values() for n in all_nodes(r))
    args = passed(node)
    given = [known.get(a, NOTHING) if isinstance(a, Value) else NOTHING for a in args]
    for k in range(carried(node)):
        given[k] = given[k] | known[node.outputs[k]]
    for region in node.regions.values():
        names = {v: variables[a] for v, a in zip(region.inputs, args) if isinstance(a, Value) and a in variables}  # fmt: skip
        if not _collect(region, dict(zip(region.inputs, given)), names, found):
            return False
    return True


def _seen(node: Node) -> bool:
    return node.op == "tg.assign" and node.grad
