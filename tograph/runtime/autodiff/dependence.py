"""Which inputs of a graph its outputs depend on by ways that gradients can take, and what a graph as a whole lets gradients through to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ... import collector
from ..control_flow.loop_tests import surely_runs
from ..gradients.watching import calls_python
from ..graph.ir import Graph, Node, Value
from ..graph.ops import NONE, REGION_OPS, lookup
from ..graph.rewrite import carried, lead
from ..passes.lift_writes import lifted, writes_inside
from ..symbols.carrier import differentiable
from ..writes.freed import is_freed
from .own_history import changes_history

Dependence = frozenset[int]
NOTHING: Dependence = frozenset()
CELL = "tg.cell_get"  # what the body of a ``try`` held when it failed: it may depend on all that the body takes


def dependences(graph: Graph, tangents: bool = False) -> list[Dependence]:
    """For each output the positions of the inputs; a superset of what torch's autograd finds, or of the ways that ``tangents`` take, which ``no_grad`` does not end."""
    known: dict[Value, Dependence] = {
        v: frozenset([i]) if differentiable(v.type) else NOTHING for i, v in enumerate(graph.inputs)
    }
    anything = NOTHING.union(*known.values())
    for node in graph.nodes:
        for value, depends in zip(node.outputs, output_dependences(node, known, tangents)):
            found = anything if node.op == CELL else depends
            known[value] = found if differentiable(value.type) else NOTHING
    return [known[v] for v in graph.outputs]


def from_cells(handler: Graph, body: Graph, need: Sequence[int]) -> set[int]:
    """The outputs of a handler that depend on the inputs ``need`` by what the body of its ``try`` held when it failed."""
    kept = _kept(body)
    known: dict[Value, Dependence] = dict.fromkeys(handler.inputs, NOTHING)
    for node in handler.nodes:
        for value, depends in zip(node.outputs, output_dependences(node, known)):
            if node.op == CELL:
                at = handler.inputs.index(node.args[0]), *node.args[1:3]
                depends = kept.get(at, frozenset(need)) & frozenset(need)
            known[value] = depends if differentiable(value.type) else NOTHING
    return {i for i, v in enumerate(handler.outputs) if known[v]}


def _kept(body: Graph) -> dict[tuple[int, int, int], Dependence]:
    """What depends on which inputs of what a body keeps for its handlers, by cell, setting and place.

    Not what a region of it has made itself.
    """
    made, at = Graph(body.name), list[tuple[int, int, int]]()
    made.inputs, made.nodes = body.inputs, body.nodes
    own = [*body.inputs, *(v for n in body.nodes for v in n.outputs)]
    for cell, tag, values in _settings(body, dict(zip(own, own))):
        if cell not in body.inputs:  # that of a ``try`` in the body
            continue
        places = [i for i, v in enumerate(values) if v is not None]
        at += [(body.inputs.index(cell), tag, i) for i in places]
        made.outputs += [values[i] for i in places]
    return dict(zip(at, dependences(made)))


def _settings(graph: Graph, outer: dict[Value, Value]) -> Iterator[tuple[Value, int, list[Any]]]:
    """The settings of cells, with what they keep as values of the body: ``outer`` are those that a region of it is given."""
    for node in graph.nodes:
        if node.op == "tg.cell_set" and node.args[0] in outer:
            cell, tag, values = node.args
            yield outer[cell], tag, [outer.get(v) if isinstance(v, Value) else None for v in values]
        for region in node.regions.values():
            given = list(zip(region.inputs, node.args[lead(node) :]))[carried(node) :]
            known = {v: outer[a] for v, a in given if isinstance(a, Value) and a in outer}
            yield from _settings(region, known)


def of_freed(graph: Graph) -> dict[int, Dependence]:
    """The inputs that each output depends on whose gradient the function took itself; all where that is not known."""
    wanted = [i for i, v in enumerate(graph.outputs) if is_freed(v)]
    known = None if calls_python(graph) else _lifted(graph)
    if known is None:
        return dict.fromkeys(wanted, frozenset(range(len(graph.inputs))))
    known.outputs = [known.outputs[i] for i in wanted]
    return dict(zip(wanted, dependences(known)))


def _lifted(graph: Graph) -> Graph | None:
    """The graph with what its regions write outside of these, on nodes of its own; None where that is not known."""
    with collector.seldom():
        graph = lifted(graph)
    if writes_inside(graph):
        return None
    made = Graph(graph.name)
    made.inputs, made.nodes, made.outputs = graph.inputs, graph.nodes, list(graph.outputs)
    return made


def reached(graph: Graph) -> Dependence | None:
    """The inputs that an output which is no input and whose gradient the function did not take itself, or a variable that gets another history by a write, depends on.

    A superset; such a variable itself is among them. None where that is not known. Not known: what Python code brings, and what is written in the regions of a ``try``.
    """
    made = None if calls_python(graph) else _lifted(graph)
    if made is None:
        return None
    inputs = set(made.inputs)
    written = [v for n in changes_history(made) for v in n.args]
    made.outputs = [*(v for v in made.outputs if v not in inputs and not is_freed(v)), *written]
    return NOTHING.union(*dependences(made))


def stops(node: Node, tangents: bool = False) -> bool:
    """Whether no gradient, or no tangent, goes through a node."""
    if node.op == "aten.detach.default" or not (node.grad or tangents):
        return True
    return node.op not in REGION_OPS and lookup(node.op).gradient == NONE


def output_dependences(node: Node, known: dict[Value, Dependence], tangents: bool = False) -> list[Dependence]:  # fmt: skip
    """What the outputs of a node depend on, given what its inputs do."""
    count = len(node.outputs)
    if stops(node, tangents) or not any(map(known.__getitem__, node.inputs)):
        return [NOTHING] * count
    if node.op in REGION_OPS:
        return _regions(node, known, tangents)
    if node.op == "tg.written":  # the content of the second with the history of the first
        return [known[node.args[0]]]
    return [frozenset().union(*(known[v] for v in node.inputs))] * count


def _regions(node: Node, known: dict[Value, Dependence], tangents: bool) -> list[Dependence]:
    skip = len(node.args) - len(next(iter(node.regions.values())).inputs)
    outer = [known[a] if isinstance(a, Value) else NOTHING for a in node.args[skip:]]
    if "gradient" in node.regions:
        return [NOTHING.union(*(outer[i] for i in node.kwargs["wrt"]))] * len(node.outputs)
    found = [NOTHING] * len(node.outputs)
    if node.op == "While" and not surely_runs(node):
        found = outer[: len(found)]
    ways = [dependences(r, tangents) for name, r in node.regions.items() if name != "cond"]
    changed = True
    while changed:
        changed = False
        for way in ways:
            for k, inner in enumerate(way):
                new = found[k].union(*(outer[i] for i in inner))
                changed |= new != found[k]
                found[k] = new
        if node.op != "While":
            break
        outer[: len(found)] = [a | b for a, b in zip(outer, found)]
    return found
