"""Reductions and scans of a block in Triton source.

A fold of the whole row is one call; a walked one has an accumulator as large as the block, which is folded after the loop, and a scan
carries the fold of what came before. What lies beyond the end counts as the start value.
"""

from __future__ import annotations

from collections.abc import Callable

from . import triton_ops
from .loop_ir import ITEM_SIZES, Expr
from .triton_ops import TYPES, start


class Folds:
    """The class that writes the kernel has the texts of values, lines, and what is partial."""

    helpers: dict[str, None]
    folds: dict[Expr, tuple[str, ...]]
    carries: dict[Expr, str]
    line: Callable[[str], None]
    value: Callable[[Expr], str]
    axes: Callable[[Expr], str]
    _partial: Callable[[str], bool]

    def _accumulators(self, e: Expr) -> None:
        self.folds[e] = (f"sum{e.number}",) if len(e.args) == 1 else (f"best{e.number}", f"at{e.number}")  # fmt: skip
        self._start(self.folds[e][0], e.name, e.args[0].dtype, "[XBLOCK, RBLOCK]")
        if len(e.args) == 2:
            self.line(f"{self.folds[e][1]} = tl.full([XBLOCK, RBLOCK], 0, tl.int64)")

    def _start(self, name: str, kind: str, dtype: str, shape: str) -> None:
        self.line(f"{name} = tl.full({shape}, {start(kind, dtype)}, {TYPES[dtype]})")

    def _folded(self, e: Expr) -> list[str]:
        """The operands of a fold as full blocks, with its start value beyond the end."""
        out = []
        for k, a in enumerate(e.args):
            text = self.value(a)
            if k == 0 and self._partial("r"):
                kind = start(e.name, a.dtype)
                text = f"tl.where(rmask, {text}, tl.full([], {kind}, {TYPES[a.dtype]}))"
            if k or not self._partial("r") or "r" not in self.axes(a) or len(e.args) == 2:
                text = f"tl.broadcast_to({text}, [XBLOCK, RBLOCK])"
            out.append(text)
        return out

    def _fold(self, e: Expr, values: list[str]) -> str:
        """The fold of blocks along the row."""
        dtype = e.args[0].dtype
        if e.name == "sum" and ITEM_SIZES[dtype] >= 4:
            return f"tl.sum({values[0]}, 1, keep_dims=True)"
        if e.name in ("any", "all"):
            word = "max" if e.name == "any" else "min"
            return f"tl.{word}({values[0]}.to(tl.int32), 1, keep_dims=True) != 0"
        combine = self._helper(triton_ops.COMBINE[e.name])
        if len(values) == 2:
            return f"tl.reduce(({', '.join(values)}), 1, {combine}, keep_dims=True)[1]"
        return f"tl.reduce({values[0]}, 1, {combine}, keep_dims=True)"

    def _scan(self, e: Expr) -> str:
        x = f"tl.broadcast_to({self.value(e.args[0])}, [XBLOCK, RBLOCK])"
        word = {"sum": "tl.cumsum", "prod": "tl.cumprod"}.get(e.name)
        combine = self._helper(triton_ops.COMBINE[e.name])
        text = f"{word}({x}, 1)" if word else f"tl.associative_scan({x}, 1, {combine})"
        carry = self.carries.get(e)
        if carry is None:
            return text
        name = f"v{e.number}"
        self.line(f"{name} = {combine}({carry}, {text})")
        last = f"tl.where(rmask, {x}, {start(e.name, e.dtype)})" if self._partial("r") else x
        fold = f"tl.sum({last}, 1, keep_dims=True)" if e.name == "sum" else f"tl.reduce({last}, 1, {combine}, keep_dims=True)"  # fmt: skip
        self.line(f"{carry} = {combine}({carry}, {fold})")
        return name

    def _helper(self, name: str) -> str:
        self.helpers.update(dict.fromkeys((*triton_ops.NEEDS.get(name, ()), name)))
        return f"_{name}"
