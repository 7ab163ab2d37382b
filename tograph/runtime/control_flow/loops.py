"""``While`` from Python callables.

The fixed point of the state: the body is traced with the state that the entry suggests, what comes out is joined with
what went in, and that is repeated with the wider state until it is stable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ...errors import (
    GraphBoolError,
    LoopTypeError,
    ShapeInvariantError,
)
from .. import histories, journal, listed, structure, types
from ..funcgraph import FuncGraph, current_graph, user_location
from ..ir import Node, graph_effects
from ..journal import Location as Place
from ..listed import tensors_in
from ..misuse import check_loop_limits
from ..shapes import SYMBOLS
from ..structure import (
    Leaf,
    Spec,
    flatten,
    generalize,
    join,
    leaf_types,
    spec_of,
)
from ..tracing import recording
from ..types import TensorType
from .branches import predicate
from .carried import Carried
from .joining import as_value, growing, mind_iterations, one_list, put_back, visible
from .leaves import noting
from .loop_histories import LoopHistories
from .modes import keeping
from .regions import (
    Region,
    close,
    forget_written,
    replayed,
    structure_argument,
    trace_region,
    unmoved,
    with_ambient,
)
from .telling import Told


@dataclass
class LoopOptions:
    """What ``tg.set_loop_options`` said: ``shape_invariants`` maps a location key to a shape."""

    shape_invariants: dict[Any, Sequence[int | None]] | None = None
    maximum_iterations: Any = None
    parallel_iterations: int = 10
    checkpoint: Any = None

    def __post_init__(self) -> None:
        check_loop_limits(self.maximum_iterations, self.parallel_iterations)


MAX_ROUNDS = 16


def staged_while(
    test: Callable[[], Any],
    body: Callable[[], Any],
    places: Sequence[Place],
    options: LoopOptions | None = None,
    first: Any = None,
) -> None:
    """``while test(): body()`` when the graph runs, over the contents of ``places`` and all that the body changes."""
    options = options or LoopOptions()
    places = with_ambient(places)
    same = [p for p in places if p.scratch or _leaf(p)]
    state = [p for p in places if p not in same]
    if options.maximum_iterations is not None:
        test, body, counter = _limited(test, body, options.maximum_iterations)
        state.append(counter)
    told = Told(body, state)
    contents = contents_of(state, told)
    specs = [_initial_spec(c, p, options) for c, p in zip(contents, state)]
    carried, history = Carried(), LoopHistories(state, contents)
    moving: list[tuple[Place, Spec]] = []
    for _ in range(MAX_ROUNDS):
        carried.begin(state, specs, contents_of(state, told))
        cond = _trace_with_state(
            "cond", lambda test=test: predicate_value(test()), state, specs, same, carried, told
        )
        if cond.raised or cond.changed_outside or not _removable(cond.graph):
            test, body, flag = _rotated(test, body, first)
            state.append(flag)
            specs.append(generalize(_open(spec_of(flag.get()))))
            continue
        loop = _trace_with_state("body", body, state, specs, same, carried, told, history)
        if history.change(loop, state):
            continue
        merged = [] if loop.raised else told.widen(loop, state, _contents(loop, state))
        if merged:
            initial = contents_of(state, told)
            for i, place in enumerate(state):
                specs[i] = (
                    _initial_spec(initial[i], place, options) if place in merged else specs[i]
                )
            continue
        left = _left(loop, state, told)
        known = {p.key for p in state} | {p.key for p in same if loop.content(p) is loop.entered[p.key]}  # fmt: skip
        fresh = [p for k, (p, _) in loop.changed.items() if k not in known]
        with replayed(loop):
            widened = [
                visible(s if loop.raised else _next_spec(s, p, c, options), current_graph())
                for s, p, c in zip(specs, state, left)
            ]
            again = not loop.raised and carried.widen(loop.graph, state, widened, left)
        again = told.share(state, _contents(loop, state)) or again
        if not (fresh or again) and all(map(structure.equal, specs, widened)):
            _emit_while(cond, loop, state, specs, carried, told, options.checkpoint, history)
            return
        moving = [
            (p, new) for p, old, new in zip(state, specs, widened) if not structure.equal(old, new)
        ] or moving
        specs = widened
        told.widen(loop, fresh, _contents(loop, fresh))
        for place in fresh:
            state.append(place)
            if place in same:
                history.add(place.key, as_value(place.get()))
            spec = generalize(spec_of(told.entry(place, as_value(place.get()))))
            (after,) = told.left([place], _contents(loop, [place]))
            spec = _next_spec(spec, place, after, options)
            specs.append(visible(spec, current_graph()))
    raise LoopTypeError(_endless(moving or [(p, s) for p, s in zip(state, specs)]), user_location())


def _made_anew(place: Place, spec: Spec, told: Told) -> bool:
    """Whether a place holds another container than before the loop, though one that is equal to it."""
    return place.key in told.merged and isinstance(spec, structure.Tree)


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


def _leaf(place: Place) -> bool:
    """Whether a place holds a tensor that gradients are gathered in.

    In-place ops, ``p -= step``, leave it the same tensor, with its ``.grad``. A place that an iteration gives another one becomes state.
    """
    content = as_value(place.get())
    return isinstance(content, torch.Tensor) and content.requires_grad and content.is_leaf


def _endless(moving: Sequence[tuple[Place, Spec]]) -> str:
    """What to say of variables that are of another kind in every iteration."""
    shown = "; ".join(f"'{p.name}' is {_kinds(s)}, and so on" for p, s in moving)
    return (
        f"each iteration of the loop changes what kind of value a variable is: {shown}. A loop in the graph keeps the number of "
        "dimensions of a tensor and the length of a tuple: append to a list and stack it after the loop, or loop over Python's range"
    )


def _kinds(spec: Spec) -> str:
    """The first kinds of value that a variable is in turn."""
    options = list(getattr(spec, "options", ())) or [spec]
    return ", then ".join(map(_kind, options[:3]))


def _kind(spec: Spec) -> str:
    kind, parts = getattr(spec, "type", None), getattr(spec, "parts", None)
    if parts is not None:
        items = "1 item" if len(parts) == 1 else f"{len(parts)} items"
        return f"a {spec.cls.__name__} of {items}"  # type: ignore[union-attr]
    return str(kind) if kind is not None else repr(getattr(spec, "value", spec))


def _contents(loop: StateRegion, state: Sequence[Place]) -> list[Any]:
    """What an iteration leaves in the places of the state."""
    return [as_value(loop.content(p)) for p in state]


def _left(loop: StateRegion, state: Sequence[Place], told: Told) -> list[Any]:
    """The same, with containers from before the loop counting as themselves."""
    return told.left(state, _contents(loop, state))


def contents_of(state: Sequence[Place], told: Told) -> list[Any]:
    return [told.entry(p, as_value(p.get())) for p in state]


def predicate_value(x: Any) -> Any:
    """A loop test as a staged condition or a plain bool."""
    if isinstance(x, (torch.Tensor, *SYMBOLS)):
        return predicate(x, "while")
    if structure.is_union(x):
        raise GraphBoolError("the condition of a loop is of different kinds on different paths: compare it with something", user_location())  # fmt: skip
    return bool(x)


def _open(spec: Spec) -> Spec:
    """The spec without knowing which tensor or number it is."""
    return Leaf(spec.type) if isinstance(spec, Leaf) else spec


def _rotated(test, body, first):
    """``go = test(); while go: body(); go = test()``: for a test that does more than compute.

    ``first`` is what the test gave before the loop, when it was asked already.
    """
    cell = [predicate_value(test() if first is None else first)]
    flag = Place(
        ("flag", id(cell)), "the loop test", lambda: cell[0], lambda v: cell.__setitem__(0, v), cell
    )

    def rotated_body():
        body()
        flag.set(predicate_value(test()))

    return (lambda: cell[0]), rotated_body, flag


def _limited(test, body, limit):
    """The loop with at most ``limit`` iterations."""
    cell: list[Any] = [0]
    counter = Place(
        ("flag", id(cell)),
        "the iteration count",
        lambda: cell[0],
        lambda v: cell.__setitem__(0, v),
        cell,
    )

    def limited_test():
        more = cell[0] < limit
        inner = predicate_value(test())
        if inner is True:
            return more
        if more is True or more is False:
            return inner if more else False
        inner = (
            inner
            if isinstance(inner, torch.Tensor)
            else torch.scalar_tensor(inner, dtype=torch.bool)
        )
        return torch.logical_and(inner, torch.scalar_tensor(more, dtype=torch.bool))

    def limited_body():
        body()
        counter.set(cell[0] + 1)

    return limited_test, limited_body, counter


def _removable(graph: FuncGraph) -> bool:
    e = graph_effects(graph.graph)
    return not (e.random or e.io or e.writes)


def _initial_spec(content: Any, place: Place, options: LoopOptions) -> Spec:
    spec = generalize(spec_of(content))
    return _with_invariant(spec, place, options)


def _with_invariant(spec: Spec, place: Place, options: LoopOptions) -> Spec:
    shape = (options.shape_invariants or {}).get(place.key)
    if shape is None or not isinstance(spec, Leaf) or not isinstance(spec.type, TensorType):
        return spec
    if types.join_shapes(tuple(shape), spec.type.shape) != tuple(shape):
        raise ShapeInvariantError(
            _unfit(place, spec.type, "before the loop", shape), user_location()
        )
    return Leaf(TensorType(spec.type.dtype, tuple(shape), spec.type.device))


def _unfit(place: Place, kind: TensorType, when: str, shape: Sequence[int | None]) -> str:
    found = ", ".join("None" if n is None else str(n) for n in kind.shape)
    comma = "," if len(kind.shape) == 1 else ""
    return f"'{place.name}' has shape ({found}{comma}) {when}, which does not conform with the shape invariant {tuple(shape)}."


def _next_spec(spec: Spec, place: Place, left: Any, options: LoopOptions) -> Spec:
    """The join of what went in and what came out."""
    out = spec_of(left)
    shape = (options.shape_invariants or {}).get(place.key)
    if shape is not None and isinstance(out, Leaf) and isinstance(out.type, TensorType):
        covered = types.join_shapes(tuple(shape), out.type.shape)
        if covered != tuple(shape):
            text = _unfit(place, out.type, "after one iteration", shape)
            raise ShapeInvariantError(text, user_location())
    out = generalize(out)
    return structure.texts(growing(one_list(join(spec, out), [spec, out], place)))


@dataclass
class StateRegion(Region):
    """A region that was traced with placeholders in its state. ``lead`` counts their inputs."""

    lead: int = 0
    changed_outside: bool = False
    entered: dict[Any, Any] = field(default_factory=dict)


def _trace_with_state(
    name: str,
    function,
    state: Sequence[Place],
    specs: Sequence[Spec],
    same: Sequence[Place],
    carried: Carried,
    told: Told,
    known: LoopHistories | None = None,
) -> StateRegion:
    lead = 0
    entered: dict[Any, Any] = {}

    def before(graph: FuncGraph) -> None:
        nonlocal lead
        made: list[Any] = []
        graph.repeats = name == "body"
        if known is not None:
            known.open(state)
        for place in same:
            journal.record(place)
            entered[place.key] = place.get()
        for place, spec in zip(state, specs):
            journal.record(place)
            values = [graph.input(t) for t in leaf_types(spec)]
            lead += len(values)
            if values or _made_anew(place, spec, told):
                make = noting(
                    known.maker(place, graph) if known else structure.plain_maker(graph), made
                )
                put_back(place, structure.unflatten(spec, iter(values), make))
            entered[place.key] = place.get()
        lead += carried.count
        carried.attach(graph, made, carried.inputs(graph))
        mind_iterations(state)
        told.guard(state)

    region = trace_region(name, keeping(function), before)
    moved = any(
        k not in entered or not unmoved(region.changed[k][1], entered[k]) for k in region.changed
    )
    return StateRegion(
        region.graph, region.result, region.changed, region.raised, function, lead, moved, entered
    )


def _emit_while(
    cond: StateRegion,
    loop: StateRegion,
    state,
    specs,
    carried: Carried,
    told: Told,
    checkpoint: Any,
    known: LoopHistories,
) -> None:
    graph = current_graph()
    initial = [v for c, s in zip(contents_of(state, told), specs) for v in flatten(c, s, graph)]
    kinds = [t for s in specs for t in leaf_types(s)] + [types.INT] * carried.count
    initial += carried.initial(graph)
    with recording(cond.graph):
        pred = cond.result
        if isinstance(pred, bool):
            test_value = cond.graph.emit("py.constant", pred, type=types.BOOL)
        else:
            test_value = structure_argument(pred, cond.graph)
    with recording(loop.graph), replayed(loop):
        if loop.raised:
            outs = [structure.zero_value(t, loop.graph) for t in kinds]
        else:
            outs = []
            for content, spec in zip(_left(loop, state, told), specs):
                outs += flatten(content, spec, loop.graph)
            outs += carried.final(loop.graph)
    keys = {**cond.graph.arguments, **loop.graph.arguments}
    close(cond.graph, list(keys), [test_value], cond.lead)
    close(loop.graph, list(keys), outs, loop.lead)
    graph.root.kept.update(p.key for p in state)
    node = Node(
        "While",
        (*initial, *keys.values()),
        {"carried": len(initial)} | ({"checkpoint": checkpoint} if checkpoint is not None else {}),
        kinds,
        regions={"cond": cond.graph.graph, "body": loop.graph.graph},
    )
    if loop.graph.differentiated:
        histories.EXPAND(node, graph, known.earlier, list(keys))
    every = [v.type for v in node.outputs]
    node = graph.add("While", node.args, node.kwargs, every, regions=node.regions)
    forget_written(graph, loop.graph)
    values, made = iter(node.outputs[: len(kinds)]), []  # type: ignore[var-annotated]
    for place, spec in zip(state, specs):
        x = structure.unflatten(spec, values, noting(structure.plain_maker(graph), made))
        if place.key[0] == "grad":
            x = _gathered(x, graph)
        anew = bool(leaf_types(spec)) or _made_anew(place, spec, told)
        if anew or not unmoved(as_value(place.get()), x):
            put_back(place, x)
        if not loop.raised:
            left = tensors_in(as_value(loop.content(place)))
            listed.carried(tensors_in(loop.entered.get(place.key)), left)
            listed.inherit(tensors_in(x), left)
    mind_iterations(state)
    carried.attach(graph, made, list(values))
    told.guard(state)
