"""One region: a callable traced in a graph of its own, with what it changed rolled back.

A region's graph gets its inputs when it is closed: the union of what the regions of one node capture, in one order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from ...errors import OF_THE_PROGRAM, ConditionError, TographError
from ..graph.ir import Node, Value
from ..graph.ordering import prune_region, written
from ..guarding import reads
from ..inference.shapes import SYMBOLS
from ..recording.tracing import recording
from ..symbols import duals, journal, symbolic
from ..symbols.funcgraph import FuncGraph, Storage, current_graph, user_location
from ..symbols.journal import MISSING, OWNED
from ..symbols.journal import Location as Place
from ..symbols.symbolic import SymTensor
from ..values import facts, homes, structure
from ..values.growing import StagedList
from ..values.reach import reachable
from ..writes import freed, histories, hooked, torn
from .raising import Unreachable, emit_raise, ends, may_stage


@dataclass
class Region:
    """What tracing a callable gave: its graph, result, changed locations with new contents, and whether it raised."""

    graph: FuncGraph
    result: Any
    changed: dict[Any, tuple[Place, Any]]
    raised: bool
    function: Any = None
    marks = ()  # of ``inner_lists``, which are undone at its end

    def content(self, place: Place) -> Any:
        """What the region leaves in a location."""
        return self.changed[place.key][1] if place.key in self.changed else place.get()


def _run(function: Callable[[], Any], stage_errors: bool) -> tuple[Any, bool]:
    """What a region gives, and whether it raised; recording the exception may itself find that no execution gets there."""
    try:
        return function(), False
    except ConditionError as error:
        if not stage_errors:
            raise
        emit_raise(RuntimeError(error.plain))  # where the region does not run, neither does this
    except OF_THE_PROGRAM as error:
        if not stage_errors:
            raise
        emit_raise(error)
    except TographError:
        raise
    except Exception as error:
        histories.check(error)
        if not stage_errors or not may_stage(error):
            raise
        emit_raise(error)
    except BaseException as error:
        if not stage_errors or not ends(error):
            raise
        emit_raise(error)
    return MISSING, True


def attempted(function: Callable[[], Any], stage_errors: bool = True) -> tuple[Any, bool]:
    """What a callable gives, and whether it raises whenever the graph gets here: that is recorded."""
    try:
        return _run(function, stage_errors)
    except Unreachable:
        return MISSING, True


def trace_region(
    name: str,
    function: Callable[[], Any],
    before: Callable[[FuncGraph], set[Any] | None] | None = None,
    stage_errors: bool = True,
    beside: Sequence[Any] = (),
    called: bool = False,
) -> Region:
    """Trace ``function`` in a graph of its own and roll back its changes.

    A Python exception becomes a ``tg.raise`` at the end of the graph, unless ``stage_errors`` is off. ``beside``: functions through
    which it may reach objects from before that it does not name itself. ``called``: it runs once, where it stands. ``before`` records the
    places that count as outside of the region, whatever it reaches; it gives their keys where it records others too.
    """
    graph = FuncGraph(name, current_graph())
    log = journal.push(called=called)
    result, raised = MISSING, False
    try:
        with histories.kept(graph), recording(graph), facts.scope():
            named = before(graph) if before is not None else None
            given = set(log.entries) if named is None else named
            result, raised = attempted(function, stage_errors)
        changed = {k: (p, p.get()) for k, (p, _) in log.entries.items()}
    finally:
        journal.unwind(log)
        log.rollback()
    outside = _outside(changed, graph, [function, *beside], given)
    for key, (place, content) in changed.items():
        if key not in outside and not place.scratch:
            place._set(content)  # what the region made itself is not rolled back
    return Region(graph, result, outside, raised, function)


def _outside(
    changed: dict, graph: FuncGraph, functions: list[Any], given: set
) -> dict[Any, tuple[Place, Any]]:
    """The changes that concern what was there before the region: not what it made itself."""
    places = [p for k, (p, _) in changed.items() if k not in given]
    known = _found_outside(places, functions) | homes.outside([p.keep for p in places], graph)
    kept = {}
    for key, (place, content) in changed.items():
        if key in given:
            if not place.scratch:
                kept[key] = (place, content)
        elif _is_outside(place, graph, known):
            if place.refuse is not None:
                raise place.refuse()
            kept[key] = (place, content)
    return kept


def _found_outside(places: list[Place], functions: list[Any]) -> set[int]:
    """The ids of those objects among the owners of places that are found outside: read from there, or within reach."""
    watch = reads.current()
    known: set[int] = set()
    doubtful = []
    for place in places:
        if place.key[0] in OWNED and not is_module_globals(place):
            if watch is not None and watch.source_of(place.keep) is not None:
                known.add(id(place.keep))
            else:
                doubtful.append(place.keep)
    return known | reachable(functions, doubtful) if doubtful else known


def _is_outside(place: Place, graph: FuncGraph, known: set[int]) -> bool:
    kind = place.key[0]
    if kind == "storage":
        return place.keep.home is None or not place.keep.home.within(graph)
    if kind == "grad":
        return place.keep.outside or not _made_in(place.keep.owner, graph)
    if kind == "attr" and isinstance(place.keep, SymTensor):
        return not _made_in(place.keep, graph)
    if kind == "raised":  # of a ``try`` that is open still
        return any(place.key == p.key for p in graph.root.raised)
    return kind == "world" or (
        kind in OWNED and (id(place.keep) in known or is_module_globals(place))
    )


def _made_in(x: Any, graph: FuncGraph) -> bool:
    """Whether a tensor was made in a region that is done just now: ``x.detach()`` is, whatever its memory."""
    return x.born > graph.born or (x.storage_.home is not None and x.storage_.home.within(graph))


def as_before(place: Place) -> bool:
    """Whether a place holds what it held before the call: no construct, and not the function itself, has written it.

    Assignments to variables are not recorded one by one: of those that a function assigns, all are as it begins.
    """
    if place.key[0] == "cell" or is_module_globals(place):
        now = place.get()
        logs = [log.entries for log in journal.open_journals() if place.key in log.entries]
        return all(entries[place.key][1] is now for entries in logs)
    return not journal.written(place.key)


def is_module_globals(place: Place) -> bool:
    """Whether a location is a global variable of a module, or an attribute of a class or module."""
    if place.key[0] == "attr":
        return isinstance(place.keep, (type, ModuleType))
    return (
        place.key[0] == "key"
        and isinstance(place.keep, dict)
        and "__name__" in place.keep
        and "__builtins__" in place.keep
    )


class replayed:
    """Inside, tensors, containers and objects have the content that the region left in them: its outputs are read."""

    __slots__ = ("_before", "_places")

    def __init__(self, region: Region):
        self._places = [
            (p, content)
            for p, content in region.changed.values()
            if isinstance(p.keep, Storage) or p.key[0] in ("contents", "key", "attr")
        ]

    def __enter__(self) -> None:
        self._before = [p.get() for p, _ in self._places]
        for place, content in self._places:
            place._set(content)

    def __exit__(self, *error: object) -> None:
        for (place, _), old in reversed(list(zip(self._places, self._before, strict=True))):
            place._set(old)


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


def with_ambient(places: Sequence[Place]) -> list[Place]:
    found: dict[Any, Place] = {}
    for place in (*places, *_ambient.places):
        found.setdefault(place.key, place)
    return list(found.values())


def recording_places(places: Sequence[Place]) -> Callable[[FuncGraph], None]:
    def before(graph: FuncGraph) -> None:
        for place in with_ambient(places):
            journal.record(place)

    return before


def structure_argument(x: Any, graph: FuncGraph) -> Any:
    if isinstance(x, torch.Tensor):
        return symbolic.value_of(x, graph)
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
    hooked.check(graph, outputs)
    if graph.duals:  # to ask where that is takes longer than the rest
        duals.check_leaving(graph, outputs, user_location())
    inner.outputs = freed.leaving(graph, outputs)
    prune_region(inner)
    graph.closed = True


def forget_written(graph: FuncGraph, inner: FuncGraph, node: Node) -> None:
    """A region of a node that was recorded just now may have written tensors from outside: they are read again, and autograd knows of it."""
    histories.rewritten(node, graph, inner)
    torn.left(inner, graph)
    changed = written(inner.graph, graph.root.written)
    for key, value in inner.captures.items():
        if isinstance(key, Storage) and value in changed:
            graph.known.pop(key, None)


def unmoved(a: Any, b: Any) -> bool:
    """Whether a location still holds what it held."""
    if a is b:
        return True
    if isinstance(a, StagedList) and isinstance(b, StagedList) and (a.handle or b.handle):
        return a.columns == b.columns
    if type(a) is not type(b) or not isinstance(a, (list, dict, set, deque)) or len(a) != len(b):
        return False
    if isinstance(a, dict):
        # keys in one order, compared as a dict does: tensors by identity
        return all(k in {j: None} and a[j] is b[k] for j, k in zip(a, b))
    return a == b if isinstance(a, set) else all(x is y for x, y in zip(a, b))
