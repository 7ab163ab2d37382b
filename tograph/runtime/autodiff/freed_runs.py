"""In which runs a gradient that is taken inside of a function comes to what another one has freed.

While a function is traced nothing is freed: ``Root.freed`` tells which node of torch's autograd was freed in which graph. That graph may be a branch, which ran or not, and the node may
be one of a region, which was freed as a value of that: ``paths`` tells the ways to these as those to an input ``FREED``. A way that is True is torch's error while tracing,
one that only the run knows is checked there, before the gradient; what leaves the function takes it along, for gradients that are taken outside. One in a loop has run if an iteration has.

Invariant: the ways are asked anew for each gradient, since more was freed by then; a trace in which nothing was freed asks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..gradients import optional_grads
from ..graph.families import ALTERNATIVES
from ..graph.ir import Graph, Node, Value
from ..graph.types import BOOL, ListType
from ..symbols.funcgraph import FuncGraph, Ref, current_graph
from ..writes import freed
from . import freed_items
from .by_items import in_order
from .inside import reached
from .paths import FREED, Loop, Terms, Way, Ways, closed, needed_for, taken, through


def _again(
    outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], nodes: Sequence[Any]
) -> Sequence[Any]:
    """As of ``freed.AGAIN``."""
    way, by_some = _way(outputs, nodes, lambda n: _known(n, nodes, inputs))
    _refuse(way, current_graph())
    return by_some


def _left(x: torch.Tensor) -> Way:
    """As of ``freed.LEFT``."""
    return _way([x], in_order([x.grad_fn]), _all_known)[0] if x.grad_fn is not None else False


def _way(
    outputs: Sequence[torch.Tensor], nodes: Sequence[Any], known: Callable[[Any], dict[Value, Ways]]
) -> tuple[Way, Sequence[Any]]:
    """Whether a gradient of ``outputs``, which goes through ``nodes``, comes to what was freed, and those of them that it comes to by items of lists. ``known``: the inputs of a recorded node that it goes on to."""
    graph = current_graph()
    before = {n: when for n in nodes if not _is_choice(n) and (when := _when(n, graph)) is not False and freed.saves(n)}  # fmt: skip
    calls = {n: marks for n in nodes if _has_regions(n) and (marks := _marks(n, graph))}
    if not before and not calls:
        return False, ()
    by_some = freed_items.by_items(outputs, list(before)) if before else ()
    terms = Terms(graph.graph)
    ways = reached(outputs, terms, graph)
    found = [
        terms.both(w, when)
        for n, when in before.items()
        if n not in by_some
        for w in ways.get(n, {}).values()
    ]
    for n, marks in calls.items():
        for output, way in ways.get(n, {}).items():
            for when, values in marks:
                within = _within(n.call, n.indices[output], known(n), values, graph)
                found.append(terms.both(way, terms.both(when, within)))
    return terms.any(found), by_some


def _refuse(way: Way, graph: FuncGraph) -> None:
    if way is True:
        raise RuntimeError(freed.MESSAGE)
    other = graph.emit("py.not", way, type=BOOL) if isinstance(way, Value) else True
    optional_grads.check(other, "RuntimeError", freed.MESSAGE)


def _when(node: Any, here: FuncGraph) -> Way:
    """Whether a node was freed before, as seen from ``here``."""
    root = here.root
    if node not in root.freed:
        return False
    terms = Terms(here.graph)
    return terms.any(
        [_happened(g, here) for g in [root.freed[node], *root.freed_too.get(node, ())]]
    )


def _happened(region: FuncGraph, here: FuncGraph) -> Way:
    """Whether a graph has run, which is done, as seen from ``here``; False where that is another branch."""
    around = region
    while not here.within(around):
        assert around.outer is not None
        around = around.outer
    way = _ran(region, around, around.graph)
    return here.resolve(Ref(way, around)) if isinstance(way, Value) else way


def _ran_within(place: FuncGraph, region: FuncGraph, graph: Graph) -> Way:
    """Whether a graph has run, as seen from ``region``, which ran, where one of the two is in the other. ``graph``: what the region is now."""
    if region.within(place):
        return True
    return _ran(place, region, graph) if place.within(region) else False


def _ran(region: FuncGraph, around: FuncGraph, graph: Graph) -> Way:
    """Whether a region in ``around``, which is ``graph`` now, has run, as seen from there."""
    if region is around:
        return True
    child: FuncGraph = region
    while child.outer is not None and child.outer is not around:
        child = child.outer
    anew = region.root.anew
    for node in graph.nodes:
        found = next((r for r in node.regions.values() if anew.get(r, r) is child.graph), None)
        if found is not None:
            inner = _ran(region, child, found)
            return inner if inner is False else _some(node, found, inner, Terms(graph))
    return False  # it is not done, or was given up


def _some(node: Node, region: Graph, way: Way, terms: Terms) -> Way:
    """Whether a region of a node has run in which a way was there."""
    if node.op == "While" and region is node.regions["body"]:
        loop = Loop(node, {}, terms)
        some = loop.some(way)
        loop.finish()
        return some
    if node.op not in ALTERNATIVES:
        return True
    ways = tuple(way if r is region else False for r in node.regions.values())
    return taken(node, ways, {}, terms)


def _has_regions(node: Any) -> bool:
    return hasattr(node, "call") and bool(node.indices) and bool(node.call.node.regions)


def _is_choice(node: Any) -> bool:
    """Whether what a node of autograd saved is known by what its regions saved, and which of its outputs need it."""
    if not _has_regions(node) or "gradient" in node.call.node.regions:
        return False
    return not any(isinstance(v.type, ListType) for v in node.call.node.outputs)


def _marks(node: Any, here: FuncGraph) -> list[tuple[Way, dict[Value, Way]]]:
    """What is freed in the regions of a recorded node: the values with their ways there, in the runs where a way of ``here`` is."""
    call = node.call
    made = [(True, _Marks(call.graph).within(call.node))]
    places = call.graph.root.freed_outputs.get(node, {}) if _is_choice(node) else {}
    for place, outputs in places.items():
        when = _happened(place, here)
        if when is not False:
            at = [node.indices[k] for k in sorted(outputs)]
            made.append((when, _Marks(call.graph).behind(call.node, at)))
    return [(when, found) for when, found in made if found]


class _Marks:
    """Values in the regions of nodes of ``graph`` that are freed, each with the way of that in its graph.

    What was freed is known of the regions as they were recorded first. Where a gradient was taken of their node they are others (``Root.anew``).
    """

    def __init__(self, graph: FuncGraph):
        self._found: dict[Value, Way] = {}
        self._anew = graph.root.anew
        self._graphs = {g.graph: g for g in graph.root.graphs if g.outer is not None}

    def within(self, node: Node) -> dict[Value, Way]:
        """Those that gradients have freed which were taken there."""
        for r in node.regions.values():
            for n in r.nodes:
                self.within(n)
            region, tensors = self._tensors(r)
            for v, x in tensors.items() if region is not None else ():
                self._mark(v, x, region, r)
        return self._found

    def _tensors(self, graph: Graph) -> tuple[FuncGraph | None, dict[Value, torch.Tensor]]:
        """What a region was recorded as, and the tensors with a history for what its nodes give; nothing where that is not known."""
        region = self._graphs.get(self._anew.get(graph, graph))
        if region is None:
            return None, {}
        found = (
            (v, region.sources.get(self._anew.get(v, v))) for n in graph.nodes for v in n.outputs
        )
        return region, {v: x for v, x in found if x is not None and x.grad_fn is not None}

    def _mark(self, value: Value, x: torch.Tensor, region: FuncGraph, graph: Graph) -> None:
        fn: Any = x.grad_fn
        root = region.root
        if not _is_choice(fn):
            places = [root.freed[fn], *root.freed_too.get(fn, ())] if fn in root.freed else []
        else:
            places = [g for g, n in root.freed_outputs.get(fn, {}).items() if x.output_nr in n]
        when = Terms(graph).any(_ran_within(g, region, graph) for g in places)
        if when is True and _is_choice(fn) and value.node.regions:
            self.behind(value.node, [value.index])
        elif when is not False and freed.saves(fn):
            self._found[value] = when

    def behind(self, node: Node, places: Sequence[int]) -> dict[Value, Way]:
        """Those that are saved behind outputs of a node."""
        places = closed(node, places) if node.op == "While" else places
        for name, r in node.regions.items():
            if name != "cond":
                self._behind(r, [r.outputs[k] for k in places if k < len(r.outputs)])
        return self._found

    def _behind(self, graph: Graph, ends: Sequence[Value]) -> None:
        region, tensors = self._tensors(graph)
        if region is None:
            self._found.update(dict.fromkeys(ends, True))
            return
        needed = needed_for(graph, ends)
        for v, x in tensors.items():
            if v not in needed:
                continue
            if _is_choice(x.grad_fn) and v.node.regions:
                self.behind(v.node, [v.index])
            elif freed.saves(x.grad_fn):
                self._found[v] = True


def _known(node: Any, nodes: Sequence[Any], inputs: Sequence[torch.Tensor]) -> dict[Value, Ways]:
    """The inputs of a recorded node by which its gradient goes on to ``inputs``."""
    wanted = {(x.grad_fn, x.output_nr) for x in inputs if x.grad_fn is not None}
    leaves, among = {id(x) for x in inputs if x.grad_fn is None}, set(nodes)
    call, found = node.call, {}
    for i, edge in zip(call.tensors, node.next_functions):
        leaf = id(getattr(edge[0], "variable", None)) in leaves
        if edge[0] is not None and (leaf or edge in wanted or edge[0] in among):
            found[call.inputs[i]] = {i: True}
    return found


def _all_known(node: Any) -> dict[Value, Ways]:
    """All inputs of a recorded node."""
    return {node.call.inputs[i]: {i: True} for i in node.call.tensors}


def _within(call: Any, output: int, known: dict[Value, Ways], marks: dict[Value, Way], graph: FuncGraph) -> Way:  # fmt: skip
    """Whether an output of a recorded node was computed of what is freed in its regions."""
    terms = Terms(call.graph.graph, True, freed=marks)
    way = through(call.node, [output], dict(known), terms)[0].get(FREED, False)
    if not isinstance(way, Value):
        return way
    return graph.resolve(Ref(way, call.graph)) if graph.within(call.graph) else True


freed.AGAIN, freed.LEFT = _again, _left
