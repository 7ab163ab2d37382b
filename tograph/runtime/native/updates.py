"""What is done with the element that is there when another comes: it is replaced, added to, or the greater one stays.

Elements that follow each other in both tensors are updated as vectors (``Update.row``): what is written never overlaps what is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import walks
from .code import FLOATS, REGISTER, SIZE, Code
from .values import Decline, Mem, Operand

if TYPE_CHECKING:
    from .lower import Lowering

VECTOR = 64  # bytes; of narrower machines several registers


class Update:
    """An update of elements of ``dtype``; ``how``: "add", "mul", "max", "min", or None for a replacement."""

    def __init__(self, dtype: str, how: str | None = None):
        if how is not None and dtype == "bool":
            raise Decline("a fold of bools")
        self.dtype, self.how = dtype, how

    def one(self, low: Lowering, place: Mem, at: str, value: str) -> None:
        """Update one element of ``place``."""
        code = low.code
        if self.how is not None:
            value = self._folded(code, code.load(self.dtype, place.pointer, at), value)
        code.store(self.dtype, value, place.pointer, at)

    def row(self, low: Lowering, place: Mem, source: Operand, to: Sequence[str], at: Sequence[str], rest: Sequence) -> None:  # fmt: skip
        """Update all elements of ``place`` that begin with the index ``to``, by those of ``source`` that begin with ``at``; both end with ``rest``."""
        lanes = self._lanes(place, source, rest)
        with walks.over(low, rest[:-1] if lanes else rest) as inside:
            if lanes:
                self._vectors(low, place, source, [*to, *inside], [*at, *inside], rest[-1], lanes)
                return
            there = walks.offset(low.code, [*to, *inside], place.stride)
            self.one(low, place, there, walks.element(low, source, [*at, *inside]))

    def _lanes(self, place: Mem, source: Operand, rest: Sequence) -> int:
        """How many elements are updated at once; 0 for one by one."""
        side_by_side = isinstance(source, Mem) and bool(source.size) and source.stride[-1] == 1 == place.stride[-1]  # fmt: skip
        if not rest or type(rest[-1]) is not int or not side_by_side or self.how in ("max", "min") or self.dtype not in REGISTER:  # fmt: skip
            return 0
        lanes = VECTOR // SIZE[self.dtype]
        return lanes if self.dtype != "bool" and source.size[-1] == rest[-1] >= lanes else 0

    def _vectors(self, low: Lowering, place: Mem, source: Mem, to: list[str], at: list[str], count: int, lanes: int) -> None:  # fmt: skip
        code, kind = low.code, f"<{lanes} x {REGISTER[self.dtype]}>"
        lead = len(at) - len(source.size) + 1
        target = code.element(
            self.dtype, place.pointer, walks.offset(code, [*to, "0"], place.stride)
        )
        given = code.element(self.dtype, source.pointer, walks.offset(code, [*at[lead:], "0"], _steps(source)))  # fmt: skip
        with walks.counted(code, str(count // lanes)) as i:
            step = code.multiply(i, lanes)
            a, b = (code.element(self.dtype, p, step) for p in (target, given))
            value = code.do(f"load {kind}, ptr {b}, align {SIZE[self.dtype]}")
            if self.how is not None:
                old = code.do(f"load {kind}, ptr {a}, align {SIZE[self.dtype]}")
                value = code.do(f"{self._word} {kind} {old}, {value}")
            code.line(f"store {kind} {value}, ptr {a}, align {SIZE[self.dtype]}")
        for k in range(count - count % lanes, count):
            value = code.load(self.dtype, given, str(k))
            self.one(low, Mem(target, self.dtype, (count,), (1,)), str(k), value)

    @property
    def _word(self) -> str:
        return f"f{self.how}" if self.dtype in FLOATS else str(self.how)

    def _folded(self, code: Code, old: str, value: str) -> str:
        kind = REGISTER[self.dtype]
        if self.how in ("add", "mul"):
            return code.do(f"{self._word} {kind} {old}, {value}")
        taken = walks.beyond(code, value, old, self.dtype, self.how == "max")
        return code.do(f"select i1 {taken}, {kind} {value}, {kind} {old}")


def _steps(x: Mem) -> list[int]:
    return [0 if n == 1 else s for n, s in zip(x.size, x.stride)]
