"""Generators that are arguments: calls with another one each time share a trace.

A generator is a Python object of the trace, which draws from that one (``library.random_states``). A function that is given a second one for a
parameter is traced with a generator of its own there, a stand-in: each call gives it the state of the caller's, and the caller's that of
the stand-in when it ends, so that only draws, seeds and states pass between the two.

Invariant: nothing else tells them apart. There are no stand-ins for a function of which a trace keeps one (in a result, an attribute, a closure:
somebody refers to it who is not the graph), calls Python, or reads another generator that is one of the caller's.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from ..graph.generators import address, generators_of
from ..graph.ir import Graph, all_nodes, items_in
from ..graph.opaque import OpaqueObject
from ..native.entry import MISS
from ..traces.traces import Trace

if TYPE_CHECKING:
    from .function import Function

Place = int | str  # the number or the name of an argument


class StandIns:
    """Those of one function. ``refused``: there are none, as a trace showed."""

    def __init__(self) -> None:
        self.refused = False
        self._first: dict[Place, weakref.ref[torch.Generator]] = {}
        self._free: dict[tuple[Place, str], list[torch.Generator]] = {}
        self._judged: set[int] = set()  # the traces, by identity, that have been looked at
        self._others: set[int] = set()  # the addresses of other generators that these read
        self._own: weakref.WeakSet[torch.Generator] = weakref.WeakSet()

    def wanted(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        """Whether a call gives a generator in a place where another one was given first."""
        found = _generators(args, kwargs)
        if not found or self.refused or any(x in self._own for x in found.values()):
            return False
        for place, x in found.items():
            self._first.setdefault(place, weakref.ref(x))
        new = any(self._first[place]() is not x for place, x in found.items())
        shared = self._others | {address(torch.default_generator)}
        return new and shared.isdisjoint(map(address, found.values()))

    @contextmanager
    def given(self, args: tuple, kwargs: dict[str, Any]) -> Iterator[tuple[tuple, dict[str, Any]]]:
        """The arguments with stand-ins; the caller's generators go on from where these end, also where the call fails."""
        taken: dict[int, tuple[torch.Generator, torch.Generator, list[torch.Generator]]] = {}
        for place, x in _generators(args, kwargs).items():
            if id(x) not in taken:  # one that is passed twice is one generator
                free = self._free.setdefault((place, str(x.device)), [])
                taken[id(x)] = x, free.pop() if free else self._new(x.device), free
        try:
            for x, own, _ in taken.values():
                own.set_state(x.get_state())
            yield (
                tuple(taken[id(x)][1] if id(x) in taken else x for x in args),
                {k: taken[id(x)][1] if id(x) in taken else x for k, x in kwargs.items()},
            )
        finally:
            for x, own, free in taken.values():
                x.set_state(own.get_state())
                free.append(own)

    def _new(self, device: torch.device) -> torch.Generator:
        made = torch.Generator(device)
        self._own.add(made)
        return made

    def fit(self, function: Function, args: tuple, kwargs: dict[str, Any], caller: tuple) -> bool:
        """Whether the trace for arguments with stand-ins may serve any generators; where not, there are none from now on."""
        own = list(_generators(args, kwargs).values())
        before = _counts(own)
        trace: Trace = function._find(args, kwargs)[0]
        if id(trace) in self._judged:
            return True
        graph = trace.concrete.graph
        others = _named(trace) - set(map(address, own))
        given = {address(x) for x in _generators(*caller).values()}
        kept = _kept(own, before, graph)
        if kept:
            gc.collect()  # what only cycles hold is held by nobody
            kept = _kept(own, before, graph)
        self.refused = kept or _calls_python(graph) or not others.isdisjoint(given)
        self._judged.add(id(trace))
        self._others |= others
        return not self.refused


def call_with_stand_ins(function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What a call with stand-ins gives; ``MISS`` where there are none."""
    here = function.stand_ins
    if not here.wanted(args, kwargs):
        return MISS
    with here.given(args, kwargs) as (own_args, own_kwargs):
        if not here.fit(function, own_args, own_kwargs, (args, kwargs)):
            return MISS
        trace, flat, bound = function._find(own_args, own_kwargs)
        places, objects = trace.places(bound), trace.objects(bound)
        return trace.concrete.run(trace.inputs(flat), places, objects)


def _generators(args: tuple, kwargs: dict[str, Any]) -> dict[Place, torch.Generator]:
    """The generators among arguments, by place."""
    every = [*enumerate(args), *kwargs.items()]
    return {place: x for place, x in every if type(x) is torch.Generator}


def _named(trace: Trace) -> set[int]:
    """The addresses of the generators that a trace draws from, or read."""
    read = [x for x in trace.checks.objects if isinstance(x, torch.Generator)]
    return {address(g) for g in (*generators_of(all_nodes(trace.concrete.graph)), *read)}


def _counts(own: list[torch.Generator]) -> list[int]:
    """How many references there are to each, with the list's own and that of this look."""
    return [sys.getrefcount(x) for x in own]


def _kept(own: list[torch.Generator], before: list[int], graph: Graph) -> bool:
    """Whether others than the graph refer to one of the stand-ins now."""
    named = [id(x.value) for n in all_nodes(graph) for x in _opaque(n)]
    by_graph = [named.count(id(x)) for x in own]
    return any(now > n + k for now, n, k in zip(_counts(own), before, by_graph))


def _opaque(node: Any) -> list[OpaqueObject]:
    return list(items_in((node.args, tuple(node.kwargs.values())), OpaqueObject))


def _calls_python(graph: Graph) -> bool:
    """Whether a graph has other Python objects, of which it is not known what they draw from."""
    found = [x.value for n in all_nodes(graph) for x in _opaque(n)]
    return any(not isinstance(x, torch.Generator) for x in found)
