"""Loop-invariant motion: what each iteration computes anew from the same values is computed once, before the loop.

A node moves out of a condition or body when its arguments are the same in every iteration and it cannot fail: then
computing it although the loop may not run at all changes nothing but time. A read moves when the loop does not
write its resource. What reaches the caller stays, because each iteration makes its own (``aliasing``), and so does
memory that is made to be written into. Inner loops come first, so an invariant leaves as many loops as it can.
"""

from __future__ import annotations

from ..graph.ir import Graph, Node, Value
from ..graph.ops import Effects
from ..graph.ordering import node_effects
from ..graph.rewrite import add_input, cannot_fail, carried
from .aliasing import Storages
from .forward import writes_anything
from .updates import is_update


def hoist(graph: Graph) -> Graph:
    """``graph`` with loop invariants before their loops."""
    _hoist(graph, Storages(graph))
    return graph


def _hoist(graph: Graph, storages: Storages) -> None:
    nodes: list[Node] = []
    for node in graph.nodes:
        for region in node.regions.values():
            _hoist(region, storages)
        if node.op == "While":
            effects = node_effects(node)
            for region in node.regions.values():
                nodes += _invariants(node, region, effects, storages)
        nodes.append(node)
    graph.nodes = nodes


def _invariants(node: Node, region: Graph, effects: Effects, storages: Storages) -> list[Node]:
    """Take the invariants out of a region of a loop; the nodes that now stand before the loop."""
    state = carried(node)
    outside: dict[Value, Value] = {
        v: a for v, a in list(zip(region.inputs, node.args))[state:] if isinstance(a, Value)
    }
    ins = node.inputs
    written = {ins[i] for i in effects.writes}
    buffers = {n.args[0] for n in region.nodes if is_update(n)}
    moved: list[Node] = []
    kept: list[Node] = []
    for inner in region.nodes:
        if not _invariant(inner, outside, written, effects, storages, buffers):
            kept.append(inner)
            continue
        inner.replace_inputs(outside.__getitem__)
        inner.grad = inner.grad and node.grad
        moved.append(inner)
        outside.update((v, v) for v in inner.outputs)
    region.nodes = kept
    _take_from_outside(node, region, [v for n in moved for v in n.outputs])
    return moved


def _invariant(
    node: Node,
    outside: dict[Value, Value],
    written: set[Value],
    effects: Effects,
    storages: Storages,
    buffers: set[Value],
) -> bool:
    if not all(v in outside for v in node.inputs) or not cannot_fail(node):
        return False
    own = node_effects(node)
    if not own.mergeable:
        return False
    ins = node.inputs
    if own.reads and (
        writes_anything(effects) or any(outside[ins[i]] in written for i in own.reads)
    ):
        return False
    if not ins and (not node.regions and node.outputs[0] in buffers):
        return False
    return not any(storages.returned(v) for v in node.outputs)


def _take_from_outside(node: Node, region: Graph, values: list[Value]) -> None:
    """Use values that are now made outside as inputs of the region."""
    inside = {v for n in region.nodes for v in n.inputs} | set(region.outputs)
    name = next(n for n, r in node.regions.items() if r is region)
    names: dict[Value, Value] = {}
    for value in values:
        if value in inside:
            names[value] = add_input(node, value)[name]
    if names:
        for inner in region.nodes:
            inner.replace_inputs(lambda v: names.get(v, v))
        region.outputs = [names.get(v, v) for v in region.outputs]
