"""``If`` and ``While`` from Python callables, at the level of values and locations.

``staged_if`` traces both callables, each in a graph of its own, rolls back what each changed, joins the two outcomes
and applies the join. ``staged_while`` finds the fixed point of its state: it traces the body with the state that
the entry suggests, joins what comes out with what went in, and repeats with the wider state until it is stable.

A Python exception that leaves a branch becomes a ``tg.raise`` at its end: it is raised when the graph runs and takes
that branch. When every path raises, what follows cannot be reached: ``Unreachable`` unwinds to the next region.
"""

from __future__ import annotations

import builtins
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import (
    GraphBoolError,
    Location,
    LoopTypeError,
    ShapeInvariantError,
    StagingError,
    StructureError,
    TographError,
)
from . import facts, journal, structure, types
from .blocked import block
from .funcgraph import USER_CODE, FuncGraph, Storage, current_graph, user_location
from .growing import StagedList, join_lists
from .ir import Node, Value, graph_effects, node_effects, prune
from .journal import MISSING
from .journal import Location as Place
from .ops import OpaqueObject
from .reach import reachable
from .shapes import SYMBOLS
from .structure import (
    Choice,
    Handle,
    Leaf,
    Spec,
    flatten,
    generalize,
    is_union,
    join,
    leaf_types,
    spec_of,
)
from .tracing import recording
from .types import TensorType


class Unreachable(BaseException):
    """Unwinds tracing from a point that no execution reaches."""


class ConditionError(GraphBoolError, ValueError, RuntimeError):
    """A condition that is neither true nor false, such as a tensor of several elements."""


def predicate(test: Any, what: str) -> Any:
    """A staged condition: a one-element bool tensor or a staged bool. Other numbers are compared with 0."""
    if isinstance(test, SYMBOLS):
        return test if test.node.kind is bool else test != 0
    for n in test.shape:
        if type(n) is int and n != 1:
            raise ConditionError(
                f"condition of {what} statement expected to be `torch.bool` scalar, got a tensor of shape "
                f"{tuple(test.shape)}: Boolean value of Tensor with {'no values' if n == 0 else 'more than one value'} "
                "is ambiguous; use .any() or .all()",
                user_location(),
            )
    return test if test.dtype == torch.bool else test != 0


# ---- one region


@dataclass
class Region:
    """What tracing a callable gave: its graph, result, changed locations with new contents, and whether it raised."""

    graph: FuncGraph
    result: Any
    changed: dict[Any, tuple[Place, Any]]
    raised: bool

    def content(self, place: Place) -> Any:
        """What the region leaves in a location."""
        return self.changed[place.key][1] if place.key in self.changed else place.get()


def trace_region(
    name: str,
    function: Callable[[], Any],
    before: Callable[[FuncGraph], None] | None = None,
    stage_errors: bool = True,
) -> Region:
    """Trace ``function`` in a graph of its own and roll back its changes.

    A Python exception becomes a ``tg.raise`` at the end of the graph, unless ``stage_errors`` is off.
    """
    graph = FuncGraph(name, current_graph())
    log = journal.push()
    result, raised = MISSING, False
    try:
        with recording(graph):
            if before is not None:
                before(graph)
            given = set(log.entries)
            try:
                result = function()
            except Unreachable:
                raised = True
            except TographError:
                raise
            except Exception as error:
                if not stage_errors or not _may_stage(error):
                    raise
                emit_raise(error)
                raised = True
        changed = {k: (p, p.get()) for k, (p, _) in log.entries.items()}
    finally:
        journal.unwind(log)
        log.rollback()
    outside = _outside(changed, graph, function, given)
    for key, (place, content) in changed.items():
        if key not in outside and not place.scratch:
            place._set(content)  # what the region made itself is not rolled back
    return Region(graph, result, outside, raised)


_OWNED = ("cell", "key", "attr", "contents")


