"""One row of the op table: what an op is, what it does, and how its gradient is taken.

``Op.aliases`` tells whether an output may share storage with an argument, or the op may keep an argument. ``Effects`` are separate
facts, so that each pass asks only the one it needs: ``random`` draws from torch's generator; ``io`` is seen outside; ``may_fail`` can
raise, so writes after it wait; ``diverges``: a loop that may not end; ``reads`` and ``writes`` are the positions of arguments whose
resource is read or written in place. An op with none is pure. Three more columns limit what passes do with pure
ops: ``foldable`` (running it early, once, gives the same), ``mergeable`` (two equal ones may be one), and
``overwrites``, the positions of values that the op destroys: its output takes their storage over.

Some ops fail by their arguments alone: ``Op.by_arguments`` says so, and ``ordering`` which of the two effects a node has.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

NONE = "none"
REPLAY = "replay"  # the gradient is torch's own: replay the op with autograd on


@dataclass(frozen=True)
class Effects:
    """What an op does besides computing its outputs."""

    random: bool = False
    io: bool = False
    may_fail: bool = False
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    diverges: bool = False
    foldable: bool = True
    mergeable: bool = True
    overwrites: tuple[int, ...] = ()

    @property
    def pure(self) -> bool:
        return self.removable and not self.reads

    @property
    def removable(self) -> bool:
        """Whether the op may go when nothing uses its outputs."""
        return not (self.random or self.io or self.may_fail or self.writes or self.diverges)

    def __or__(self, other: Effects) -> Effects:
        if other is PURE or other is self or other == self:
            return self
        if self is PURE:
            return other
        return Effects(
            self.random or other.random,
            self.io or other.io,
            self.may_fail or other.may_fail,
            self.reads + other.reads,
            self.writes + other.writes,
            self.diverges or other.diverges,
            self.foldable and other.foldable,
            self.mergeable and other.mergeable,
            self.overwrites + other.overwrites,
        )

    def at(self, place: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Effects:
        """The same effects with ``place`` applied to every tuple of positions."""
        if not (self.reads or self.writes or self.overwrites):
            return self
        found = (self.reads, self.writes, self.overwrites)
        return self.with_places(*(place(p) if p else () for p in found))

    def with_places(
        self, reads: tuple[int, ...], writes: tuple[int, ...], overwrites: tuple[int, ...]
    ) -> Effects:
        """The same effects on inputs at other positions: ``dataclasses.replace`` takes thrice as long."""
        return Effects(self.random, self.io, self.may_fail, reads, writes, self.diverges,
                       self.foldable, self.mergeable, overwrites)  # fmt: skip


PURE, MAY_FAIL, IO = Effects(), Effects(may_fail=True), Effects(io=True)
MAY_COMMIT = IO  # changes Python objects of the caller, in order with all that is seen outside


@dataclass(frozen=True)
class Op:
    """One row of the table. ``run`` takes run-time values and returns one value or a tuple."""

    name: str
    run: Callable[..., Any]
    effects: Effects
    gradient: str
    outputs: int = 1
    aliases: bool = True

    @functools.cached_property
    def by_arguments(self) -> bool:
        """Whether its arguments decide if it may fail."""
        return divides(self.name) or self.name in (TO_INTEGER | TO_REAL) or self.name in FAILS_BY_VALUE  # fmt: skip

    @functools.cached_property
    def failing(self) -> Effects:
        """The effects where the arguments let it fail."""
        return self.effects | MAY_FAIL

    @functools.cached_property
    def sure(self) -> Effects:
        """The effects where they do not."""
        return replace(self.effects, may_fail=False)


TABLE: dict[str, Op] = {}


def register(name: str, *, run, effects: Effects, gradient: str, outputs=1, aliases=True) -> None:
    """Add a row; a second row of the same name is an error."""
    if name in TABLE:
        raise KeyError(f"two rows for {name}")
    TABLE[name] = Op(name, run, effects, gradient, outputs, aliases)


# Ops that fail only by the value of one argument: known while tracing when it is constant.
FAILS_BY_VALUE = {"aten.select.int": 2, "aten.select_scatter.default": 3, "py.truediv": 1, "py.floordiv": 1, "py.mod": 1,
                  "py.range_length": 2}  # fmt: skip
TO_INTEGER = frozenset(["py.int", "py.trunc", "py.ceil", "py.floor"])
TO_REAL = frozenset(["py.float"])
# Ops that fail when they divide an integer by zero; "div" does so with a rounding mode.
_DIVISIONS = frozenset(("floor_divide", "remainder", "fmod", "div"))


@functools.cache
def divides(name: str) -> bool:
    """Whether an op fails when all it is given is integers and its second argument holds a zero."""
    base, _, variant = name.removeprefix("aten.").partition(".")
    return base in _DIVISIONS and (base != "div" or variant.endswith("_mode"))
