"""Tracing that begins again, because it found out what it should have known."""

from __future__ import annotations


class Retrace(BaseException):
    """Unwinds tracing, to begin again with other knowledge: ``real`` arguments are captured, ``bases`` share memory.

    ``apart``: the error for which containers have to be told apart that a staged construct merges else. ``iterated``: whether staged
    loops that gather gradients are taken to have an iteration. ``alone``: whether nothing is concluded from one copy of a loop for another. ``nested``: the error of a trace whose lists of the
    graph took no lists, dicts and objects as items: now they do. ``quiet``: gradients are off from the beginning, as they were for the call.
    """

    def __init__(
        self,
        real: frozenset[int] = frozenset(),
        bases: frozenset[int] = frozenset(),
        apart: Exception | None = None,
        iterated: bool = False,
        alone: bool = False,
        nested: Exception | None = None,
        quiet: bool = False,
    ):
        super().__init__()
        self.real, self.bases, self.apart = real, bases, apart
        self.iterated, self.alone, self.nested, self.quiet = iterated, alone, nested, quiet

    def __or__(self, other: Retrace) -> Retrace:
        real, bases = self.real | other.real, self.bases | other.bases
        iterated, alone = self.iterated or other.iterated, self.alone or other.alone
        nested = self.nested or other.nested
        apart, quiet = self.apart or other.apart, self.quiet or other.quiet
        return Retrace(real, bases, apart, iterated, alone, nested, quiet)
