"""Generators and closures that are arguments: calls with another one each time share a trace.

Both are Python objects of a trace, which draws from that generator (``library.random_states``), and calls that function. A function that is given others for a
parameter is traced with objects of its own there, stand-ins: each call makes them what the caller's are (``stand_in_kinds``), and a generator goes on from the state of
its stand-in when the call ends. What the variables of a closure hold changes from call to call then, as that of any function outside may.

Invariant: nothing else tells them apart. There are no stand-ins for a function of which a trace keeps one (in a result, an attribute, a list:
somebody refers to it who is not the graph). Where generators are among them, it calls no Python, and reads no other generator that is one of the caller's.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ..graph.generators import address, generators_of
from ..graph.ir import Graph, all_nodes, items_in
from ..graph.opaque import OpaqueObject
from ..guarding.sources import Strong, holder
from ..native.entry import MISS
from ..traces.traces import Trace
from .stand_in_kinds import CLOSURES, Kind, kind_of

if TYPE_CHECKING:
    from .function import Function

# A place, of an argument or of a variable of a closure, and what its objects have in common.
Slot = tuple[Any, Any]


@dataclass
class _Taken:
    """A stand-in during a call. ``free``: those of its slot that no call has. ``ready``: it is what the object is."""

    real: Any
    own: Any
    kind: Kind
    free: list[Any]
    ready: bool = False


class StandIns:
    """Those of one function. ``refused``: there are none, as a trace showed."""

    def __init__(self) -> None:
        self.refused = False
        self._seen: dict[Slot, list[Callable[[], Any]]] = {}
        self._moving: set[Slot] = set()  # whose objects are others from call to call
        self._free: dict[Slot, list[Any]] = {}
        self._judged: weakref.WeakSet[Trace] = weakref.WeakSet()
        self._others: set[int] = set()  # addresses of generators of the program that traces read

    def moving(self, args: tuple, kwargs: dict[str, Any]) -> dict[int, Slot]:
        """The slots of the arguments, by identity, that have stand-ins in a call."""
        found: dict[int, Slot] = {}
        for place, x in (*enumerate(args), *kwargs.items()):
            kind = kind_of(x)
            if kind is not None and not self.refused and id(x) not in found:
                slot = place, kind.key(x)
                if slot in self._moving or self._moves(slot, x, kind):
                    self._moving.add(slot)
                    found[id(x)] = slot
        shared = self._others | {address(torch.default_generator)}
        given = [x for x in (*args, *kwargs.values()) if type(x) is torch.Generator]
        return found if shared.isdisjoint(map(address, given)) else {}

    def _moves(self, slot: Slot, x: Any, kind: Kind) -> bool:
        """Whether a slot is given a new object where the one before is gone, or as one of many."""
        seen = self._seen.setdefault(slot, [])
        known = [held() for held in seen]
        if any(y is x for y in known):
            return False
        seen.append(holder(x))
        return any(y is None for y in known) or len(known) >= kind.living

    @contextmanager
    def given(
        self, slots: dict[int, Slot], args: tuple, kwargs: dict[str, Any]
    ) -> Iterator[tuple[tuple, dict[str, Any], list[Any]]]:
        """The arguments with stand-ins, and these; what they stand for goes on from where they end, also where the call fails."""
        taken: dict[int, _Taken] = {}

        def take(x: Any) -> Any:
            return self._take(slots[id(x)], x, taken) if id(x) in slots else x

        try:
            own_args, own_kwargs = tuple(map(take, args)), {k: take(x) for k, x in kwargs.items()}
            yield own_args, own_kwargs, [t.own for t in taken.values()]
        finally:
            for t in taken.values():
                if t.ready:
                    t.kind.back(t.own, t.real)
                    t.free.append(t.own)

    def _take(self, slot: Slot, x: Any, taken: dict[int, _Taken]) -> Any:
        """What stands for an object, one for each; so it does for closures that the variables of a closure hold."""
        if id(x) in taken:
            return taken[id(x)].own
        kind = kind_of(x)
        assert kind is not None
        free = self._free.setdefault(slot, [])
        own = free.pop() if free else kind.make(x)
        made = taken[id(x)] = _Taken(x, own, kind, free)

        def inner(name: str, content: Any) -> Any:
            if kind_of(content) is not CLOSURES:
                return content
            return self._take(((slot, name), CLOSURES.key(content)), content, taken)

        kind.put(own, x, inner)
        made.ready = True
        return own

    def fit(self, find: Callable[[], Trace], own: list[Any], caller: Sequence[Any]) -> bool:
        """Whether the trace that ``find`` gives, for a call with ``own`` in the places of the caller's, may serve any others; where not, there are none from now on."""
        before = _counts(own)
        trace = find()
        if trace in self._judged:
            return True
        kept = _kept(own, before, trace)
        if kept:
            gc.collect()  # what only cycles hold is held by nobody
            kept = _kept(own, before, trace)
        # of a generator any draw asks
        told = any(id(x) in trace.asked for x in own if type(x) is not torch.Generator)
        self.refused = kept or told or not self._fits_generators(trace, own, caller)
        self._judged.add(trace)
        return not self.refused

    def _fits_generators(self, trace: Trace, own: list[Any], caller: Sequence[Any]) -> bool:
        mine = {address(x) for x in own if type(x) is torch.Generator}
        if not mine:
            return True
        others = _named(trace) - mine
        self._others |= others
        given = {address(x) for x in caller if type(x) is torch.Generator}
        return others.isdisjoint(given) and not _calls_python(trace.concrete.graph)