def _outside(
    changed: dict, graph: FuncGraph, function: Any, given: set
) -> dict[Any, tuple[Place, Any]]:
    """The changes that concern what was there before the region: not what it made itself."""
    doubtful = [p for k, (p, _) in changed.items() if k not in given and k[0] in _OWNED]
    known = reachable([function]) if doubtful else set()
    kept = {}
    for key, (place, content) in changed.items():
        if key in given:
            if not place.scratch:
                kept[key] = (place, content)
        elif key[0] == "storage":
            if place.keep.home is None or not place.keep.home.within(graph):
                kept[key] = (place, content)
        elif key[0] in _OWNED and (id(place.keep) in known or is_module_globals(place)):
            kept[key] = (place, content)
    return kept


def is_module_globals(place: Place) -> bool:
    """Whether a location is a global variable of a module."""
    return (
        place.key[0] == "key"
        and isinstance(place.keep, dict)
        and "__name__" in place.keep
        and "__builtins__" in place.keep
    )


class StagedException(Exception):
    """What a handler gets for an exception that happens when the graph runs."""

    def __init__(self, handle: Handle):
        super().__init__()
        self.handle_ = handle

    def __str__(self):
        raise self._unknown("text")

    def __getattribute__(self, name):
        if name == "args" or not (
            name.startswith("_") or name in ("handle_", "with_traceback", "add_note")
        ):
            raise object.__getattribute__(self, "_unknown")(f"attribute {name!r}")
        return super().__getattribute__(name)

    def _unknown(self, what: str) -> StagingError:
        return StagingError(
            f"the {what} of an exception that happens when the graph runs is not known here; str(e), f-strings, print(e), "
            "isinstance(e, T) and raise work",
            user_location(),
        )


def _may_stage(error: Exception) -> bool:
    return not isinstance(error, (RecursionError, MemoryError))


def emit_raise(error: BaseException) -> None:
    """Record that ``error`` is raised here."""
    graph = current_graph()
    if isinstance(error, StagedException):
        graph.add("tg.reraise", (graph.resolve(error.handle_.ref),))
        return
    location = raised_at(error)
    error.__traceback__ = None
    node = graph.add("tg.raise", exception_arguments(error, graph))
    node.location = location or node.location


def raised_at(error: BaseException) -> Location | None:
    """The user's line that an exception comes from: the innermost frame of converted code."""
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in USER_CODE:
            found = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return found


def exception_arguments(error: BaseException, graph: FuncGraph) -> tuple[Any, tuple]:
    """(kind, arguments) of an exception for ``tg.raise`` and ``tg.assert``."""
    args = tuple(outside_value(a, graph) for a in error.args)
    kind = type(error)
    simple = (
        getattr(builtins, kind.__name__, None) is kind
        and not vars(error)
        and error.__cause__ is None
    )
    return (kind.__name__ if simple else OpaqueObject(error, f"exception {kind.__name__}")), args


def outside_value(x: Any, graph: FuncGraph) -> Any:
    """An argument of an effect: a value, a plain constant, or an opaque Python object."""
    if isinstance(x, torch.Tensor):
        return structure.value_of(x, graph)
    if isinstance(x, SYMBOLS):
        return x.node.value(graph)
    if isinstance(x, Handle):
        return graph.resolve(x.ref)
    handle = getattr(x, "handle_", None)
    if isinstance(handle, Handle):
        return graph.resolve(handle.ref)
    if x is None or type(x) in (bool, int, float, str, complex):
        return x
    found = structure.parts_of(x)
    if found is not None and found[1]:
        parts = [outside_value(p, graph) for p in found[1]]
        maker = OpaqueObject(_Rebuild(type(x), found[0]), f"make {type(x).__name__}")
        return graph.emit("py.apply_opaque", maker, *parts, type=types.OBJECT)
    return OpaqueObject(x, type(x).__name__)


@dataclass
class _Rebuild:
    cls: type
    aux: Any

    def __call__(self, *parts):
        return structure.rebuild(self.cls, self.aux, list(parts))


@contextmanager
def replayed(region: Region):
    """Inside, tensors have the content that the region left in them: its outputs are read."""
    storages = [
        (p, content) for p, content in region.changed.values() if isinstance(p.keep, Storage)
    ]
    before = [p.get() for p, _ in storages]
    for place, content in storages:
        place._set(content)
    try:
        yield
    finally:
        for (place, _), old in zip(storages, before):
            place._set(old)


