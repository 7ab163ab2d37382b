"""What nobody needs goes: nodes, outputs and inputs of regions, and the state of loops.

A node is needed when it has an effect or when something needed uses one of its outputs. An output of an If, Case, Call
or Try that nobody uses goes from every region. An update that is only needed because its index may be wrong becomes
the look at that place, which fails alike and copies nothing; a look that nobody uses goes when the next effect is
an update of the same place, which fails alike. State of a loop is needed when the loop's condition, an effect in the
loop, a needed output or the next value of needed state depends on it. A loop goes only when it surely ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..graph.ir import Graph, Node, Value
from ..graph.ordering import Known, keep_writes, node_effects
from ..graph.overwritten import Written, targets, written
from ..graph.rewrite import carried, keep_inputs, keep_outputs, same_value

CHECKS = {"aten.select_scatter.default": "aten.select.int"}


def prune(graph: Graph, writers: bool = False) -> Graph:
    """``graph`` without what nobody needs; ``writers``: a gradient may ask nodes whether their regions have written over something."""
    _prune(graph, writers, {}, {})
    return graph


def _prune(graph: Graph, writers: bool, known: Known, pruned: Written) -> None:
    """``pruned``: what regions that are done write over."""
    used = set(graph.outputs)
    keep: list[Node] = []
    effect: Node | None = None  # the next one
    for node in reversed(graph.nodes):
        unused = used.isdisjoint(node.outputs)
        if not node_effects(node, known).removable:
            if unused and effect is not None and _fails_alike(node, effect):
                continue
            effect = node
        elif unused and not _keeps(node, writers):
            continue
        if node.regions:
            _narrow(node, used, writers, known, pruned)
        elif node.op in CHECKS and unused:
            effect = node = _check(node)
        keep.append(node)
        used.update(node.inputs)
    before, graph.nodes = graph.nodes, keep[::-1]
    if len(before) > len(graph.nodes):
        keep_writes(before, graph)


def _keeps(node: Node, writers: bool) -> bool:
    """Whether a node stays because its regions write over something."""
    return writers and bool(node.regions) and bool(targets(node))


def _fails_alike(look: Node, update: Node) -> bool:
    """Whether an update fails where a ``select`` does, with nothing but computing in between."""
    if look.op != "aten.select.int" or not update.op.endswith("aten.select_scatter.default"):
        return False
    shapes = [n.args[0].type.shape for n in (look, update)]
    return shapes[0] == shapes[1] and all(map(same_value, look.args[1:], update.args[2:]))


def _check(node: Node) -> Node:
    """What fails where a ``select_scatter`` whose result nobody uses would."""
    base, row, *place = node.args
    kind = replace(row.type, dtype=base.type.dtype)
    made = Node(CHECKS[node.op], (base, *place), None, (kind,), location=node.location)
    made.grad = node.grad
    return made


def _narrow(node: Node, used: set[Value], writers: bool, known: Known, pruned: Written) -> None:
    """Drop outputs and inputs of a region op that are not needed, and prune its regions.

    An op with a gradient of its own keeps them all: the gradient takes and gives one for each.
    """
    if "gradient" in node.regions:
        for region in node.regions.values():
            _prune(region, writers, known, pruned)
        return
    if node.op == "While":
        keep_outputs(node, _needed_state(node, used, writers, known))
    else:
        keep_outputs(node, [v in used for v in node.outputs])
    inside: set[Value] = set()
    for region in node.regions.values():
        _prune(region, writers, known, pruned)
        inside.update(v for n in region.nodes for v in n.inputs)
        inside.update(region.outputs)
        if writers:
            pruned[region] = written(region, pruned)
            inside |= pruned[region]
    state = carried(node)
    columns = zip(*(r.inputs for r in node.regions.values()))
    keep_inputs(node, [i < state or any(v in inside for v in c) for i, c in enumerate(columns)])


def _needed_state(node: Node, used: set[Value], writers: bool, known: Known) -> list[bool]:
    cond, body = node.regions["cond"], node.regions["body"]
    over = targets(node) if writers else ()
    needed = [v in used or i in over for i, v in enumerate(node.outputs)]
    place = {v: i for region in (cond, body) for i, v in enumerate(region.inputs[: len(needed)])}
    work: list[Value] = list(cond.outputs)
    for region in (cond, body):
        kept = [
            n for n in region.nodes if not node_effects(n, known).removable or _keeps(n, writers)
        ]
        work += [v for n in kept for v in n.inputs]
    work += [v for v, wanted in zip(body.outputs, needed) if wanted]
    for value in _behind(work):
        i = place.get(value)
        if i is not None and not needed[i]:
            needed[i] = True
            work.append(body.outputs[i])
    return needed


def _behind(work: list[Value]) -> Iterable[Value]:
    """The values on the way back from those in ``work``, which may grow meanwhile."""
    seen: set[Value] = set()
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        yield value
        if value.node is not None:
            work += value.node.inputs
