"""A long row folded by many programs: one loop IR kernel becomes two.

A GPU has thousands of programs to fill, and a kernel with few outer points and a long row has few. Of a fold down the columns of a matrix one
program takes as many columns as are read at once, so that there are few of these with thousands of columns too (``down``). ``split`` cuts the row into
parts: the first kernel folds each part and writes what it has found, the second folds the parts and does the rest. Both
are plain loop IR kernels, whatever renders them. Of a row of several dims, as of a batch norm, one dim is cut. Positions of extremes go along with their values, so that of
equals the first one still wins. The order of additions differs from that of one program, as it does between block sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .exprs import Maker
from .folds import identity
from .loop_ir import Affine, Buffer, Dim, Expr, Kernel, Store, ordered, variable, verify
from .planning import number
from .tiles import product, programs, tiles

FEW = 256  # programs of a kernel from which on there are enough
LONG = 1 << 15  # points of a row that is worth a second kernel
PART = 1 << 13  # points of a part, at least
MOST_PARTS = 1024
STEPS = 16  # of a program down its columns that are worth a second kernel
BUSY = 2048  # programs that a device is given, where columns are cut


@dataclass(frozen=True)
class Split:
    """``partial`` writes the buffers ``between`` (name: dtype, elements), which ``finish`` reads; ``rest`` writes there what it found of
    the end of the row, where that is a part of its own.
    """

    partial: Kernel
    finish: Kernel
    between: dict[str, tuple[str, int]]
    rest: Kernel | None = None

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return (self.partial, *([] if self.rest is None else [self.rest]), self.finish)


def split(kernel: Kernel, parts: int = 0, first: bool = False, equal: bool = False) -> Split | None:
    """The two kernels, or None where one is as good or the row is needed after a fold.

    ``parts``: so many, whether or not they are estimated to be worth it. ``first``: the parts are the outermost loop, not the
    innermost of the outer ones. ``equal``: these are of one length, and what they leave of the dim that is cut is a part more.
    """
    if not kernel.row:
        return None
    columns = down(kernel)
    if not parts and not columns and (product(kernel.outer) > FEW or product(kernel.row) < LONG):
        return None
    parts, first = parts or columns, first or columns > 0
    folds = [e for e in kernel.body if e.op == "reduce"]
    row = {d.name for d in kernel.row}
    simple = all(kernel.level(e) <= 1 for e in kernel.body)
    if not simple or not folds or kernel.may_fail or any(e.op == "scan" for e in kernel.body):
        return None
    if any(kernel.store_depends(s) & row for s in kernel.stores):
        return None
    return Splitter(kernel, folds, parts, first, equal).run()


def down(kernel: Kernel) -> int:
    """Into how many parts to cut a fold down columns, so that there are programs enough; 0 where there are, or the fold is along memory."""
    tile = tiles(kernel)[0]
    if tile.whole or tile.points == 1:
        return 0
    steps, count = -(-product(kernel.row) // tile.row), programs(kernel, tile)
    if count > FEW or steps < STEPS:
        return 0
    return min(MOST_PARTS, -(-steps // 2), max(BUSY // count, 2))


def cut(kernel: Kernel, parts: int) -> Dim:
    """The dim of a row that is cut: the outermost one that gives so many parts, else the longest."""
    longest = max(kernel.row, key=lambda d: number(d.size))
    return next((d for d in kernel.row if number(d.size) >= parts), longest)


class Splitter:
    """Makes the kernels; ``between``: what they hand on."""

    def __init__(
        self, kernel: Kernel, folds: Sequence[Expr], parts: int, first: bool, equal: bool = False
    ):
        self.kernel, self.folds, self.first = kernel, folds, first
        wanted = parts or min(MOST_PARTS, -(-product(kernel.row) // PART))
        self.row = cut(kernel, wanted)
        self.length = number(self.row.size)
        self.parts = min(wanted, self.length)
        self.size = self.length // self.parts if equal else -(-self.length // self.parts)
        self.left = max(self.length - self.parts * self.size, 0)
        self.slots = self.parts + (self.left > 0)
        self.between: dict[str, tuple[str, int]] = {}

    def run(self) -> Split:
        partial = self._partial("parts", self.parts, self.size, 0)
        rest = self._partial("rest", 1, self.left, self.parts) if self.left else None
        made = Split(partial, self._finish(), self.between, rest)
        for kernel in made.kernels:
            verify(kernel)
        return made

    def _slot(self, part: str) -> Affine:
        """Where the part of an outer point is in a buffer between the kernels."""
        outer, between = self.kernel.outer, Dim(part, self.slots)
        address, step = Affine(()), 1
        for d in reversed((between, *outer) if self.first else (*outer, between)):
            address = address + variable(d.name).scaled(step)
            step *= number(d.size)
        return address

    # ---- the first kernel

    def _partial(self, name: str, parts: int, size: int, before: int) -> Kernel:
        """A kernel of so many parts; there are ``before`` of the usual size in front of them."""
        kernel, maker = self.kernel, Maker()
        part, inside = Dim("part", parts), Dim(self.row.name, size)
        row = Affine((("part", size), (self.row.name, 1)), before * self.size)
        at = maker.index(row)
        exists = at < self.length if before * self.size + parts * size > self.length else None
        mapped: dict[Expr, Expr] = {}
        for e in kernel.body:
            if kernel.level(e) == 0:
                mapped[e] = self._moved(maker, e, mapped, row, exists)
        stores = [s for e in self.folds for s in self._found(maker, e, mapped, exists)]
        if before:
            shift = Affine((), before * product(kernel.outer))
            stores = [replace(s, address=s.address + shift) for s in stores]
        outer = (part, *kernel.outer) if self.first else (*kernel.outer, part)
        return self._kernel(f"{kernel.name}_{name}", outer, self._inside(inside), stores)

    def _inside(self, part: Dim) -> tuple[Dim, ...]:
        """The row of a part."""
        return tuple(part if d is self.row else d for d in self.kernel.row)

    def _found(self, maker: Maker, e: Expr, mapped: dict, exists) -> list[Store]:
        """What a part writes for a fold: the fold of its points, and of an extreme the position too."""
        k = self.folds.index(e)
        args = [mapped[a] for a in e.args]
        if exists is not None:
            start = maker.const(identity(e.name, args[0].dtype), args[0].dtype)
            args[0] = exists.where(maker.term(args[0]), start).expr
        kind = e.name.removeprefix("arg")
        kind = {"max": "any", "min": "all"}.get(kind, kind) if args[0].dtype == "bool" else kind
        value = maker.make("reduce", args[0].dtype, (args[0],), name=kind)
        stores = [self._between(f"t{k}", value)]
        if len(args) == 2:
            stores.append(self._between(f"u{k}", maker.make("reduce", "i64", tuple(args), name=e.name)))  # fmt: skip
        return stores

    def _moved(self, maker: Maker, e: Expr, mapped: dict, row: Affine, exists) -> Expr:
        """An expression with the row in parts; loads beyond its end read nothing."""
        args = tuple(mapped[a] for a in e.args)
        address = None
        if e.address is not None:
            kept = tuple((n, f) for n, f in e.address.terms if n != self.row.name)
            gathers = tuple((mapped[g], f) for g, f in e.address.gathers)
            address = Affine(kept, e.address.offset, gathers) + row.scaled(e.address.factor(self.row.name))  # fmt: skip
        inside = e.op == "load" and exists is not None and self.kernel.in_row(e)
        if inside:
            args = ((maker.term(args[0]) & exists).expr,) if args else (exists.expr,)
        return replace(e, args=args, address=address, number=1_000_000 + e.number)

    def _between(self, name: str, value: Expr) -> Store:
        self.between[name] = (value.dtype, product(self.kernel.outer) * self.slots)
        return Store(name, self._slot("part"), value)

    # ---- the second kernel

    def _finish(self) -> Kernel:
        kernel, maker = self.kernel, Maker()
        mapped = {e: self._whole(maker, e) for e in self.folds}
        stores = []
        for e in ordered([s.value for s in kernel.stores]):
            self._above(e, mapped)
        for s in kernel.stores:
            stores.append(Store(s.buffer, s.address, mapped[s.value]))
        return self._kernel(kernel.name, kernel.outer, (Dim("r0", self.slots),), stores)

    def _whole(self, maker: Maker, e: Expr) -> Expr:
        """The fold of what the parts have found."""
        k = self.folds.index(e)
        args = tuple(
            maker.make("load", self.between[n][0], name=n, address=self._slot("r0"))
            for n in (f"t{k}", f"u{k}")
            if n in self.between
        )
        return maker.make("reduce", e.dtype, args, name=e.name)

    def _above(self, e: Expr, mapped: dict[Expr, Expr]) -> None:
        """The same expression on folds of the parts; what is inside of a fold is not needed."""
        if e not in mapped and not self.kernel.in_row(e):
            mapped[e] = self._copied(e, mapped)

    def _copied(self, e: Expr, mapped: dict[Expr, Expr]) -> Expr:
        """The same expression on other ones."""
        address = e.address
        if address is not None and address.gathers:
            address = replace(address, gathers=tuple((mapped[g], f) for g, f in address.gathers))
        args = tuple(mapped[a] for a in e.args)
        return replace(e, args=args, address=address, number=1_000_000 + e.number)

    def _kernel(self, name, outer, row, stores: Sequence[Store]) -> Kernel:
        """A kernel with the parameters that its body uses, numbered from 0."""
        body = ordered([s.value for s in stores])
        renamed: dict[Expr, Expr] = {}
        for i, e in enumerate(body):
            address = e.address
            if address is not None and address.gathers:
                gathers = tuple((renamed[g], f) for g, f in address.gathers)
                address = replace(address, gathers=gathers)
            renamed[e] = replace(e, args=tuple(renamed[a] for a in e.args), address=address, number=i)  # fmt: skip
        used = {e.name for e in body if e.op in ("load", "scalar")}
        written, old = {s.buffer for s in stores}, self.kernel
        between = tuple(Buffer(n, d, n in written) for n, (d, _) in self.between.items() if n in used | written)  # fmt: skip
        reads = tuple(b for b in old.buffers if not b.written and b.name in used)
        writes = tuple(b for b in old.buffers if b.written and b.name in written)
        scalars = tuple(s for s in old.scalars if s.name in used)
        stores = tuple(Store(s.buffer, s.address, renamed[s.value]) for s in stores)
        return Kernel(name, outer, row, (*reads, *between, *writes), scalars, (), tuple(renamed.values()),
                      stores, old.comments)  # fmt: skip
