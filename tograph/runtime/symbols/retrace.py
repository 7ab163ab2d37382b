"""Tracing that begins again, because it found out what it should have known."""

from __future__ import annotations

from types import CodeType

from ...errors import Location


class Retrace(BaseException):
    """Unwinds tracing, to begin again with other knowledge: ``real`` arguments are captured, ``bases`` share memory.

    ``apart``: the error for which containers have to be told apart that a staged construct merges else. ``iterated``: whether staged
    loops that gather gradients are taken to have an iteration. ``alone``: whether nothing is concluded from one copy of a loop for another. ``nested``: the error of a trace whose lists of the
    graph took no lists, dicts and objects as items: now they do. ``looped``: the code of functions whose calls of themselves are loops.
    ``unreserved``: dicts get new containers under new keys (``values.reserved``). ``quiet``: gradients are off from the beginning, as
    they were for the call. ``tabled``: the places in the code whose dicts and sets take keys that only the run knows (``values.tables``);
    ``recursive``: the code of functions that are graphs which call themselves. ``untabled``: the error of a trace with those, after which there are none.
    """

    def __init__(
        self,
        real: frozenset[int] = frozenset(),
        bases: frozenset[int] = frozenset(),
        apart: Exception | None = None,
        iterated: bool = False,
        alone: bool = False,
        nested: Exception | None = None,
        looped: frozenset[CodeType] = frozenset(),
        unreserved: bool = False,
        quiet: bool = False,
        tabled: frozenset[Location | None] = frozenset(),
        untabled: Exception | None = None,
        recursive: frozenset[CodeType] = frozenset(),
    ):
        super().__init__()
        self.real, self.bases, self.apart = real, bases, apart
        self.iterated, self.alone, self.nested = iterated, alone, nested
        self.looped, self.unreserved, self.quiet = looped, unreserved, quiet
        self.tabled, self.untabled, self.recursive = tabled, untabled, recursive

    def __or__(self, other: Retrace) -> Retrace:
        real, bases = self.real | other.real, self.bases | other.bases
        iterated, alone = self.iterated or other.iterated, self.alone or other.alone
        nested = self.nested or other.nested
        looped = self.looped | other.looped
        unreserved = self.unreserved or other.unreserved
        apart, quiet = self.apart or other.apart, self.quiet or other.quiet
        tabled, untabled = self.tabled | other.tabled, self.untabled or other.untabled
        return Retrace(real, bases, apart, iterated, alone, nested, looped, unreserved, quiet, tabled, untabled, self.recursive | other.recursive)  # fmt: skip
