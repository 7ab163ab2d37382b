"""The lazy If: what only one branch uses is computed in that branch.

A node moves into a branch of an If or Case when nothing else uses its outputs and it cannot fail. It computes the
same there: its arguments are values. A read moves only when nothing between it and the branch may write its resource.
Branches are filled from the last node to the first, so a chain that only one branch needs moves as a whole, and
then further into branches within the branch: all that moves at one level is moved at once, so that a level takes time
that grows with its nodes. A row of branches (``if c: y = f(x)`` again and again) becomes one nest of them; it ends at ``DEEPEST``,
since the work of all that goes down the levels grows with their number.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..graph.families import ALTERNATIVES
from ..graph.ir import Graph, Node, Value
from ..graph.ops import Effects
from ..graph.ordering import Known
from ..graph.rewrite import add_inputs, cannot_fail, keep_inputs, lead
from .forward import writes_anything
from .numbering import Memo, effects_of

DEEPEST = 32  # levels that branches move down to

# Who uses a value: a node, and the branch of it where there is one that alone does. None is the graph, which gives it.
Use = tuple[Node | None, str | None]


def sink(graph: Graph) -> Graph:
    """``graph`` with branches that compute what only they use."""
    _sink(graph, {}, 0)
    return graph


def _sink(graph: Graph, known: Known, depth: int) -> None:
    users: dict[Value, set[Use]] = {v: {(None, None)} for v in graph.outputs}
    memo = Memo(known)
    writes: dict[Value, int] = {}  # the nearest write behind, by resource
    any_write = len(graph.nodes)
    moved: dict[tuple[Node, str], list[Node]] = {}  # the last first
    place = {node: i for i, node in enumerate(graph.nodes)}
    for i in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[i]
        effects = effects_of(node, memo)
        use = None if node.regions and depth >= DEEPEST else _branch(node, users)
        if use and _may_move(node, effects, place[use[0]], writes, any_write):
            moved.setdefault(use, []).append(node)
            for value in node.inputs:
                users.setdefault(value, set()).add(use)
            continue
        _note(node, users)
        ins = node.inputs
        writes.update((ins[w], i) for w in effects.writes)
        if writes_anything(effects):
            any_write = i
    for (target, name), nodes in moved.items():
        _move(nodes, target, name)
    gone = {n for nodes in moved.values() for n in nodes}
    graph.nodes = [n for n in graph.nodes if n not in gone]
    for node in graph.nodes:
        for region in node.regions.values():
            _sink(region, known, depth + 1)


def _branch(node: Node, users: dict[Value, set[Use]]) -> tuple[Node, str] | None:
    """The If or Case that alone uses a node, and the one branch of it that does."""
    found: set[Use] = set()
    for value in node.outputs:
        found |= users.get(value, set())
    if len(found) != 1:
        return None
    target, name = found.pop()
    return None if target is None or name is None else (target, name)


def _note(node: Node, users: dict[Value, set[Use]]) -> None:
    """Note what a node uses, and in which branch."""
    if node.op not in ALTERNATIVES:
        for value in node.inputs:
            users.setdefault(value, set()).add((node, None))
        return
    first, regions = lead(node), node.regions
    used = {name: _used(region) for name, region in regions.items()}
    for i, arg in enumerate(node.args):
        if not isinstance(arg, Value):
            continue
        names: Sequence[str] = ()
        if i >= first:
            names = [n for n, r in regions.items() if r.inputs[i - first] in used[n]]
        users.setdefault(arg, set()).add((node, names[0] if len(names) == 1 else None))


def _used(region: Graph) -> set[Value]:
    return {*region.outputs, *(v for n in region.nodes for v in n.inputs)}


def _may_move(
    node: Node, effects: Effects, to: int, writes: dict[Value, int], any_write: int
) -> bool:
    if not cannot_fail(node):
        return False
    ins = node.inputs
    near = [writes.get(ins[i], to) for i in effects.reads]
    return not effects.reads or min(any_write, *near) >= to


def _move(nodes: Sequence[Node], target: Node, name: str) -> None:
    """Move nodes, of which the last comes first, to the start of a branch."""
    first, region, moving = lead(target), target.regions[name], set(nodes)
    own = [isinstance(a, Value) and a.node in moving for a in target.args[first:]]
    inside: dict[Value, Value] = {
        value: arg for value, arg, x in zip(region.inputs, target.args[first:], own) if x
    }
    keep_inputs(target, [not x for x in own])
    for inner in region.nodes:
        if not inside.keys().isdisjoint(inner.inputs):
            inner.replace_inputs(lambda v: inside.get(v, v))
    region.outputs = [inside.get(v, v) for v in region.outputs]
    taken = [v for n in nodes for v in n.inputs if v.node not in moving]
    names = {v: given[name] for v, given in add_inputs(target, taken).items()}
    for node in nodes:
        node.replace_inputs(lambda v: names.get(v, v))
    region.nodes[:0] = reversed(nodes)
