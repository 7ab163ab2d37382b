"""A read of a resource takes what was last written or read there; a write that nobody can see goes.

``tg.read`` after ``tg.assign`` of the same resource is the assigned value, and after another read it is that read, as
long as nothing in between may write it. What is known outside holds at the start of a region that runs once, of a
loop that does not write the resource, and of a handler whose body does not. An assign goes when the next assign to the same resource comes before anything
that reads it, and before anything after which the write could be seen: an op that may fail, a loop that may not end, an
effect on the outside. A Python callback that may fail may also write any resource.
"""

from __future__ import annotations

from ..graph.ir import Graph, Node, Value
from ..graph.ops import Effects
from ..graph.ordering import Known, node_effects
from ..graph.rewrite import Renaming, add_input, carried, lead
from .aliasing import Storages

READ, ASSIGN = "tg.read", "tg.assign"


def forward(graph: Graph) -> Graph:
    """``graph`` with reads forwarded and dead writes removed."""
    _forward(graph, {}, Storages(graph), {})
    return graph


def _forward(graph: Graph, known: dict[Value, Value], storages: Storages, regions: Known) -> None:
    names, nodes = Renaming(), []
    pending: dict[Value, Node] = {}  # writes that nothing has seen yet
    dead: set[Node] = set()
    for node in graph.nodes:
        names.apply(node)
        if node.op == READ:
            resource, out = node.args[0], node.outputs[0]
            found = known.get(resource)
            if found is not None and found.type == out.type and storages.merge(out, found):
                names[out] = found
                continue
            known[resource] = out
            pending.pop(resource, None)
        elif node.op == ASSIGN:
            resource, value = node.args
            if resource in pending:
                dead.add(pending.pop(resource))
            known[resource] = value
            pending[resource] = node
        else:
            _other(node, known, pending, storages, regions)
        nodes.append(node)
    graph.nodes = [n for n in nodes if n not in dead]
    names.outputs(graph)


def _other(
    node: Node,
    known: dict[Value, Value],
    pending: dict[Value, Node],
    storages: Storages,
    regions: Known,
) -> None:
    effects = node_effects(node, regions)
    ins = node.inputs
    written = {ins[i] for i in effects.writes}
    if node.regions:
        _regions(node, known, effects, written, storages, regions)
    for i in effects.reads:
        pending.pop(ins[i], None)
    for resource in written:
        known.pop(resource, None)
        pending.pop(resource, None)
    if effects.io or effects.may_fail or effects.diverges:
        pending.clear()
    if writes_anything(effects):
        known.clear()


def writes_anything(effects: Effects) -> bool:
    """Whether an op runs the user's Python, which may write what the graph reads."""
    return effects.io and effects.may_fail


def _regions(
    node: Node,
    known: dict[Value, Value],
    effects: Effects,
    written: set,
    storages: Storages,
    regions: Known,
) -> None:
    loop = node.op == "While"
    if loop and writes_anything(effects):
        known = {}
    first = lead(node)
    read = {node.inputs[i] for i in effects.reads}
    outside = [(a, i) for i, a in enumerate(node.args[first:]) if isinstance(a, Value)]
    inside: dict[str, dict[Value, Value]] = {name: {} for name in node.regions}
    for resource, place in outside:
        if resource not in read or resource not in known or (loop and resource in written):
            continue
        if place < carried(node):
            continue
        for name, value in add_input(node, known[resource]).items():
            if name.startswith("handler") and (resource in written or writes_anything(effects)):
                continue  # the body may have written it before it failed
            inside[name][node.regions[name].inputs[place]] = value
            storages.join(value, known[resource])
    for name, region in node.regions.items():
        _forward(region, inside[name], storages, regions)


def forward_reads(graph: Graph) -> None:
    """A read of an input that nothing in the graph writes is that input itself."""
    known: dict[Graph, frozenset[Value]] = {}
    _assigned_inputs(graph, known)
    _forward_reads(graph, frozenset(), known)


def _forward_reads(
    graph: Graph, assigned: frozenset[Value], known: dict[Graph, frozenset[Value]]
) -> None:
    """``assigned``: inputs that a graph around assigns; ``known``: those that each graph does."""
    assigned = assigned | known[graph]
    replaced: dict[Value, Value] = {}
    before, nodes = graph.nodes, list[Node]()
    for node in before:
        node.replace_inputs(lambda v: replaced.get(v, v))
        node.over = tuple(replaced.get(v, v) for v in node.over)
        if node.op == "tg.read" and node.args[0] not in assigned:
            replaced[node.outputs[0]] = node.args[0]
            continue
        for name, region in node.regions.items():
            skip = 0 if name == "gradient" else len(node.args) - len(region.inputs)
            outer = dict(zip(region.inputs, node.args[skip:]))
            given = frozenset(v for v, o in outer.items() if o in assigned)
            _forward_reads(region, given, known)
        nodes.append(node)
    graph.nodes = nodes
    graph.over = tuple(replaced.get(v, v) for v in graph.over)
    graph.outputs = [replaced.get(v, v) for v in graph.outputs]


def _assigned_inputs(graph: Graph, known: dict[Graph, frozenset[Value]]) -> frozenset[Value]:
    """The values that a graph assigns; ``known`` takes them for it and the regions in it."""
    found: set[Value] = set()
    for node in graph.nodes:
        if node.op == "tg.assign":
            found.add(node.args[0])
        for name, region in node.regions.items():
            skip = 0 if name == "gradient" else len(node.args) - len(region.inputs)
            inner = _assigned_inputs(region, known)
            found |= {
                o
                for v, o in zip(region.inputs, node.args[skip:])
                if v in inner and isinstance(o, Value)
            }
    known[graph] = frozenset(found)
    return known[graph]