# ---- If


def staged_if(
    pred: Any, then: Callable[[], Any], orelse: Callable[[], Any], places: Sequence[Place] = ()
) -> Any:
    """``then()`` if ``pred`` else ``orelse()`` when the graph runs.

    The contents of ``places``, and of every location that either changes through an operator, are merged.
    """
    with facts.assuming(pred, True):
        first = trace_region("then", then, _recording_places(places))
    with facts.assuming(pred, False):
        second = trace_region("orelse", orelse, _recording_places(places))
    return join_regions("If", [pred], {"then": first, "orelse": second})


class _Ambient(threading.local):
    def __init__(self) -> None:
        self.places: list[Place] = []


_ambient = _Ambient()


@contextmanager
def ambient(places: Sequence[Place]):
    """Inside, ``places`` are state of every staged construct: a loop's body runs inside the loops of a generator."""
    before = _ambient.places
    _ambient.places = [*before, *places]
    try:
        yield
    finally:
        _ambient.places = before


def _with_ambient(places: Sequence[Place]) -> list[Place]:
    given = {p.key for p in places}
    return [*places, *(p for p in _ambient.places if p.key not in given)]


def _recording_places(places: Sequence[Place]) -> Callable[[FuncGraph], None]:
    def before(graph: FuncGraph) -> None:
        for place in _with_ambient(places):
            journal.record(place)

    return before


def join_regions(op: str, heads: Sequence[Any], regions: dict[str, Region], **attrs):
    """Record a region op whose regions are alternatives, and apply the join of their outcomes."""
    graph = current_graph()
    live = [r for r in regions.values() if not r.raised]
    if not live:
        _emit_regions(op, heads, regions, [[] for _ in regions], [], graph, attrs)
        raise Unreachable
    places: dict[Any, Place] = {}
    for region in regions.values():
        places.update({k: p for k, (p, _) in region.changed.items()})
    slots = [(None, [r.result for r in live])] + [
        (p, [r.content(p) for r in live]) for p in places.values()
    ]
    specs = [visible(_join_contents(contents, place), graph) for place, contents in slots]
    outputs = []
    for region in regions.values():
        with recording(region.graph), replayed(region):
            outputs.append(_region_outputs(region, slots, specs, live))
    kinds = [t for s in specs for t in leaf_types(s)]
    node = _emit_regions(op, heads, regions, outputs, kinds, graph, attrs)
    _forget_written(graph, regions)
    values = iter(node.outputs)
    result = MISSING
    inputs = (
        [x for r in regions.values() for x in r.graph.differentiable.values()]
        if op != "Call"
        else []
    )
    for (place, _), spec in zip(slots, specs):
        x = structure.unflatten(spec, values, lambda v: _result(v, graph, op, inputs))
        if place is None:
            result = x
        else:
            _put(place, x)
    return result


def _result(value: Value, graph: FuncGraph, op: str, inputs: list[torch.Tensor]) -> Any:
    x = structure.symbolic(value, graph)
    return block(x, op, value.node.location, inputs) if isinstance(x, torch.Tensor) else x


def _put(place: Place, x: Any) -> None:
    """Write what a staged construct made of a location."""
    if isinstance(place.keep, Storage):
        x = (
            x.ref
            if not isinstance(x, structure.SymTensor)
            else structure.Ref(structure.value_of(x, current_graph()), current_graph())
        )
    elif is_union(x):
        if place.key[0] == "contents":
            raise StructureError(
                f"{place.name} has a different number of items, or items of different kinds, depending on a staged "
                "condition; append in both branches, or use a tg.TensorList",
                user_location(),
            )
        x.__dict__["name_"] = place.name
    place.set(x)


def _as_value(x: Any) -> Any:
    """The content of a location as a value that has a spec."""
    return Handle(x) if isinstance(x, structure.Ref) else x


