"""One trace of a loop's test or body with placeholders in its state, and the ``While`` that the last ones give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..graph import types
from ..graph.ir import Node, Value
from ..guarding import reads
from ..inference.shapes import SYMBOLS
from ..recording.tracing import recording
from ..symbols import duals, journal
from ..symbols.assumptions import note_singles
from ..symbols.funcgraph import FuncGraph, current_graph, user_location
from ..symbols.journal import Location as Place
from ..values import flattening, inner_lists, listed, structure
from ..values.flattening import flatten
from ..values.joins import option_for
from ..values.listed import tensors_in
from ..values.structure import UNSET, Leaf, Spec, leaf_types
from ..writes import iterations
from . import made_leaves, tensor_attributes
from .carried import Carried
from .joining import as_value, mind_iterations, note_rewritten, put_back
from .leaf_fields import Field
from .leaves import leaf_objects, noting
from .loop_histories import LoopHistories, tell_writes
from .loop_tests import holds, surely_runs
from .modes import keeping
from .number_state import NumberState
from .regions import (
    Region,
    as_before,
    close,
    forget_written,
    replayed,
    structure_argument,
    trace_region,
    unmoved,
)
from .telling import Told


@dataclass
class StateRegion(Region):
    """A region that was traced with placeholders in its state. ``lead`` counts their inputs; ``began`` are the places with the specs then."""

    lead: int = 0
    changed_outside: bool = False
    entered: dict[Any, Any] = field(default_factory=dict)
    began: list[tuple[Place, Spec]] = field(default_factory=list)


def _made_anew(place: Place, spec: Spec, told: Told) -> bool:
    """Whether a place holds another container than before the loop, though one that is equal to it, or belongs to another tensor."""
    return isinstance(place, Field) or (
        place.key in told.merged and isinstance(spec, structure.Tree)
    )


def contents_of(state: Sequence[Place], told: Told) -> list[Any]:
    return [told.entry(p, as_value(p.get())) for p in state]


def contents_after(loop: StateRegion, state: Sequence[Place]) -> list[Any]:
    """What an iteration leaves in the places of the state."""
    return [as_value(loop.content(p)) for p in state]


def left_by(loop: StateRegion, state: Sequence[Place], told: Told) -> list[Any]:
    """The same, with containers from before the loop counting as themselves."""
    return told.left(state, contents_after(loop, state))


@dataclass
class _Opening:
    """How a region with state begins: placeholders of the types ``specs`` take the places of the ``state``.

    ``same``: places that stay what they are. ``lead`` counts the inputs, ``entered`` is what each place held then.
    """

    state: Sequence[Place]
    specs: Sequence[Spec]
    same: Sequence[Place]
    carried: Carried
    told: Told
    known: LoopHistories | None
    numbers: NumberState | None = None
    lead: int = 0
    entered: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._began = {p.key: p.get() for p in self.state}

    def open(self, graph: FuncGraph) -> None:
        if self.known is not None:
            self.known.open(self.state)
        for place in self.same:
            journal.record(place)
            self.entered[place.key] = place.get()
        made: list[Any] = []
        for place, spec in zip(self.state, self.specs):
            journal.record(place)
            self._put(place, spec, graph, made)
            self.entered[place.key] = place.get()
        self.lead += self.carried.count
        self.carried.attach(graph, made, self.carried.inputs(graph))
        mind_iterations(self.state)
        self.told.guard(self.state)

    def _put(self, place: Place, spec: Spec, graph: FuncGraph, made: list[Any]) -> None:
        """New inputs, and what is made of them in the place; that is noted in ``made``."""
        values = [graph.input(t) for t in leaf_types(spec)]
        if isinstance(spec, Leaf) and values:
            note_singles(self._began[place.key], values[0], graph)
        self.lead += len(values)
        if self.numbers is not None and isinstance(spec, Leaf) and len(values) == 1:
            self.numbers.enter(graph, place, as_value(self._began[place.key]), values[0])
        if values or _made_anew(place, spec, self.told):
            make = self.known.maker(place, graph) if self.known else flattening.plain_maker(graph)
            before, start = as_value(place.get()), len(made)
            x = flattening.unflatten(spec, iter(values), noting(make, made))
            tensor_attributes.forget(made[start:], before, spec)
            put_back(place, x)

    def moved(self, changed: dict[Any, Any]) -> bool:
        """Whether a region leaves another value than it found in a place; ``changed``: (place, value) by key."""
        return any(
            k not in self.entered or not unmoved(value, self.entered[k])
            for k, (_, value) in changed.items()
        )


def trace_with_state(
    name: str,
    function,
    state: Sequence[Place],
    specs: Sequence[Spec],
    same: Sequence[Place],
    carried: Carried,
    told: Told,
    known: LoopHistories | None = None,
    numbers: NumberState | None = None,
) -> StateRegion:
    """Trace a region whose inputs are the ``state``, of the types ``specs``. ``same``: places that stay what they are."""
    opening = _Opening(state, specs, same, carried, told, known, numbers)

    def before(graph: FuncGraph) -> None:
        graph.repeats = name == "body"
        if numbers is not None:
            numbers.begin(graph)
        opening.open(graph)
        if numbers is not None:
            numbers.opened(graph)

    with inner_lists.apart() as marks:
        region = trace_region(name, keeping(function), before)
    moved, entered = opening.moved(region.changed), opening.entered
    made = StateRegion(
        region.graph,
        region.result,
        region.changed,
        region.raised,
        function,
        opening.lead,
        moved,
        entered,
        [*zip(state, specs)],
    )
    made.marks = marks
    return made


def known_to_begin(cond: StateRegion, told: Told) -> bool:
    """Whether the test that was traced is known to hold before the first iteration."""
    graph, inner, at = current_graph(), cond.graph, 0
    given: dict[Value, Any] = {
        v: inner.arguments[k] for k, v in inner.captures.items() if k in inner.arguments
    }
    for place, spec in cond.began:  # the state may have more places now, and others of their kinds
        if isinstance(spec, Leaf):
            values = flatten(told.entry(place, as_value(place.get())), spec, graph)
            given.update(zip(inner.graph.inputs[at:], values))
        at += len(leaf_types(spec))
    with recording(inner):
        test = structure_argument(cond.result, inner)
    return holds(test, given)


def emit_while(
    cond: StateRegion,
    loop: StateRegion,
    state,
    specs,
    carried: Carried,
    told: Told,
    checkpoint: Any,
    known: LoopHistories,
) -> None:
    """Record the loop, and let every place of the state hold what it has after it."""
    graph = current_graph()
    inner_lists.check_iterations([p.keep for p, _ in loop.changed.values()], loop.marks)
    initial = [v for c, s in zip(contents_of(state, told), specs) for v in flatten(c, s, graph)]
    initial += carried.initial(graph)
    kinds = [t for s in specs for t in leaf_types(s)] + [types.INT] * carried.count
    test = _test_value(cond)
    outs = _body_outputs(loop, state, specs, carried, told, kinds)
    if loop.graph.duals:
        duals.check_state(loop.graph, graph, initial, outs, user_location())
    keys = {**cond.graph.arguments, **loop.graph.arguments}
    close(cond.graph, list(keys), [test], cond.lead)
    close(loop.graph, list(keys), outs, loop.lead)
    for place in filter(as_before, state):
        graph.root.kept.add(place.key)
        reads.may_stay(place)
    attributes = {"carried": len(initial)}
    if checkpoint is not None:
        attributes["checkpoint"] = checkpoint
    regions = {"cond": cond.graph.graph, "body": loop.graph.graph}
    node = Node("While", (*initial, *keys.values()), attributes, kinds, regions=regions)
    if loop.graph.differentiated:
        iterations.EXPAND(node, graph, known.earlier, list(keys))
    every = [v.type for v in node.outputs]
    node = graph.add("While", node.args, node.kwargs, every, regions=node.regions)
    tell_writes(node, graph)
    forget_written(graph, loop.graph, node)
    values, made = iter(node.outputs[: len(kinds)]), []
    _after(loop, node, state, specs, told, values, made)
    mind_iterations(state)
    carried.attach(graph, made, list(values))
    told.guard(state)
    inner_lists.together(cond.marks, loop.marks)
    inner_lists.check_names()


def _test_value(cond: StateRegion) -> Value:
    with recording(cond.graph):
        if isinstance(cond.result, bool):
            return cond.graph.emit("py.constant", cond.result, type=types.BOOL)
        return structure_argument(cond.result, cond.graph)


def _body_outputs(
    loop: StateRegion,
    state: Sequence[Place],
    specs: Sequence[Spec],
    carried: Carried,
    told: Told,
    kinds: list,
) -> list[Value]:
    """What the body gives the next iteration; anything where it always raises."""
    with recording(loop.graph), replayed(loop):
        if loop.raised:
            return [flattening.zero_value(t, loop.graph) for t in kinds]
        outs: list[Value] = []
        for content, spec in zip(left_by(loop, state, told), specs):
            outs += flatten(content, spec, loop.graph)
        return outs + carried.final(loop.graph)


def _after(
    loop: StateRegion,
    node: Node,
    state: Sequence[Place],
    specs: Sequence[Spec],
    told: Told,
    values: Iterator[Value],
    made: list[Any],
) -> None:
    """Write the outputs of the loop to the places of the state; ``made`` gets the tensors that stand for them."""
    graph = current_graph()
    for place, spec in zip(state, specs):
        start = len(made)
        x = flattening.unflatten(spec, values, noting(flattening.plain_maker(graph), made))
        if not loop.raised:
            left = as_value(loop.content(place))
            outcomes = [left] if surely_runs(node) else [as_value(place.get()), left]
            tensor_attributes.carry(made[start:], outcomes, spec)
        if not loop.raised and isinstance(x, torch.Tensor):
            _as_leaf(x, place.get(), loop.content(place), loop, surely_runs(node))
        elif not loop.raised and graph.root.leaves:
            _leaves_in_parts(made[start:], outcomes, spec, loop)
        if place.key[0] == "grad":
            x = _gathered(x, graph)
        elif not loop.raised and surely_runs(node):
            x = _bound(x, as_value(loop.content(place)), spec)
        anew = bool(leaf_types(spec)) or _made_anew(place, spec, told)
        if anew or not unmoved(as_value(place.get()), x):
            told.check_items(place, spec)
            put_back(place, x)
        else:
            note_rewritten(place)
        if not loop.raised:
            left = tensors_in(as_value(loop.content(place)))
            listed.carried(tensors_in(loop.entered.get(place.key)), left, loop.graph)
            listed.inherit(tensors_in(x), left)


def _as_leaf(x: Any, before: Any, left: Any, loop: StateRegion, runs: bool) -> None:
    """Make a leaf of a tensor that a loop gives, where it is one; ``runs``: the loop has an iteration."""
    first = runs or made_leaves.made_in(before, current_graph().root.graphs[0])
    made = made_leaves.made_in(left, loop.graph)
    made_leaves.note_left(x, [loop.graph] if made else [])
    made_leaves.note_plain(x, [left] if runs else [before, left])
    if first and made and not made_leaves.has_other_names(x):
        made_leaves.join(x, [before, left])
    elif runs:
        made_leaves.mix(x, [left], [made])
    else:
        made_leaves.mix(x, [before, left], [first, made])
    made_leaves.mind(x, [before, left], [first, made])


def _leaves_in_parts(
    made: Sequence[Any], outcomes: Sequence[Any], spec: Spec, loop: StateRegion
) -> None:
    """The same of the parts of what a loop gives; the last of the outcomes is what an iteration leaves."""
    *before, left = outcomes
    rows = [leaf_objects(x, spec) for x in before]
    with replayed(loop):
        rows.append(leaf_objects(left, spec))
    graphs = [*(current_graph().root.graphs[0] for _ in before), loop.graph]
    made_leaves.in_parts(made, rows, graphs)


def _absent(x: Any) -> bool:
    return x is UNSET or isinstance(x, journal.Missing)


def _options(x: Any) -> Sequence[Any]:
    return x.options_ if structure.is_union(x) else (x,)


_PLAIN = (torch.Tensor, *SYMBOLS, bool, int, float)


def _bound(x: Any, left: Any, spec: Spec) -> Any:
    """What a variable holds behind a loop that has an iteration, and in which each binds it: ``left`` is what one leaves."""
    if not structure.is_union(x) or any(map(_absent, _options(left))):
        return x
    if isinstance(left, _PLAIN):
        return x.options_[option_for(left, spec)]
    rest = [o for o in x.options_ if not _absent(o)]
    return rest[0] if len(rest) == 1 else x


_NO_ITERATION = (
    "a loop that gathers gradients had no iteration, so the gradients are None; what follows the loop uses them in a way that was "
    "traced for tensors. Treat that case with an `if` of its own, or set the gradients to zeros before the loop."
)


def _gathered(x: Any, graph: FuncGraph) -> Any:
    """A ``.grad`` field behind a loop: the tensor, checked when the graph runs, where the loop is taken to have an iteration."""
    some = [k for k, o in enumerate(x.options_) if o is not None] if structure.is_union(x) else []
    if len(some) != 1 or len(x.options_) != 2:
        return x
    graph.root.gathered = True
    if not graph.root.iterated:
        return x
    test = structure_argument(x.tag_ == some[0], graph)
    graph.add("tg.assert", (test, "tg.NoIterationError", (_NO_ITERATION,)))
    return x.options_[some[0]]
