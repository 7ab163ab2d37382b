"""State of a loop that is none: what never changes becomes an argument, what is always equal becomes one.

State that each iteration hands on as it is, or sets to the value that it began with, is the same throughout: the loop
takes it as an argument that stays, and after the loop it is the initial value. Two states that begin equal and become
equal in each iteration are one; which ones do is found by refining classes of states, from equal initial values down,
by the numbers of their next values.
"""

from __future__ import annotations

from collections.abc import Hashable

from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import Renaming, constant_key, keep_outputs
from .aliasing import Storages
from .numbering import Memo, Numbering, number_graph

ROUNDS = 4  # of refinement


def loop_state(graph: Graph) -> Graph:
    """``graph`` with loops that carry only what changes, once."""
    _loops(graph, Storages(graph), Memo())
    return graph


def _loops(graph: Graph, storages: Storages, memo: Memo) -> None:
    names = Renaming()
    for node in graph.nodes:
        names.apply(node)
        for region in node.regions.values():
            _loops(region, storages, memo)
        if node.op == "While":
            _drop_constant(node, names, storages)
            _drop_equal(node, names, storages, memo)
    names.outputs(graph)


# ---- state that stays


def _drop_constant(node: Node, names: Renaming, storages: Storages) -> None:
    count = node.kwargs["carried"]
    stays = [_stays(node, i) and _fits(node, i, storages) for i in range(count)]
    if not any(stays):
        return
    moved = [i for i, s in enumerate(stays) if s]
    for i in moved:
        names[node.outputs[i]] = node.args[i]
    node.args = (*node.args, *(node.args[i] for i in moved))
    for region in node.regions.values():
        own = {i: Value(region.inputs[i].type) for i in moved}
        region.inputs += own.values()
        region.input_names = []
        for i, value in own.items():
            _replace(region, region.inputs[i], value)
    keep_outputs(node, [not s for s in stays])


def _stays(node: Node, i: int) -> bool:
    body, count = node.regions["body"], node.kwargs["carried"]
    after = body.outputs[i]
    if after is body.inputs[i]:
        return True
    begins = node.args[i]
    return isinstance(begins, Value) and any(
        v is after and a is begins for v, a in zip(body.inputs[count:], node.args[count:])
    )


def _fits(node: Node, i: int, storages: Storages) -> bool:
    """Whether the initial value has the type of the state."""
    out, begins = node.outputs[i], node.args[i]
    if isinstance(begins, Value):
        return begins.type == out.type
    return type(begins) is getattr(out.type, "kind", None)


# ---- equal states


def _drop_equal(node: Node, names: Renaming, storages: Storages, memo: Memo) -> None:
    count = node.kwargs["carried"]
    starts = [a if isinstance(a, Value) else constant_key(a) for a in node.args[:count]]
    classes = _numbered([(s, str(v.type)) for s, v in zip(starts, node.outputs)])
    for _ in range(ROUNDS):
        if len(set(classes)) == count:
            return
        finer = _numbered(list(zip(classes, _next_numbers(node, classes, memo))))
        if finer == classes:
            break
        classes = finer
    else:
        return
    first: dict[int, int] = {}
    keep = []
    for i, name in enumerate(classes):
        k = first.setdefault(name, i)
        same = k != i and storages.merge(node.outputs[i], node.outputs[k])
        keep.append(not same)
        if same:
            names[node.outputs[i]] = node.outputs[k]
            for region in node.regions.values():
                _replace(region, region.inputs[i], region.inputs[k])
    keep_outputs(node, keep)


def _numbered(keys: list[Hashable]) -> list[int]:
    found: dict[Hashable, int] = {}
    return [found.setdefault(k, len(found)) for k in keys]


def _next_numbers(node: Node, classes: list[int], memo: Memo) -> list[int]:
    """Numbers of the next states, where states of one class are equal."""
    numbering, body = Numbering(), node.regions["body"]
    for value, name in zip(body.inputs, classes):
        numbering.of[value] = numbering.number(("class", name))
    numbering.fresh(body.inputs[len(classes) :])
    number_graph(numbering, body, memo, 1)
    return [numbering.of[v] for v in body.outputs]


def _replace(region: Graph, old: Value, new: Value) -> None:
    names = Renaming({old: new})
    for inner in region.nodes:
        names.apply(inner)
    names.outputs(region)