def visible(spec: Spec, graph: FuncGraph) -> Spec:
    """The spec with everything opened that is known only by a value inside a region."""
    if isinstance(spec, Leaf):
        return Leaf(spec.type) if spec.fixed and not _seen_from(spec.const, graph) else spec
    if isinstance(spec, structure.Tree):
        return structure.Tree(spec.cls, spec.aux, tuple(visible(p, graph) for p in spec.parts))
    if isinstance(spec, Choice):
        return Choice(tuple(visible(o, graph) for o in spec.options))
    return spec


def _all_seen(spec: Spec, graph: FuncGraph) -> bool:
    return structure.equal(visible(spec, graph), spec)


def _seen_from(x: Any, graph: FuncGraph) -> bool:
    if isinstance(x, structure.SymTensor):
        refs = [x.ref] if x.ref is not None else []
        return (x.storage_.home is None or graph.within(x.storage_.home)) and all(
            graph.within(r.graph) for r in refs
        )
    if isinstance(x, SYMBOLS):
        return x.node.ref is None or graph.within(x.node.ref.graph)
    return not isinstance(x, Handle) or graph.within(x.ref.graph)


def _join_contents(contents: list[Any], place: Place | None) -> Spec:
    specs = [spec_of(_as_value(c)) for c in contents]
    spec = specs[0]
    for other in specs[1:]:
        spec = join(spec, other)
    return _one_list(spec, specs, place)


def _one_list(spec: Spec, specs: list[Spec], place: Place | None) -> Spec:
    """The content of a list that has different lengths on different paths is a list of the graph."""
    if place is not None and place.key[0] == "contents" and not _settled(spec):
        found = join_lists(specs)
        if found is not None:
            return found
    return spec


def _settled(spec: Spec) -> bool:
    """Whether a list content has a fixed number of items of one kind each."""
    return isinstance(spec, structure.Tree) and not any(isinstance(p, Choice) for p in spec.parts)


def _region_outputs(region: Region, slots, specs, live) -> list[Value]:
    graph = region.graph
    out: list[Value] = []
    for (place, _), spec in zip(slots, specs):
        if region.raised:
            out += [structure.zero_value(t, graph) for t in leaf_types(spec)]
        else:
            x = region.result if place is None else region.content(place)
            out += flatten(_as_value(x), spec, graph)
    return out


def _emit_regions(op, heads, regions, outputs, kinds, graph: FuncGraph, attrs) -> Node:
    keys: dict[Any, Value] = {}
    for region in regions.values():
        keys.update(region.graph.arguments)
    for region, outs in zip(regions.values(), outputs):
        close(region.graph, list(keys), outs)
    args = tuple(structure_argument(h, graph) for h in heads) + tuple(keys.values())
    return graph.add(op, args, attrs, kinds, regions={n: r.graph.graph for n, r in regions.items()})


def structure_argument(x: Any, graph: FuncGraph) -> Any:
    if isinstance(x, torch.Tensor):
        return structure.value_of(x, graph)
    return x.node.value(graph) if isinstance(x, SYMBOLS) else x


def close(graph: FuncGraph, keys: list[Any], outputs: list[Value], lead: int = 0) -> None:
    """Finish a region: its inputs in the order of ``keys`` after ``lead`` own ones, and its outputs."""
    inner = graph.graph
    own = inner.inputs[:lead]
    for key in keys:
        if key not in graph.captures:
            outer = key.type if isinstance(key, Value) else structure.tensor_type(key.meta)
            graph.captures[key] = Value(outer)
    inner.inputs = own + [graph.captures[k] for k in keys]
    inner.input_names = inner.input_names[:lead] + [""] * len(keys)
    inner.outputs = outputs
    prune(inner)
    graph.closed = True


def _forget_written(graph: FuncGraph, regions: dict[str, Region]) -> None:
    """External storages that a region wrote have to be read again."""
    for region in regions.values():
        forget_written(graph, region.graph)


def forget_written(graph: FuncGraph, inner: FuncGraph) -> None:
    written = set(graph_effects(inner.graph).writes)
    for key, value in inner.captures.items():
        if isinstance(key, Storage) and inner.graph.inputs.index(value) in written:
            graph.known.pop(key, None)


# ---- Try


def may_fail(nodes: Sequence[Node]) -> bool:
    """Whether one of the nodes can raise when the graph runs."""
    return any(node_effects(n).may_fail for n in nodes)


