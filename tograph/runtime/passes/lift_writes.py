"""Writes of variables in branches and loops become values that these carry, with one read before and one write behind.

Right for a run that ends well: one that fails in the middle leaves the writes before the failure undone, so whoever runs such a graph
runs the original where it fails. Stays as it is: a variable that the condition of a loop writes, one that is written with
another type than its own, and what regions other than those of If, Case, While and Call write.
"""

from __future__ import annotations

from ..graph.families import CONSTRUCTS
from ..graph.ir import Graph, Node, Value
from ..graph.ordering import Known, graph_effects
from ..graph.rewrite import carried, copied, lead, passed
from ..graph.types import is_static
from .forward import forward_reads


def lifted(graph: Graph) -> Graph:
    """A copy of ``graph`` in which only its own nodes write, as far as can be; ``graph`` itself where no region writes."""
    return lift(copied(graph)) if writes_inside(graph) else graph


def lift(graph: Graph) -> Graph:
    """``graph``, in which only its own nodes write now, as far as can be."""
    if writes_inside(graph):
        _lift(graph, {})
        forward_reads(graph)
    return graph


def writes_inside(graph: Graph) -> bool:
    """Whether a region of a graph writes a variable."""
    known: Known = {}
    return any(graph_effects(r, known).writes for n in graph.nodes for r in n.regions.values())


def _lift(graph: Graph, known: Known) -> None:
    """``known``: the effects of regions that are done."""
    nodes: list[Node] = []
    for node in graph.nodes:
        for region in node.regions.values():
            _lift(region, known)
        variables = _written(node, known)
        reads = [Node("tg.read", (v,), types=[v.type], location=node.location, grad=node.grad) for v in variables]  # fmt: skip
        results = _carry(node, {v: read.outputs[0] for v, read in zip(variables, reads)})
        for region in node.regions.values() if variables else ():
            known.pop(region, None)  # it reads and writes less now
        nodes += [*reads, node]
        nodes += [Node("tg.assign", (v, x), location=node.location, grad=w) for (v, w), x in zip(variables.items(), results)]  # fmt: skip
    graph.nodes = nodes


def _written(node: Node, known: Known) -> dict[Value, bool]:
    """The variables that the regions of a node write and that it can carry, and whether one of them does so while gradients are on."""
    if node.op not in CONSTRUCTS or "gradient" in node.regions:
        return {}
    args = passed(node)
    found: dict[Value, bool] = {}
    for name, region in node.regions.items():
        writes = graph_effects(region, known).writes
        if writes and name == "cond":
            return {}
        found.update((args[i], False) for i in writes)
    if not found:
        return {}
    kept = {v: False for v in found if is_static(v.type)}
    for region in node.regions.values():
        names = {r: a for r, a in zip(region.inputs, args) if a in kept}
        for inner in region.nodes:
            _look(inner, names, kept, known)
    return kept


def _look(node: Node, names: dict[Value, Value], kept: dict[Value, bool], known: Known) -> None:  # fmt: skip
    """Note of each of the variables that a node touches whether it writes it while gradients are on; one that it does more with than read or replace it is not kept."""
    touched = [v for v in dict.fromkeys(node.inputs) if v in names]
    written = _written_inside(node, known) if touched and node.regions else ()
    for v in touched:
        variable = names[v]
        if node.regions:
            plain = v not in written
        elif node.op == "tg.assign":
            plain = node.args[0] is v and node.args[1].type == variable.type
        else:
            plain = node.op == "tg.read"
        if not plain:
            kept.pop(variable, None)
        elif variable in kept and node.op == "tg.assign":
            kept[variable] = kept[variable] or node.grad


def _written_inside(node: Node, known: Known) -> set[Value]:
    args = passed(node)
    return {args[i] for r in node.regions.values() for i in graph_effects(r, known).writes}


def _carry(node: Node, starts: dict[Value, Value]) -> list[Value]:
    """Let the regions of a node take the values of variables and give the next ones; those of the whole node."""
    if not starts:
        return []
    at, first, args = carried(node), lead(node), passed(node)
    for name, region in node.regions.items():
        inner = {v: Value(v.type) for v in starts}
        names = {r: a for r, a in zip(region.inputs, args) if a in starts}
        held = _held(region, names, inner)
        region.input_names += [""] * (len(region.inputs) - len(region.input_names))
        region.inputs[at:at] = inner.values()
        region.input_names[at:at] = [""] * len(inner)
        if name != "cond":
            end = at if node.op == "While" else len(region.outputs)
            region.outputs[end:end] = held
    node.args = (*node.args[: first + at], *starts.values(), *node.args[first + at :])
    if node.op == "While":
        node.kwargs["carried"] = at + len(starts)
    results = [Value(v.type, node, i) for i, v in enumerate(starts, len(node.outputs))]
    node.outputs += results
    return results


def _held(region: Graph, names: dict[Value, Value], values: dict[Value, Value]) -> list[Value]:
    """Put values in the place of the reads and writes of variables in a region; what they hold at the end."""
    replaced: dict[Value, Value] = {}
    nodes, values = [], dict(values)
    for node in region.nodes:
        if not replaced.keys().isdisjoint(node.inputs):
            node.replace_inputs(lambda v: replaced.get(v, v))
        variable = names.get(node.args[0]) if node.op in ("tg.read", "tg.assign") else None
        if variable is None:
            if not names.keys().isdisjoint(node.inputs):
                node.replace_inputs(lambda v: values[names[v]] if v in names else v)
            nodes.append(node)
        elif node.op == "tg.read":
            replaced[node.outputs[0]] = values[variable]
        else:
            values[variable] = node.args[1]
    region.nodes = nodes
    region.outputs = [replaced.get(v, v) for v in region.outputs]
    return [replaced.get(v, v) for v in values.values()]
