"""The loop IR as Triton source that a person can read.

A kernel becomes one ``@triton.jit`` function of its buffers, its scalars, an error cell where it may fail, and its block
sizes. A program works on a block of linear outer points, ``[XBLOCK]`` without a row and ``[XBLOCK, RBLOCK]`` with one
(``tiles``). A value has the axes that it depends on: a number is a scalar, ``[XBLOCK, 1]`` holds one value for each outer
point, ``[1, RBLOCK]`` one for each row point; Triton broadcasts them. Sizes and strides are literals.

Where the row fits into a block, all sweeps are straight-line code on it. Else each sweep is a loop: folds have an accumulator
as large as the block, which is folded after the loop, and scans carry the fold of what came before.

What lies beyond the end is masked: loads give 0 there, folds take their start value, stores and failures do nothing.

An output may be memory of an input that is read only where it is written (``planner.in_place``). An element of a block that has fewer elements than
a program has threads is read by several of them and written by one: so there is a barrier ahead of such stores.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import triton_ops
from .loop_ir import (
    ASSERTED,
    DIVISION_BY_ZERO,
    Affine,
    Dim,
    Expr,
    Kernel,
    Store,
)
from .planning import number
from .tiles import MOST_WARPS, Tile, crossed, product, programs
from .triton_folds import Folds
from .triton_ops import TYPES, typed
from .triton_text import ERROR, HEADER, Source, failing, operation, parameters

RAGGED = 1 << 17  # points of a kernel that is worth a second form of its body
VECTOR = 16  # elements: sizes that are multiples of it do not keep masks from being vectors


def render(kernel: Kernel, tile: Tile, pointers: bool = False) -> Source:
    """The source of a kernel; ``Unsupported`` where Triton has no form for it.

    ``pointers``: numbers come from memory, for kernels that are recorded once and run with other numbers.
    """
    return Writer(kernel, tile, pointers).source()


class Writer(Folds):
    """Writes one kernel. ``axes`` of a value: a subset of "x" and "r", in this order."""

    def __init__(self, kernel: Kernel, tile: Tile, pointers: bool = False):
        self.total_programs = programs(kernel, tile)
        self.kernel = kernel = crossed(kernel, tile.across) if tile.across else kernel
        self.tile, self.pointers = tile, pointers
        self.lines: list[str] = []
        self.indent = 1
        self.helpers: dict[str, None] = {}
        self.names: dict[Expr, str] = {}
        self.variables: dict[str, str] = {}
        self.row_names = frozenset(d.name for d in kernel.row)
        self.fails = False
        self.whole_blocks = False  # whether what is written now is for blocks without an end
        self.x_total, self.r_total = product(kernel.outer), product(kernel.row)
        self.folds: dict[Expr, tuple[str, ...]] = {}
        self.carries: dict[Expr, str] = {}

    # ---- the module

    def source(self) -> Source:
        self._body()
        kernel, tile = self.kernel, self.tile
        constants = {"XBLOCK": tile.points} | ({"RBLOCK": tile.row} if kernel.row else {})
        signature = {b.name: f"*{triton_ops.SIGNATURE[b.dtype]}" for b in kernel.buffers}
        kinds = triton_ops.NUMBER_POINTERS if self.pointers else triton_ops.NUMBERS
        signature |= {s.name: kinds[s.dtype] for s in kernel.scalars}
        if self.fails:
            signature[ERROR] = "*i32"
        comments = "".join(f"# {c}\n" for c in kernel.comments)
        helpers = "".join(f"\n\n@triton.jit\n{triton_ops.HELPERS[h]}" for h in self.helpers)
        head = (
            f"\n\n{comments}@triton.jit\ndef {kernel.name}({parameters(signature, constants)}):\n"
        )
        text = HEADER + helpers + head + "\n".join(self.lines) + "\n"
        return Source(kernel.name, text, signature, constants, self.total_programs, tile.warps)

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def _body(self) -> None:
        if self.pointers:
            for s in self.kernel.scalars:
                self.line(f"{s.name} = tl.load({s.name})")
        self._points("x", self.kernel.outer, self.x_total, self._first_point())
        if not self.kernel.row:
            self._pointwise()
        elif self.tile.whole:
            first = f"{self._program()} % {self._across()} * RBLOCK + " if self.tile.across else ""
            self._points("r", self.kernel.row, self.r_total, f"{first}{self._row_points()}")
            self._whole()
        else:
            self._walked()

    def _pointwise(self) -> None:
        """All values and stores; once without masks for all programs but the last where the mask would prevent vector access."""
        if self._ragged():
            self.line(f"if tl.program_id(0) < {self.x_total // self.tile.points}:")
            before, self.whole_blocks = dict(self.names), True
            self.indent += 1
            self._values(0)
            self._settled()
            self._stores(self.kernel.stores)
            self.indent -= 1
            self.names, self.whole_blocks = before, False
            self.line("else:")
            self.indent += 1
        self._values(0)
        self._settled()
        self._stores(self.kernel.stores)

    def _ragged(self) -> bool:
        """Whether there is much data whose size is no number of vectors."""
        return self.x_total >= RAGGED and self.x_total % VECTOR != 0 and self._partial("x")

    def _first_point(self) -> str:
        program = self._program()
        if self.tile.across:
            program = f"{program} // {self._across()}"
        return f"{program} * XBLOCK + tl.arange(0, XBLOCK)"

    def _program(self) -> str:
        return "tl.program_id(0)" + (".to(tl.int64)" if self._wide() else "")

    def _across(self) -> int:
        """How many blocks the other axis has."""
        return -(-self.r_total // self.tile.row)

    def _points(self, axis: str, dims: tuple[Dim, ...], total: int, text: str) -> None:
        """The linear position along an axis, its mask, and the variables of its loops."""
        if self.kernel.row:
            text = f"({text})[:, None]" if axis == "x" else f"({text})[None, :]"
        one = dims[0].name if len(dims) == 1 else ""
        self.line(f"{one or axis} = {text}")
        if self._partial(axis):
            self.line(f"{axis}mask = {one or axis} < {total}")
        rest = 1
        for k, d in enumerate(reversed(dims)):
            n, last = number(d.size), k == len(dims) - 1
            self.variables[d.name] = d.name
            if not one:
                quotient = axis if rest == 1 else f"{axis} // {rest}"
                self.line(f"{d.name} = {quotient}" + ("" if last else f" % {n}"))
            rest *= n

    def _partial(self, axis: str) -> bool:
        """Whether the last block of an axis hangs over the end."""
        if axis == "x":
            return self.x_total % self.tile.points != 0 and not self.whole_blocks
        return bool(self.kernel.row) and self.r_total % self.tile.row != 0

    def _wide(self) -> bool:
        """Whether positions need 64 bits."""
        total = self.total_programs * self.tile.points
        return (
            max(total, self.r_total, self._reach(*self.kernel.outer, *self.kernel.row)) >= 1 << 31
        )

    def _row_points(self) -> str:
        """The points of a block along the row. A program's own number, which is wide where any position is, need not be a part of them."""
        return "tl.arange(0, RBLOCK)" + (".to(tl.int64)" if self._reach(*self.kernel.row) >= 1 << 31 else "")  # fmt: skip

    def _reach(self, *dims: Dim) -> int:
        """How far some loops lead from the beginning of a buffer, at most."""
        sizes = {d.name: number(d.size) for d in dims}
        addresses = [e.address for e in self.kernel.body if e.address is not None]
        addresses += [s.address for s in self.kernel.stores]
        far = [
            abs(a.offset) + sum(abs(number(f)) * sizes.get(n, 0) for n, f in a.terms)
            for a in addresses
        ]
        return max([0, *far])

    # ---- sweeps

    def _whole(self) -> None:
        last = max((self.kernel.level(e) for e in self.kernel.body), default=0)
        for level in range(last + 1):
            self._values(level)
            for e in self._reductions(level + 1):
                self.names[e] = f"v{e.number}"
                self.line(f"{self.names[e]} = {self._fold(e, self._folded(e))}")
        self._settled()
        self._stores(self.kernel.stores)

    def _walked(self) -> None:
        """One loop over the row for each level at which something is folded or stored."""
        kernel = self.kernel
        inner = [s for s in kernel.stores if kernel.store_depends(s) & self.row_names]
        last = max((kernel.level(e) for e in kernel.body), default=0)
        for level in range(last + 1):
            self._values(level, row=False)
            folds = self._reductions(level + 1)
            writes = [s for s in inner if kernel.level(s.value) == level]
            if folds or writes:
                self._sweep(folds, writes)
        self._stores([s for s in kernel.stores if s not in inner])

    def _sweep(self, folds: list[Expr], writes: list[Store]) -> None:
        needed = self._needed([*(a for e in folds for a in e.args), *(s.value for s in writes)])
        scans = [e for e in needed if e.op == "scan"]
        for e in folds:
            self._accumulators(e)
        for e in scans:
            self.carries[e] = f"carry{e.number}"
            self._start(self.carries[e], e.name, e.dtype, "[XBLOCK, 1]")
        self.line(f"for first in range(0, {self.r_total}, RBLOCK):")
        self.indent += 1
        self._points("r", self.kernel.row, self.r_total, f"first + {self._row_points()}")
        for e in self.kernel.body:
            if e in needed and self.kernel.in_row(e):
                self._define(e)
        self._stores(writes)
        for e in folds:
            cells = ", ".join(self.folds[e])
            values = [*self.folds[e], *self._folded(e)]
            self.line(f"{cells} = {self._helper(triton_ops.COMBINE[e.name])}({', '.join(values)})")
        self.indent -= 1
        for e in needed:
            if self.kernel.in_row(e):
                self.names.pop(e, None)
        for e in folds:
            self.names[e] = f"v{e.number}"
            self.line(f"{self.names[e]} = {self._fold(e, list(self.folds[e]))}")

    def _needed(self, roots: Iterable[Expr]) -> dict[Expr, None]:
        found: dict[Expr, None] = {}
        stack = list(roots)
        while stack:
            e = stack.pop()
            if e not in found and e not in self.names:
                found[e] = None
                stack.extend(e.operands())
        return found

    def _reductions(self, level: int) -> list[Expr]:
        return [e for e in self.kernel.body if e.op == "reduce" and self.kernel.level(e) == level]

    # ---- values

    def axes(self, e: Expr) -> str:
        """The axes of a value's block. What comes out of a fold has at least a block of one."""
        depends = self.kernel.depends(e)
        x = bool(depends - self.row_names) or self._from_fold(e)
        return ("x" if x else "") + ("r" if depends & self.row_names else "")

    def _from_fold(self, e: Expr) -> bool:
        return bool(self.kernel.row) and self.kernel.level(e) > 0

    def _values(self, level: int, row: bool = True) -> None:
        """Name all values of a level, without folds; ``row``: those of the row too."""
        for e in self.kernel.body:
            if e.op in ("const", "reduce") or self.kernel.level(e) != level or e in self.names:
                continue
            if row or not self.kernel.in_row(e):
                self._define(e)

    def _define(self, e: Expr) -> None:
        if e.op in ("const", "reduce"):
            return
        text = self._text(e)
        self.names[e] = f"v{e.number}"
        if text != self.names[e]:
            self.line(f"{self.names[e]} = {text}")

    def value(self, e: Expr) -> str:
        return typed(e.value, e.dtype) if e.op == "const" else self.names[e]

    def _text(self, e: Expr) -> str:
        if e.op == "load":
            return self._load(e)
        if e.op == "index":
            return f"({self.address(e.address)}).to(tl.int64)" if e.address.terms else self._number(e)  # fmt: skip
        if e.op == "scalar":
            return f"{e.name}.to({TYPES[e.dtype]})" if e.dtype != "bool" else f"{e.name} != 0"
        if e.op == "scan":
            return self._scan(e)
        if e.op == "check_index":
            return self._check_index(e)
        return self._call(e)

    def _number(self, e: Expr) -> str:
        assert e.address is not None
        base = typed(e.address.offset, "i64")
        return " + ".join([base, *(f"{number(f)} * {self.value(g)}" for g, f in e.address.gathers)])

    def _call(self, e: Expr) -> str:
        args = [self.value(a) for a in e.args]
        if failing(e):
            self._fail(f"{args[1]} == 0", e, DIVISION_BY_ZERO)
        text, helpers = operation(e, args)
        self.helpers.update(dict.fromkeys(helpers))
        return text

    def _check_index(self, e: Expr) -> str:
        index, size = map(self.value, e.args)
        name = f"v{e.number}"
        self.line(f"{name} = tl.where({index} < 0, {index} + {size}, {index})")
        self._fail(f"({name} < 0) | ({name} >= {size})", e, ASSERTED)
        return f"tl.where(({name} < 0) | ({name} >= {size}), {typed(0, e.dtype)}, {name})"

    def _fail(self, condition: str, e: Expr, code: int) -> None:
        """Note an error code where a condition holds at a point that exists."""
        self.fails = True
        mask = self._mask(self.axes(e))
        condition = f"({condition}) & {mask}" if mask else condition
        self.line(f"bad{e.number} = {condition}")
        self.line(f"tl.store({ERROR} + 0 * bad{e.number}.to(tl.int32), {code}, bad{e.number})")

    # ---- memory

    def _mask(self, axes: str) -> str:
        return " & ".join(f"{a}mask" for a in axes if self._partial(a))

    def address(self, address: Affine | None) -> str:
        """The position in elements."""
        assert address is not None
        parts = [n if f == 1 else f"{number(f)} * {n}" for n, f in address.terms]
        parts += [f"{number(f)} * {self.value(e)}" for e, f in address.gathers]
        if address.offset or not parts:
            parts.append(str(address.offset))
        return " + ".join(parts)

    def _address_axes(self, address: Affine) -> str:
        names = {n for n, _ in address.terms}
        gathered = "".join(self.axes(e) for e, _ in address.gathers)
        x = bool(names - self.row_names) or "x" in gathered
        return ("x" if x else "") + ("r" if names & self.row_names or "r" in gathered else "")

    def _load(self, e: Expr) -> str:
        assert e.address is not None
        axes, place = self._address_axes(e.address), f"{e.name} + {self.address(e.address)}"
        masks = [m for m in [self._mask(axes)] if m]
        if e.args:
            mask = self.value(e.args[0])
            masks.append(mask)
            if set(self.axes(e.args[0])) - set(axes):
                place += f" + 0 * {mask}.to(tl.int32)"
        text = f"tl.load({place}" + (f", {' & '.join(masks)}, other=0)" if masks else ")")
        return f"{text} != 0" if e.dtype == "bool" else text

    def _settled(self) -> None:
        """Have all threads read, before one stores, what may be the same memory. A kernel that this one becomes a part of may have ``MOST_WARPS``."""
        loaded = [e.address for e in self.kernel.body if e.op == "load"]
        copies = (self._elements(s.address) < 32 * MOST_WARPS for s in self.kernel.stores if s.address in loaded)  # fmt: skip
        if self.tile.warps > 1 and any(copies):
            self.line("tl.debug_barrier()")

    def _elements(self, address: Affine) -> int:
        """How many elements of a buffer a block has."""
        axes = self._address_axes(address)
        return (self.tile.points if "x" in axes else 1) * (self.tile.row if "r" in axes else 1)

    def _stores(self, stores: Iterable[Store]) -> None:
        for s in stores:
            axes, place = self._address_axes(s.address), f"{s.buffer} + {self.address(s.address)}"
            if not axes and self.axes(s.value):
                axes, place = "x", f"{place} + tl.zeros([XBLOCK, 1], tl.int32)"
            mask = self._mask(axes)
            if s.value.op == "const":
                value = typed(s.value.value, s.value.dtype)
            else:
                value = self.names[s.value]
            self.line(f"tl.store({place}, {value}" + (f", {mask})" if mask else ")"))