class _Progress:
    """What variables hold at each point of a ``try`` body where an op may fail, for its handlers.

    The contents live in a cell of the graph that the body sets before such an op, when they have changed. The
    handler finds there which setting was the last one and its values.
    """

    def __init__(self, places: Sequence[Place], graph: FuncGraph, body: Any):
        self.reach = reachable([body])
        self.places, self.outer = [p for p in places if not p.scratch], graph
        self.cell = structure.Ref(graph.emit("tg.cell_new", type=types.OBJECT), graph)
        before = [_as_value(p.get()) for p in self.places]
        # What the cell holds where a graph is: a setting in one branch is none in the other.
        self.last: dict[FuncGraph, list[Any]] = {graph: before}
        self.specs: list[list[Spec]] = [[spec_of(c) for c in before]]
        self.depth = journal.depth()

    def __call__(self, graph: FuncGraph) -> None:
        self._add_changed()
        now = [_as_value(p.get()) for p in self.places]
        at = graph
        while at not in self.last:
            at = at.outer
        if all(unmoved(a, b) for a, b in zip(now, self.last[at])):
            return
        self.last[graph] = now
        specs = [visible(spec_of(c), self.outer) for c in now]
        values = [v for c, s in zip(now, specs) for v in flatten(c, s, graph)]
        tag = len(self.specs)
        self.specs.append(specs)
        stack, graph.root.before_failure = graph.root.before_failure, []
        graph.add("tg.cell_set", (graph.resolve(self.cell), tag, values))
        graph.root.before_failure = stack

    def _add_changed(self) -> None:
        """Locations that the body changed through operators: tensors written in place, attributes, containers."""
        known = {p.key for p in self.places}
        for place, old in journal.changes_since(self.depth):
            if place.key not in known and self._existed(place, old):
                known.add(place.key)
                self.places.append(place)
                for contents in self.last.values():
                    contents.append(_as_value(old))
                for specs in self.specs:
                    specs.append(spec_of(_as_value(old)))

    def _existed(self, place: Place, old: Any) -> bool:
        """Whether a changed location was there before the body."""
        if isinstance(place.keep, Storage):
            return place.keep.home is not None and self.outer.within(place.keep.home)
        if place.key[0] not in ("attr", "key", "contents"):
            return False
        return id(place.keep) in self.reach and _all_seen(spec_of(_as_value(old)), self.outer)

    def restore(self, graph: FuncGraph) -> None:
        """In a handler: put into the variables what they held when the body failed."""
        if len(self.specs) == 1:
            return
        for place in self.places:
            journal.record(place)
        cell = graph.resolve(self.cell)
        tag = structure.symbolic(graph.emit("tg.cell_tag", cell, type=types.INT), graph)
        starts = [0] * len(self.specs)
        for k, place in enumerate(self.places):
            options = []
            for t, specs in enumerate(self.specs):
                kinds = leaf_types(specs[k])
                values = [graph.emit("tg.cell_get", cell, t, starts[t] + i, str(kind), type=kind)
                          for i, kind in enumerate(kinds)]  # fmt: skip
                starts[t] += len(kinds)
                make = structure.unflatten(
                    specs[k], iter(values), lambda v: structure.symbolic(v, graph)
                )
                options.append(_as_value(place.get()) if t == 0 else make)
            _put(place, structure.choose(tag, options, graph))


def staged_try(
    body: Callable[[], Any],
    handlers: Sequence[tuple[tuple[type, ...], Callable[[Handle], Any]]],
    places: Sequence[Place],
) -> None:
    """Run ``body``; an exception of one of the types of a handler, when the graph runs, runs that handler instead.

    A handler gets a handle of the exception, and finds the variables as the body left them where it failed.
    """
    graph = current_graph()
    progress = _Progress(places, graph, body)
    graph.root.before_failure.append(progress)
    try:
        regions = {"body": trace_region("body", body, _recording_places(places))}
    finally:
        graph.root.before_failure.pop()
    for i, (_, handler) in enumerate(handlers):
        regions[f"handler{i}"] = _handler_region(f"handler{i}", handler, places, progress)
    kinds = tuple(OpaqueObject(k, " ".join(t.__name__ for t in k)) for k, _ in handlers)
    join_regions("Try", [], regions, kinds=kinds)