def call_with_stand_ins(function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What a call with stand-ins gives; ``MISS`` where there are none."""
    here = function.stand_ins
    slots = here.moving(args, kwargs)
    if not slots:
        return MISS
    with here.given(slots, args, kwargs) as (own_args, own_kwargs, own):
        find = partial(function._find, own_args, own_kwargs)
        if not here.fit(lambda: find()[0], own, (*args, *kwargs.values())):
            return MISS
        trace, flat, bound = find()
        places, objects = trace.places(bound), trace.objects(bound)
        return trace.concrete.run(trace.inputs(flat), places, objects)


def _named(trace: Trace) -> set[int]:
    """The addresses of the generators that a trace draws from, or read."""
    read = [x for x in trace.checks.objects if isinstance(x, torch.Generator)]
    return {address(g) for g in (*generators_of(all_nodes(trace.concrete.graph)), *read)}


def _counts(own: list[Any]) -> list[int]:
    """How many references there are to each, with the list's own and that of this look."""
    return [sys.getrefcount(x) for x in own]


def _kept(own: list[Any], before: list[int], trace: Trace) -> bool:
    """Whether others than the graph and the guards refer to one of the stand-ins now."""
    named = [id(x.value) for n in all_nodes(trace.concrete.graph) for x in _opaque(n)]
    named += [id(held.value) for held in _strong(trace)]
    by_trace = [named.count(id(x)) for x in own]
    return any(now > n + k for now, n, k in zip(_counts(own), before, by_trace))


def _strong(trace: Trace) -> list[Strong]:
    """What guards hold of objects that have no weak references, as generators of torch 2.11."""
    every = [x for c in trace.checks.checks for x in (c.old, c.source.root().key)]
    return list({id(x): x for x in every if isinstance(x, Strong)}.values())


def _opaque(node: Any) -> list[OpaqueObject]:
    return list(items_in((node.args, tuple(node.kwargs.values())), OpaqueObject))


def _calls_python(graph: Graph) -> bool:
    """Whether a graph has other Python objects, of which it is not known what they draw from."""
    found = [x.value for n in all_nodes(graph) for x in _opaque(n)]
    return any(not isinstance(x, torch.Generator) for x in found)
