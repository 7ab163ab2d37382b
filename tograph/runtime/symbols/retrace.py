"""Tracing that begins again, because it found out what it should have known."""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import CodeType
from typing import Any

from ...errors import Location


@dataclass(eq=False)
class Retrace(BaseException):
    """Unwinds tracing, to begin again with other knowledge: ``real`` arguments are captured, ``bases`` share memory.

    ``apart``: the error for which containers have to be told apart that a staged construct merges else. ``iterated``: whether staged
    loops that gather gradients are taken to have an iteration. ``alone``: whether nothing is concluded from one copy of a loop for another. ``nested``: the error of a trace whose lists of the
    graph took no lists, dicts and objects as items: now they do. ``looped``: the code of functions whose calls of themselves are loops.
    ``unreserved``: dicts get new containers under new keys (``values.reserved``). ``quiet``: gradients are off from the beginning, as
    they were for the call. ``tabled``: the places in the code whose dicts and sets take keys that only the run knows (``values.tables``);
    ``recursive``: the code of functions that are graphs which call themselves. ``untabled``: the error of a trace with those, after which there are none.
    ``stood``: where dicts and sets from outside are found that get keys which only the run knows (``guarding.outer_tables``).
    ``mixed``: lists of tensors and numbers, some of other lengths, are lists of tensors (``values.records``).
    ``drawn``: numpy's random generators draw all that they do while tracing (``guarding.draws``).
    ``pointwise``: the error of a handler for all points where a ``try`` may fail: it is traced for each of them (``control_flow.trying``).
    ``grown``: lists from outside that grow by a staged condition, by identity (``guarding.outer_lists``); ``ungrown``: the error of a trace with those, after which there are none.
    ``opened``: where numbers are found that a staged construct changes, which become inputs (``guarding.outer_numbers``).
    ``shared``: the code of bodies of ``for`` loops over generators whose items are taken elsewhere too, in the loop or behind a ``break``.
    ``switched``: the tensors from outside that the code makes leaves of after it has read them, by identity (``symbols.switched``).
    ``straight``: loops of Python's stay unrolled, also long ones (``converters.long_loops``).
    ``leaving``: they are, because one leaves the call; ``merged``: no trace could be made so, and none is tried.
    ``stepped``: the states that optimisers are to have from the beginning (``traces.optimizer_state``).
    """

    real: frozenset[int] = frozenset()
    bases: frozenset[int] = frozenset()
    apart: Exception | None = None
    leaving: bool = False
    merged: bool = False
    iterated: bool = False
    alone: bool = False
    nested: Exception | None = None
    looped: frozenset[CodeType] = frozenset()
    shared: frozenset[CodeType] = frozenset()
    unreserved: bool = False
    quiet: bool = False
    tabled: frozenset[Location | None] = frozenset()
    untabled: Exception | None = None
    recursive: frozenset[CodeType] = frozenset()
    stood: frozenset[Any] = frozenset()
    grown: frozenset[int] = frozenset()
    ungrown: Exception | None = None
    mixed: bool = False
    drawn: bool = False
    straight: bool = False
    pointwise: Exception | None = None
    stepped: frozenset[Any] = frozenset()
    opened: frozenset[Any] = frozenset()
    switched: frozenset[int] = frozenset()

    def __or__(self, other: Retrace) -> Retrace:
        """What both know."""
        return Retrace(
            **{f.name: _both(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        )


def _both(a: Any, b: Any) -> Any:
    return a | b if isinstance(a, frozenset) else a or b
