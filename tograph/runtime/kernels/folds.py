"""Reductions and scans in LLVM IR: accumulators on the stack (registers after optimisation), and folding lanes at the end."""

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
        self.place = len(renderer.text.lines)

    def _accumulators(self, e: Emitter) -> list[str]:
        """Stack slots at the width of ``e``, set to the start value before the sweep."""
        cells = self.cells.get(e.width)
        if cells is None:
            cells = self.cells[e.width] = []
            for dtype, start in zip(self.dtypes, self.start, strict=True):
                cell = self.r.text.alloca(e.type(dtype))
                cells.append(cell)
                line = f"  store {e.type(dtype)} {e.const(start, dtype)}, ptr {cell}"
                self.r.text.lines.insert(self.place, line)
        return cells

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
        return self.step(values)[0]

    def combine(self, e: Emitter, a: list[str], b: list[str]) -> list[str]:
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
        r = self.r
        widths = sorted(self.cells)
        total: list[str] | None = None
        for width in widths:
            e = r.emitter_of(width, None)
            parts = [e.text.set(f"load {e.type(d)}, ptr {c}") for d, c in zip(self.dtypes, self.cells[width])]  # fmt: skip
            if r.plan.in_row:
                e, parts = self._horizontal(e, parts)
            total = parts if total is None else self.combine(e, total, parts)
        assert total is not None
        return total[-1]

    def _horizontal(self, e: Emitter, parts: list[str]) -> tuple[Emitter, list[str]]:
        while e.width > 1:
            pairs = [e.halves(REGISTER[d], p) for d, p in zip(self.dtypes, parts, strict=True)]
            e = e.narrower()
            parts = self.combine(e, [low for low, _ in pairs], [high for _, high in pairs])
        return e, parts