def _handler_region(
    name: str, handler: Callable[[Handle], Any], places: Sequence[Place], progress: _Progress
) -> Region:
    box: list[Handle] = []

    def before(graph: FuncGraph) -> None:
        box.append(Handle(structure.Ref(graph.emit("tg.caught", type=types.OBJECT), graph)))
        _recording_places(places)(graph)
        progress.restore(graph)

    return trace_region(name, lambda: handler(box[0]), before)


# ---- While


@dataclass
class LoopOptions:
    """What ``tg.set_loop_options`` said: ``shape_invariants`` maps a location key to a shape."""

    shape_invariants: dict[Any, Sequence[int | None]] | None = None
    maximum_iterations: Any = None
    parallel_iterations: int = 10


MAX_ROUNDS = 12


def staged_while(
    test: Callable[[], Any],
    body: Callable[[], Any],
    places: Sequence[Place],
    options: LoopOptions | None = None,
    first: Any = None,
) -> None:
    """``while test(): body()`` when the graph runs, over the contents of ``places`` and all that the body changes."""
    options = options or LoopOptions()
    places = _with_ambient(places)
    state = [p for p in places if not p.scratch]
    scratch = [p for p in places if p.scratch]
    if options.maximum_iterations is not None:
        test, body, counter = _limited(test, body, options.maximum_iterations)
        state.append(counter)
    contents = [_as_value(p.get()) for p in state]
    specs = [_initial_spec(c, p, options) for c, p in zip(contents, state)]
    for _ in range(MAX_ROUNDS):
        cond = _trace_with_state(
            "cond", lambda test=test: predicate_value(test()), state, specs, scratch
        )
        if cond.raised or cond.changed_outside or not _removable(cond.graph):
            test, body, flag = _rotated(test, body, first)
            state.append(flag)
            specs.append(generalize(_open(spec_of(flag.get()))))
            continue
        loop = _trace_with_state("body", body, state, specs, scratch)
        fresh = [p for k, (p, _) in loop.changed.items() if k not in {s.key for s in state}]
        widened = [
            visible(_next_spec(s, p, loop, options), current_graph()) for s, p in zip(specs, state)
        ]
        if not fresh and all(map(structure.equal, specs, widened)):
            _emit_while(cond, loop, state, specs, contents_of(state))
            return
        specs = widened
        for place in fresh:
            state.append(place)
            spec = _next_spec(generalize(spec_of(_as_value(place.get()))), place, loop, options)
            specs.append(visible(spec, current_graph()))
    names = ", ".join(f"'{p.name}'" for p in state)
    raise LoopTypeError(
        f"the kinds of the loop variables {names} keep changing from iteration to iteration",
        user_location(),
    )


def contents_of(state: Sequence[Place]) -> list[Any]:
    return [_as_value(p.get()) for p in state]


def predicate_value(x: Any) -> Any:
    """A loop test as a staged condition or a plain bool."""
    if isinstance(x, (torch.Tensor, *SYMBOLS)):
        return predicate(x, "while")
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
    return Leaf(TensorType(spec.type.dtype, tuple(shape), spec.type.device))


def _next_spec(spec: Spec, place: Place, loop: StateRegion, options: LoopOptions) -> Spec:
    """The join of what went in and what came out."""
    if loop.raised:
        return spec
    out = spec_of(_as_value(loop.content(place)))
    shape = (options.shape_invariants or {}).get(place.key)
    if shape is not None and isinstance(out, Leaf) and isinstance(out.type, TensorType):
        covered = types.join_shapes(tuple(shape), out.type.shape)
        if covered != tuple(shape):
            found = ", ".join("None" if n is None else str(n) for n in out.type.shape)
            comma = "," if len(out.type.shape) == 1 else ""
            raise ShapeInvariantError(
                f"'{place.name}' has shape ({found}{comma}) after one iteration, which does not conform with the shape "
                f"invariant {tuple(shape)}.",
                user_location(),
            )
    out = generalize(out)
    return _one_list(join(spec, out), [spec, out], place)


