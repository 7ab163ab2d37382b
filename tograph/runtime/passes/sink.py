"""The lazy If: what only one branch uses is computed in that branch.

A node moves into a branch of an If or Case when nothing else uses its outputs and it cannot fail. It computes the
same there: its arguments are values. A read moves only when nothing between it and the branch may write its resource.
Branches are filled from the last node to the first, so a chain that only one branch needs moves as a whole, and
then further into branches within the branch. Of ``if a: r = 1``, ``if b: r = 2`` and so on each would come to lie in the one behind it: a node
with regions moves down to ``DEEPEST`` and no further.

``users`` has what uses a value among the nodes that stay; ``used`` the values that a branch uses, of those that were asked for.
"""

from __future__ import annotations

from ..graph.families import ALTERNATIVES
from ..graph.ir import Graph, Node, Value
from ..graph.ops import Effects
from ..graph.ordering import Known
from ..graph.rewrite import add_input, cannot_fail, keep_inputs, lead
from .forward import writes_anything
from .numbering import Memo, effects_of

DEEPEST = 16


def sink(graph: Graph) -> Graph:
    """``graph`` with branches that compute what only they use."""
    _sink(graph, {}, 0)
    return graph


def _sink(graph: Graph, known: Known, depth: int) -> None:
    used: Used = {}
    users: dict[Value, set[Node | None]] = {v: {None} for v in graph.outputs}
    memo = Memo(known)
    writes: dict[Value, int] = {}  # the nearest write behind, by resource
    any_write = len(graph.nodes)
    gone: set[Node] = set()
    place = {node: i for i, node in enumerate(graph.nodes)}
    for i in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[i]
        effects = effects_of(node, memo)
        deeper = depth < DEEPEST or not node.regions
        target = _target(node, users, used) if deeper else None
        if target is not None and _may_move(node, effects, place[target], writes, any_write):
            _move(node, target, users, used)
            gone.add(node)
            continue
        for value in node.inputs:
            users.setdefault(value, set()).add(node)
        ins = node.inputs
        writes.update((ins[w], i) for w in effects.writes)
        if writes_anything(effects):
            any_write = i
    graph.nodes = [n for n in graph.nodes if n not in gone]
    for node in graph.nodes:
        for region in node.regions.values():
            _sink(region, known, depth + 1)


Used = dict[Graph, set[Value]]


def _target(node: Node, users: dict[Value, set[Node | None]], used: Used) -> Node | None:
    """The If or Case that alone uses a node, in one branch only."""
    found: set[Node | None] = set()
    for value in node.outputs:
        found |= users.get(value, set())
    if len(found) != 1:
        return None
    target = found.pop()
    if target is None or target.op not in ALTERNATIVES:
        return None
    return target if _branch(node, target, used) is not None else None


def _branch(node: Node, target: Node, used: Used) -> str | None:
    """The branch of ``target`` that uses the outputs of ``node``, when no other branch does, and not the condition."""
    first = lead(target)
    if any(a in node.outputs for a in target.args[:first]):
        return None
    places = [i for i, a in enumerate(target.args[first:]) if a in node.outputs]
    names = [
        name
        for name, region in target.regions.items()
        if any(region.inputs[i] in _used(region, used) for i in places)
    ]
    return names[0] if len(names) == 1 else None


def _used(region: Graph, used: Used) -> set[Value]:
    if region not in used:
        used[region] = {*region.outputs, *(v for n in region.nodes for v in n.inputs)}
    return used[region]


def _may_move(
    node: Node, effects: Effects, to: int, writes: dict[Value, int], any_write: int
) -> bool:
    if not cannot_fail(node):
        return False
    ins = node.inputs
    near = [writes.get(ins[i], to) for i in effects.reads]
    return not effects.reads or min(any_write, *near) >= to


def _move(node: Node, target: Node, users: dict[Value, set[Node | None]], used: Used) -> None:
    name = _branch(node, target, used)
    assert name is not None
    region, rest = target.regions[name], target.args[lead(target) :]
    own = [isinstance(a, Value) and a.node is node for a in rest]
    inside = [(v, a.index) for v, a, is_own in zip(region.inputs, rest, own) if is_own]
    keep_inputs(target, [not is_own for is_own in own])
    _stand_in(node, region, inside)
    taken: dict[Value, Value] = {}
    for value in node.inputs:
        if value not in taken:
            taken[value] = add_input(target, value)[name]
            users.setdefault(value, set()).add(target)
    node.replace_inputs(taken.__getitem__)
    region.nodes.insert(0, node)
    used[region].update(node.inputs)


def _stand_in(node: Node, region: Graph, inside: list[tuple[Value, int]]) -> None:
    """What a region knew by inputs of its own are outputs of ``node`` now: most of them by becoming these, so that what uses them stays as it is."""
    known: set[int] = set()
    left: list[tuple[Value, int]] = []
    for value, index in inside:
        if index in known or value.type != node.outputs[index].type:
            left.append((value, index))
        else:
            value.node, value.index, node.outputs[index] = node, index, value
            known.add(index)
    if left:
        outputs = {value: node.outputs[index] for value, index in left}
        for inner in region.nodes:
            inner.replace_inputs(lambda v: outputs.get(v, v))
        region.outputs = [outputs.get(v, v) for v in region.outputs]
