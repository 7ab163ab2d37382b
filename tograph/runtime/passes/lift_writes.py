"""Writes of variables in branches and loops become values that these carry, with one read before and one write behind.

Right for a run that ends well: one that fails in the middle leaves the writes before the failure undone, so whoever runs such a graph
runs the original where it fails. Stays as it is: a variable that the condition of a loop writes, one that is written with
another type than its own, and what regions other than those of If, Case, While and Call write.
"""

from __future__ import annotations

from ..graph.ir import Graph, Node, Value
from ..graph.ordering import graph_effects
from ..graph.rewrite import carried, copied, lead, passed
from ..graph.types import TensorType
from .forward import forward_reads

_LIFTED = ("If", "Case", "While", "Call")


def lifted(graph: Graph) -> Graph:
    """A copy of ``graph`` in which only its own nodes write, as far as can be; ``graph`` itself where no region writes."""
    if not writes_inside(graph):
        return graph
    made = copied(graph)
    _lift(made)
    forward_reads(made)
    return made


def writes_inside(graph: Graph) -> bool:
    """Whether a region of a graph writes a variable."""
    return any(graph_effects(r).writes for n in graph.nodes for r in n.regions.values())


def _lift(graph: Graph) -> None:
    nodes: list[Node] = []
    for node in graph.nodes:
        for region in node.regions.values():
            _lift(region)
        variables = _written(node)
        reads = [Node("tg.read", (v,), types=[v.type], location=node.location, grad=node.grad) for v in variables]  # fmt: skip
        watched = [_watched(node, v) for v in variables]
        results = [_carry(node, v, read.outputs[0]) for v, read in zip(variables, reads)]
        nodes += [*reads, node]
        nodes += [Node("tg.assign", (v, x), location=node.location, grad=w) for v, x, w in zip(variables, results, watched)]  # fmt: skip
    graph.nodes = nodes


def _written(node: Node) -> list[Value]:
    """The variables that the regions of a node write and that it can carry."""
    if node.op not in _LIFTED or "gradient" in node.regions:
        return []
    args = passed(node)
    found: dict[Value, None] = {}
    for name, region in node.regions.items():
        writes = graph_effects(region).writes
        if writes and name == "cond":
            return []
        found.update((args[i], None) for i in writes)
    return [v for v in found if _alike(node, v)]


def _alike(node: Node, variable: Value) -> bool:
    """Whether all that is written is of the variable's own type, by nodes that stand in the regions themselves."""
    if not isinstance(variable.type, TensorType) or None in variable.type.shape:
        return False
    for region in node.regions.values():
        names = {r for r, a in zip(region.inputs, passed(node)) if a is variable}
        if not all(_plain(inner, names, variable) for inner in region.nodes):
            return False
    return True


def _watched(node: Node, variable: Value) -> bool:
    """Whether a region writes a variable while gradients are on."""
    return any(
        n.op == "tg.assign" and n.grad and n.args[0] is r
        for region in node.regions.values()
        for r, a in zip(region.inputs, passed(node))
        if a is variable
        for n in region.nodes
    )


def _plain(node: Node, names: set[Value], variable: Value) -> bool:
    """Whether a node only reads or replaces what a variable holds, if it touches it at all."""
    if names.isdisjoint(node.inputs):
        return True
    if node.regions:
        written = {passed(node)[i] for r in node.regions.values() for i in graph_effects(r).writes}
        return names.isdisjoint(written)
    if node.op == "tg.assign":
        return node.args[0] in names and node.args[1].type == variable.type
    return node.op == "tg.read"


def _carry(node: Node, variable: Value, start: Value) -> Value:
    """Let the regions of a node take a variable's value and give the next one; that of the whole node."""
    at, first = carried(node), lead(node)
    places = [i for i, a in enumerate(passed(node)) if a is variable]
    for name, region in node.regions.items():
        inner = Value(variable.type)
        held = _held(region, {region.inputs[i] for i in places}, inner)
        region.input_names += [""] * (len(region.inputs) - len(region.input_names))
        region.inputs.insert(at, inner)
        region.input_names.insert(at, "")
        if name != "cond":
            region.outputs.append(held) if node.op != "While" else region.outputs.insert(at, held)
    node.args = (*node.args[: first + at], start, *node.args[first + at :])
    if node.op == "While":
        node.kwargs["carried"] = at + 1
    result = Value(variable.type, node, len(node.outputs))
    node.outputs.append(result)
    return result


def _held(region: Graph, names: set[Value], value: Value) -> Value:
    """Put values in the place of the reads and writes of a variable in a region; what it holds at the end."""
    replaced: dict[Value, Value] = {}
    nodes = []
    for node in region.nodes:
        if not replaced.keys().isdisjoint(node.inputs):
            node.replace_inputs(lambda v: replaced.get(v, v))
        if node.op == "tg.read" and node.args[0] in names:
            replaced[node.outputs[0]] = value
        elif node.op == "tg.assign" and node.args[0] in names:
            value = node.args[1]
        else:
            if not names.isdisjoint(node.inputs):
                node.replace_inputs(lambda v, held=value: held if v in names else v)
            nodes.append(node)
    region.nodes = nodes
    region.outputs = [replaced.get(v, v) for v in region.outputs]
    return replaced.get(value, value)