@dataclass
class StateRegion(Region):
    """A region that was traced with placeholders in its state. ``lead`` counts their inputs."""

    lead: int = 0
    changed_outside: bool = False


def _trace_with_state(
    name: str, function, state: Sequence[Place], specs: Sequence[Spec], scratch: Sequence[Place]
) -> StateRegion:
    lead = 0
    entered: dict[Any, Any] = {}

    def before(graph: FuncGraph) -> None:
        nonlocal lead
        for place in scratch:
            journal.record(place)
        for place, spec in zip(state, specs):
            journal.record(place)
            values = [graph.input(t) for t in leaf_types(spec)]
            lead += len(values)
            if values:
                _put(
                    place,
                    structure.unflatten(spec, iter(values), lambda v: structure.symbolic(v, graph)),
                )
            entered[place.key] = place.get()

    region = trace_region(name, function, before)
    moved = any(
        k not in entered or not unmoved(region.changed[k][1], entered[k]) for k in region.changed
    )
    return StateRegion(region.graph, region.result, region.changed, region.raised, lead, moved)


def unmoved(a: Any, b: Any) -> bool:
    """Whether a location still holds what it held."""
    if a is b:
        return True
    if isinstance(a, StagedList) and isinstance(b, StagedList) and (a.handle or b.handle):
        return a.handle == b.handle
    if type(a) is not type(b) or not isinstance(a, (list, dict, set, deque)) or len(a) != len(b):
        return False
    if isinstance(a, dict):
        return all(k in b and a[k] is b[k] for k in a)
    return a == b if isinstance(a, set) else all(x is y for x, y in zip(a, b))


def _emit_while(cond: StateRegion, loop: StateRegion, state, specs, contents) -> None:
    graph = current_graph()
    initial = [v for c, s in zip(contents, specs) for v in flatten(c, s, graph)]
    with recording(cond.graph):
        pred = cond.result
        if isinstance(pred, bool):
            test_value = cond.graph.emit("py.constant", pred, type=types.BOOL)
        else:
            test_value = structure_argument(pred, cond.graph)
    with recording(loop.graph), replayed(loop):
        if loop.raised:
            outs = [structure.zero_value(t, loop.graph) for s in specs for t in leaf_types(s)]
        else:
            outs = []
            for place, spec in zip(state, specs):
                outs += flatten(_as_value(loop.content(place)), spec, loop.graph)
    keys = {**cond.graph.arguments, **loop.graph.arguments}
    close(cond.graph, list(keys), [test_value], cond.lead)
    close(loop.graph, list(keys), outs, loop.lead)
    node = graph.add(
        "While",
        (*initial, *keys.values()),
        {"carried": len(initial)},
        [t for s in specs for t in leaf_types(s)],
        regions={"cond": cond.graph.graph, "body": loop.graph.graph},
    )
    forget_written(graph, loop.graph)
    values = iter(node.outputs)
    inputs = [*cond.graph.differentiable.values(), *loop.graph.differentiable.values()]
    inputs += [c for c in contents if isinstance(c, torch.Tensor) and c.requires_grad]
    for place, spec in zip(state, specs):
        x = structure.unflatten(spec, values, lambda v: _result(v, graph, "While", inputs))
        if leaf_types(spec) or not unmoved(_as_value(place.get()), x):
            _put(place, x)


# ---- trying an iteration


class Attempt:
    """Run something while tracing in a way that can be undone: graph nodes, variables and recorded changes."""

    def __init__(self, places: Sequence[Place]):
        self.graph = current_graph()
        self.mark = len(self.graph.graph.nodes)
        self.known = dict(self.graph.known)
        self.log = journal.push()
        for place in _with_ambient(places):
            journal.record(place)

    def run(self, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except BaseException:
            self.commit()
            raise

    def commit(self) -> None:
        """Keep what was done."""
        journal.pop(self.log)
        journal.adopt(self.log)

    def undo(self) -> None:
        """Put everything back."""
        journal.pop(self.log)
        self.log.rollback()
        del self.graph.graph.nodes[self.mark :]
        self.graph.known = self.known
