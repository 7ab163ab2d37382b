"""``Try``: a body, and handlers for the exceptions that it raises when the graph runs.

A handler finds the variables as the body left them at the op that failed: the body keeps them in a cell of the graph.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...errors import refused
from ..graph import types
from ..graph.ir import Value
from ..graph.ops import OpaqueObject
from ..guarding import outer_lists
from ..symbols import journal
from ..symbols.funcgraph import FuncGraph, Storage, current_graph
from ..symbols.journal import Location as Place
from ..symbols.retrace import Retrace
from ..values import flattening, listed, pytrees, structure
from ..values.flattening import flatten
from ..values.joins import join
from ..values.reach import Reach
from ..values.structure import Handle, Spec, leaf_types, spec_of
from .attaching import choose
from .attempts import Attempt
from .bound import Bound
from .containers import all_known, told
from .joining import all_seen, as_value, join_regions, one_list, put_back, visible
from .leaves import noting
from .regions import (
    Region,
    is_module_globals,
    recording_places,
    trace_region,
    unmoved,
    with_ambient,
)
from .telling import partly


class _Progress:
    """What variables hold at each point of a ``try`` body where an op may fail, for its handlers.

    The contents live in a cell of the graph that the body sets before such an op, when they have changed. The
    handler finds there which setting was the last one and its values.
    """

    def __init__(self, places: Sequence[Place], graph: FuncGraph, body: Any):
        self.reached = Reach([body])  # while it lives, nothing else gets the id of what it found
        self.reach = self.reached.seen
        self.places, self.outer = [p for p in places if not p.scratch], graph
        self.cell = structure.Ref(graph.emit("tg.cell_new", type=types.OBJECT), graph)
        before = self.before = [as_value(p.get()) for p in self.places]
        # What the cell holds where a graph is: a setting in one branch is none in the other.
        self.last: dict[FuncGraph, list[Any]] = {graph: list(before)}
        # Whether some setting holds something else than was there before.
        self.moved = [False] * len(before)
        self.stamps: dict[FuncGraph, list[Any] | None] = {}
        self.latest: dict[FuncGraph, int] = {}  # the number of the setting that was made there
        self.passed: set[int] = set()  # settings that are never the last one where a handler begins
        self.specs: list[list[Spec]] = [[spec_of(self._told(c)) for c in before]]
        self.bound: list[Bound | None] = [None]
        self.counts = [len(before)]  # how many of the places each setting keeps
        self.depth = journal.depth()
        self.raised = {p.key for p in graph.root.raised}  # of the ``try`` statements around

    def __call__(self, graph: FuncGraph) -> None:
        self._add_changed()
        now = [as_value(p.get()) for p in self.places]
        at = graph
        while at not in self.last:
            at = at.outer
        stamps = [self._stamp(c) for c in now]
        same = at not in self.stamps or stamps == self.stamps[at]
        # What was set since, in a region inside that has ended, may be what the cell holds.
        same = same and self.latest.get(at, 0) == len(self.specs) - 1
        if same and all(unmoved(a, b) for a, b in zip(now, self.last[at])):
            return
        self.last[graph], self.stamps[graph], self.latest[graph] = now, stamps, len(self.specs)
        stay = [unmoved(a, b) for a, b in zip(now, self.before)]
        self.moved = [m or not s for m, s in zip(self.moved, stay)]
        held = [self._told(c) for c in now]
        specs = [visible(spec_of(c), self.outer) for c in held]
        tag = len(self.specs)
        self.specs.append(specs)
        self.counts.append(len(specs))
        with graph.root.unwatched():
            values = [v for c, s in zip(held, specs) for v in flatten(c, s, graph)]
            bound = Bound(self.places, held, specs, self._body(graph), self.outer)
            self.bound.append(bound)
            values += bound.values(graph)
            graph.add("tg.cell_set", (graph.resolve(self.cell), tag, values))

    def _stamp(self, content: Any, seen: frozenset[int] = frozenset()) -> Any:
        """What tells whether something that the body made was changed in place, since it was seen last."""
        if isinstance(content, torch.Tensor):
            storage = getattr(content, "storage_", None)
            return None if storage is None else [(s, s.version) for s in listed.parts(storage)]
        if id(content) in self.reach or id(content) in seen or isinstance(content, (str, int, float)):  # fmt: skip
            return None
        found = pytrees.parts_of(content)
        if found is None:
            return None
        seen |= {id(content)}
        return [(id(p), self._stamp(p, seen)) for p in found[1]]

    def _body(self, graph: FuncGraph) -> FuncGraph:
        """The graph of the body, which ``graph`` is or is nested in."""
        while graph.outer is not None and graph.outer is not self.outer:
            graph = graph.outer
        return graph

    def _told(self, content: Any) -> Any:
        """A content, with the containers from before the body counting as themselves."""
        if current_graph().root.apart:
            return partly(content, self.reach, {})
        return told(content) if all_known(content, self.reach) else content

    def mark(self) -> Any:
        """What the cell holds so far, to go ``back`` to when what follows is undone."""
        return {graph: list(contents) for graph, contents in self.last.items()}, len(self.specs)

    def back(self, mark: Any) -> None:
        last, count = mark
        for contents in last.values():
            contents += [_OTHER] * (len(self.places) - len(contents))  # set again what is not known
        self.last = last
        self.stamps = dict.fromkeys(last)  # what was undone may have changed them
        self.pass_by(count)

    def pass_by(self, count: int) -> None:
        """The settings from a number on were undone, or are those of a body whose handlers take all that fails there, and set again."""
        self.passed.update(range(count, len(self.specs)))

    def _add_changed(self) -> None:
        """Locations that the body changed through operators: tensors written in place, attributes, containers."""
        known = {p.key for p in self.places}
        for place, old in journal.changes_since(self.depth):
            if place.key not in known and self._existed(place, old):
                known.add(place.key)
                self.places.append(place)
                self.moved.append(True)
                self.before.append(as_value(old))
                for contents in self.last.values():
                    contents.append(as_value(old))
                for specs in self.specs:
                    specs.append(spec_of(self._told(as_value(old))))

    def _existed(self, place: Place, old: Any) -> bool:
        """Whether a changed location was there before the body."""
        if isinstance(place.keep, Storage):
            home = place.keep.home
            # One of a body that was traced apart and undone may still be in a variable that nobody reads.
            undone = isinstance(old, structure.Ref) and old.value in old.graph.undone
            return home is not None and self.outer.within(home) and not undone
        if place.key[0] == "raised":
            return place.key in self.raised
        if place.key[0] not in ("cell", "attr", "key", "contents"):
            return False
        # what stands for a list from outside, which the body reaches
        grows = outer_lists.extended(place.keep, self.outer.root) is not None
        seen = grows or id(place.keep) in self.reach or is_module_globals(place)
        return seen and all_seen(spec_of(as_value(old)), self.outer)

    def restore(self, graph: FuncGraph) -> set[Any]:
        """In a handler: put into the variables what they held when the body failed; the keys of those."""
        if len(self.specs) == 1:
            return set()
        moved = [p for p, m in zip(self.places, self.moved, strict=True) if m]
        for place in moved:
            journal.record(place)
        cell = graph.resolve(self.cell)
        tag = flattening.symbolic(graph.emit("tg.cell_tag", cell, type=types.INT), graph)
        settings = [self._setting(t, cell, graph) for t in range(1, len(self.specs))]
        for k, place in enumerate(self.places):
            if not self.moved[k]:
                continue
            first = self._told(as_value(place.get()))
            options = [first, *(first if t in self.passed else s[k] for t, s in enumerate(settings, 1))]  # fmt: skip
            specs = [spec_of(o) for o in options]
            spec = one_list(functools.reduce(join, specs), specs, place)
            put_back(place, choose(tag, options, graph, spec))
        return {p.key for p in moved}

    def _setting(self, t: int, cell: Value, graph: FuncGraph) -> list[Any]:
        """What the places held at the ``t``-th setting of the cell; it counts where that was the last one."""
        return [self._told(c) for c in self._held(t, cell, graph)]

    def _held(self, t: int, cell: Value, graph: FuncGraph) -> list[Any]:
        """The contents of the places at the ``t``-th setting of the cell, made of what the cell keeps: those that were changed later hold what they held before."""
        at = itertools.count()

        def get(kind: types.Type) -> Value:
            return graph.emit("tg.cell_get", cell, t, next(at), str(kind), type=kind)

        made: list[Any] = []
        contents = []
        for spec in self.specs[t][: self.counts[t]]:
            values = [get(kind) for kind in leaf_types(spec)]
            make = noting(flattening.plain_maker(graph), made)
            contents.append(flattening.unflatten(spec, iter(values), make))
        bound = self.bound[t]
        if bound is not None:
            bound.attach(made, [get(types.INT) for _ in range(bound.count)], graph)
        return [*contents, *self.before[self.counts[t] :]]

    @property
    def points(self) -> list[int]:
        """The settings that may be the last one where a handler begins; 0 stands for none."""
        return [t for t in range(len(self.specs)) if t not in self.passed]

    def each(self, handler: Callable[[], Any]) -> None:
        """In a handler: run it once for each point of the body where that may fail, with the variables as they were there."""
        graph, points = current_graph(), self.points
        tag = graph.emit("tg.cell_tag", graph.resolve(self.cell), type=types.INT)
        table = [points.index(t) if t in points else 0 for t in range(len(self.specs))]
        index = graph.emit("tg.choose", tag, table, type=types.INT)
        regions = {}
        for i, t in enumerate(points):
            run = functools.partial(self._at, t, handler)
            regions[f"branch{i}"] = trace_region(f"branch{i}", run, recording_places(self.places), beside=[handler])  # fmt: skip
        join_regions("Case", [flattening.symbolic(index, graph)], regions)

    def _at(self, t: int, handler: Callable[[], Any]) -> None:
        """The handler, where the ``t``-th setting was the last one."""
        if t:
            graph = current_graph()
            contents = self._held(t, graph.resolve(self.cell), graph)
            for place, content, moved in zip(self.places, contents, self.moved, strict=True):
                if moved:
                    put_back(place, content)
        handler()


_OTHER = object()


def _open_tries(graph: FuncGraph) -> list[_Progress]:
    return [c for c in graph.root.before_failure if isinstance(c, _Progress)]


def in_body() -> bool:
    """Whether what is recorded is in the body of a staged ``try``."""
    return bool(_open_tries(current_graph()))


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
    around = [(p, len(p.specs)) for p in _open_tries(graph)]
    graph.root.before_failure.append(progress)
    try:
        regions = {"body": trace_region("body", body, recording_places(places))}
    finally:
        graph.root.before_failure.pop()
    if any(BaseException in caught for caught, _ in handlers):
        for outer, count in around:
            outer.pass_by(count)
    for i, (_, handler) in enumerate(handlers):
        regions[f"handler{i}"] = _handler_region(f"handler{i}", handler, places, progress, body)
    kinds = tuple(OpaqueObject(k, " ".join(t.__name__ for t in k)) for k, _ in handlers)
    join_regions("Try", [], regions, kinds=kinds)


def _handler_region(
    name: str,
    handler: Callable[[Handle], Any],
    places: Sequence[Place],
    progress: _Progress,
    body: Any,
) -> Region:
    """A handler, with variables that are one thing or another.

    If that is refused, it is traced for each point where the body may fail by itself; and if that is not enough, as a handler inside of
    the body has joined what was told apart, all handlers of the function are.
    """
    root = current_graph().root
    several = 1 < len(progress.points) <= _POINTS
    ways = ([True] if root.pointwise else [False, True]) if several else [False]
    for apart in ways:
        attempt = Attempt(places)
        try:
            made = _traced_handler(name, handler, places, progress, body, apart)
        except BaseException as error:
            attempt.undo()
            if not refused(error):
                raise
            first = root.pointwise or error
            if apart is ways[-1]:
                if several and root.pointwise is None:
                    raise Retrace(pointwise=error) from None
                raise first from None
        else:
            attempt.commit()
            return made
    raise AssertionError


_POINTS = 64  # for as many a handler is traced by itself


def _traced_handler(
    name: str,
    handler: Callable[[Handle], Any],
    places: Sequence[Place],
    progress: _Progress,
    body: Any,
    apart: bool,
) -> Region:
    box: list[Handle] = []

    def before(graph: FuncGraph) -> set[Any]:
        box.append(Handle(structure.Ref(graph.emit("tg.caught", type=types.OBJECT), graph)))
        recording_places(places)(graph)
        given = {p.key for p in with_ambient(places)}
        # lists that it fits to each other are its own
        return given if apart else given | progress.restore(graph)

    def run() -> None:
        if apart:
            progress.each(lambda: handler(box[0]))
        else:
            handler(box[0])

    return trace_region(name, run, before, beside=[body, handler])
