"""Reductions and scans in LLVM IR: accumulators on the stack (registers after optimisation), and folding lanes at the end.

Rounding errors of a sum in f32 grow with the number of its terms. So what the lanes of a long one have added up goes to totals in f64 every few dozen steps,
which costs nothing beside these: the error is that of a block.
"""

from __future__ import annotations

from typing import Any

from .llvm_text import REGISTER
from .loop_ir import FLOATS, ITEM_SIZES, Expr
from .vector_ops import OPS
from .vectors import Emitter

_IDENTITY = {"sum": 0, "prod": 1, "any": 0, "all": 1}
_COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}


def identity(kind: str, dtype: str):
    """The value that a fold starts from."""
    kind = kind.removeprefix("arg")
    if kind in _IDENTITY:
        return _IDENTITY[kind]
    if dtype in FLOATS:
        return float("-inf") if kind == "max" else float("inf")
    bits = 8 * ITEM_SIZES[dtype]
    low, high = (0, (1 << bits) - 1) if dtype == "u8" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return low if kind == "max" else high


class Fold:
    """The accumulators of one reduction: one for each width at which steps are made."""

    def __init__(self, renderer: Any, e: Expr):
        self.r, self.e, self.kind = renderer, e, e.name
        self.dtypes = [a.dtype for a in e.args]
        self.start = [identity(self.kind, self.dtypes[0]), 0][: len(self.dtypes)]
        self.cells: dict[int, list[str]] = {}
        self.totals: dict[int, str] = {}  # of a sum, by width: what blocks have given, in f64
        self.place = len(renderer.text.lines)

    def _accumulators(self, e: Emitter) -> list[str]:
        """Stack slots at the width of ``e``, set to the start value before the sweep."""
        cells = self.cells.get(e.width)
        if cells is None:
            cells = self.cells[e.width] = []
            for dtype, start in zip(self.dtypes, self.start, strict=True):
                cells.append(self._cell(e, dtype, start))
        return cells

    def _cell(self, e: Emitter, dtype: str, start: Any) -> str:
        cell = self.r.text.alloca(e.type(dtype))
        line = f"  store {e.type(dtype)} {e.const(start, dtype)}, ptr {cell}"
        self.r.text.lines.insert(self.place, line)
        return cell

    @property
    def grows_inexact(self) -> bool:
        """Whether errors of rounding add up."""
        return self.kind == "sum" and self.dtypes[0] == "f32"

    def end_block(self) -> None:
        """Move what the accumulators have to the totals."""
        for width, (cell,) in self.cells.items():
            e = self.r.emitter_of(width, None)
            if width not in self.totals:
                self.totals[width] = self._cell(e, "f64", 0)
            total = e.text.set(f"load {e.type('f64')}, ptr {self.totals[width]}")
            total = e.binary("fadd", "f64", total, self._widened(e, cell))
            e.text.line(f"store {e.type('f64')} {total}, ptr {self.totals[width]}")
            e.text.line(f"store {e.type('f32')} {e.const(0, 'f32')}, ptr {cell}")

    def _widened(self, e: Emitter, cell: str) -> str:
        value = e.text.set(f"load {e.type('f32')}, ptr {cell}")
        return e.convert("fpext", REGISTER["f32"], REGISTER["f64"], value)

    def step(self, values: list[str]) -> list[str]:
        e = self.r.emitter
        cells = self._accumulators(e)
        old = [e.text.set(f"load {e.type(d)}, ptr {c}") for d, c in zip(self.dtypes, cells)]
        new = self.combine(e, old, values)
        if e.mask is not None and self.r.plan.in_row:
            new = [e.select(e.mask, d, n, o) for d, n, o in zip(self.dtypes, new, old)]
        for d, c, n in zip(self.dtypes, cells, new, strict=True):
            e.text.line(f"store {e.type(d)} {n}, ptr {c}")
        return new

    def scan(self, values: list[str]) -> str:
        e = self.r.emitter
        return self.step(values)[0] if e.width == 1 or not self.r.plan.in_row else self._along(e, values[0])  # fmt: skip

    def _along(self, e: Emitter, x: str) -> str:
        """A scan along the lanes: of each lane with those before it, in log2 of their number steps, then with what came before these (``carry``).

        One addition follows another then only once for a vector. Lanes that do not exist are the last ones, which no other takes.
        """
        one = self.r.emitter_of(1, None)
        (cell,), dtype = self._accumulators(one), self.dtypes[0]
        carry = e.text.set(f"load {one.type(dtype)}, ptr {cell}")
        by = 1
        while by < e.width:
            x = self.combine(e, [e.shifted(dtype, x, by, self.start[0])], [x])[0]
            by *= 2
        last = e.text.set(f"extractelement {e.type(dtype)} {x}, i64 {e.width - 1}")
        (new,) = self.combine(one, [carry], [last])
        e.text.line(f"store {one.type(dtype)} {new}, ptr {cell}")
        return self.combine(e, [e.splat(REGISTER[dtype], carry)], [x])[0]

    def combine(self, e: Emitter, a: list[str], b: list[str], wide: bool = False) -> list[str]:
        if wide:
            return [e.binary("fadd", "f64", a[0], b[0])]
        if not self.kind.startswith("arg"):
            return [OPS[_COMBINE[self.kind]](e, self.dtypes[0], a[0], b[0])]
        return self._better(e, a, b)

    def _better(self, e: Emitter, a: list[str], b: list[str]) -> list[str]:
        """Of two (value, position): the extreme one, NaN before all; of equals the first position."""
        dtype = self.dtypes[0]
        word = "gt" if self.kind == "argmax" else "lt"
        wins = OPS[word](e, dtype, b[0], a[0])
        same = OPS["eq"](e, dtype, b[0], a[0])
        if dtype in FLOATS:
            a_nan, b_nan = e.compare("uno", dtype, a[0], a[0]), e.compare("uno", dtype, b[0], b[0])
            wins = e.binary("or", "bool", wins, e.binary("and", "bool", b_nan, e.binary("xor", "bool", a_nan, e.const(1, "bool"))))  # fmt: skip
            same = e.binary("or", "bool", same, e.binary("and", "bool", a_nan, b_nan))
        earlier = e.compare("slt", "i64", b[1], a[1])
        wins = e.binary("or", "bool", wins, e.binary("and", "bool", same, earlier))
        return [e.select(wins, dtype, b[0], a[0]), e.select(wins, "i64", b[1], a[1])]

    def result(self) -> str:
        """The fold of everything; with lanes along the row, of all lanes of all widths."""
        r, wide = self.r, bool(self.totals)
        total: list[str] | None = None
        for width in sorted(self.cells):
            e = r.emitter_of(width, None)
            parts = self._parts(e, width, wide)
            if r.plan.in_row:
                e, parts = self._horizontal(e, parts, wide)
            total = parts if total is None else self.combine(e, total, parts, wide)
        assert total is not None
        return e.convert("fptrunc", REGISTER["f64"], REGISTER["f32"], total[0]) if wide else total[-1]  # fmt: skip

    def _parts(self, e: Emitter, width: int, wide: bool) -> list[str]:
        if not wide:
            return [e.text.set(f"load {e.type(d)}, ptr {c}") for d, c in zip(self.dtypes, self.cells[width])]  # fmt: skip
        found = self._widened(e, *self.cells[width])
        if width in self.totals:
            total = e.text.set(f"load {e.type('f64')}, ptr {self.totals[width]}")
            found = e.binary("fadd", "f64", total, found)
        return [found]

    def _horizontal(self, e: Emitter, parts: list[str], wide: bool) -> tuple[Emitter, list[str]]:
        dtypes = ["f64"] if wide else self.dtypes
        while e.width > 1:
            pairs = [e.halves(REGISTER[d], p) for d, p in zip(dtypes, parts, strict=True)]
            e = e.narrower()
            parts = self.combine(e, [low for low, _ in pairs], [high for _, high in pairs], wide)
        return e, parts
