"""A long row that is folded and also needed behind a fold, or written: one loop IR kernel becomes several, one after another.

A sweep over the row is a stage: many programs fold a part of the row each, and write what is stored of it; one more kernel folds the parts.
The next stage reads what was folded from memory. ``split_rows`` is the case of one sweep that stores nothing of the row.

Stores have no masks in the loop IR, so that what is stored of a row that cannot be cut into equal parts has a kernel of its own, without
folds. Each stage reads its inputs again, as each sweep of one program does. Nothing that is stored is read again by a later stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .exprs import Maker
from .loop_ir import Affine, Dim, Expr, Kernel, Store, variable, verify
from .planning import number
from .split_rows import LONG, MOST_PARTS, PART, Splitter, cut, down
from .tiles import product

FEW = 16  # outer points from which on one kernel is estimated to be faster
MANY = 256  # outer points from which on it is not even measured


@dataclass(frozen=True)
class Stages:
    """``kernels`` run in this order; ``between``: what they hand on (name: dtype, elements)."""

    kernels: tuple[Kernel, ...]
    between: dict[str, tuple[str, int]]


def staged(kernel: Kernel, parts: int = 0) -> Stages | None:
    """The kernels, or None where one is as good or there is none of this form. ``parts``: so many or a few more."""
    if not kernel.row or kernel.may_fail:
        return None
    length, columns = product(kernel.row), down(kernel)
    if not columns and (product(kernel.outer) > (MANY if parts else FEW) or (not parts and length < LONG)):  # fmt: skip
        return None
    folds = [e for e in kernel.body if e.op == "reduce"]
    if not folds or any(e.op == "scan" for e in kernel.body) or any(s.address.gathers for s in kernel.stores):  # fmt: skip
        return None
    wanted = parts or columns or min(MOST_PARTS, -(-length // PART))
    length = number(cut(kernel, wanted).size)
    wanted = min(wanted, length)
    exact = next((n for n in range(wanted, 2 * wanted) if length % n == 0), 0)
    return _Stager(kernel, folds, exact or wanted, columns > 0, bool(exact)).stages()


class _Stager(Splitter):
    """``exact``: whether the parts are equal."""

    def __init__(self, kernel: Kernel, folds: Sequence[Expr], parts: int, first: bool, exact: bool):
        super().__init__(kernel, folds, parts, first)
        self.exact = exact
        inner = frozenset(d.name for d in kernel.row)
        self.inner = [s for s in kernel.stores if kernel.store_depends(s) & inner]
        self.rest = [s for s in kernel.stores if s not in self.inner]
        self.sweeps = max(kernel.level(e) for e in folds)
        self.made: list[Kernel] = []

    def stages(self) -> Stages:
        for level in range(self.sweeps + 1):
            folds = [e for e in self.folds if self.kernel.level(e) == level + 1]
            writes = [s for s in self.inner if self.kernel.level(s.value) == level]
            together = writes if self.exact and folds else []
            if folds:
                self._add(self._parts(level, folds, together))
                self._add(self._joined(folds, level + 1 == self.sweeps))
            if writes and not together:
                self._add(self._pointwise(level, writes))
        self.made[-1] = replace(self.made[-1], name=self.kernel.name, _facts={})
        for k in self.made:
            verify(k)
        return Stages(tuple(self.made), self.between)

    def _add(self, kernel: Kernel) -> None:
        self.made.append(replace(kernel, name=f"{self.kernel.name}_{len(self.made)}", _facts={}))

    def _known(self, maker: Maker, e: Expr) -> Expr:
        """A fold of an earlier stage."""
        name = f"f{self.folds.index(e)}"
        return maker.make("load", e.dtype, name=name, address=self._place())

    def _place(self) -> Affine:
        """Where an outer point is in a buffer with one element for each."""
        address, step = Affine(()), 1
        for d in reversed(self.kernel.outer):
            address = address + variable(d.name).scaled(step)
            step *= number(d.size)
        return address

    def _parts(self, level: int, folds: Sequence[Expr], writes: Sequence[Store]) -> Kernel:
        """Many programs, each on a part of the row."""
        maker = Maker()
        row = Affine((("part", self.size), (self.row.name, 1)))
        exists = None if self.parts * self.size == self.length else maker.index(row) < self.length
        mapped: dict[Expr, Expr] = {}
        for e in self.kernel.body:
            if e.op == "reduce" and self.kernel.level(e) <= level:
                mapped[e] = self._known(maker, e)
            elif e.op != "reduce" and self.kernel.level(e) <= level:
                mapped[e] = self._moved(maker, e, mapped, row, exists)
        stores = [s for e in folds for s in self._found(maker, e, mapped, exists)]
        for s in writes:
            kept = tuple((n, f) for n, f in s.address.terms if n != self.row.name)
            address = Affine(kept, s.address.offset) + row.scaled(s.address.factor(self.row.name))
            stores.append(Store(s.buffer, address, mapped[s.value]))
        part = Dim("part", self.parts)
        outer = (part, *self.kernel.outer) if self.first else (*self.kernel.outer, part)
        return self._kernel("", outer, self._inside(Dim(self.row.name, self.size)), stores)

    def _joined(self, folds: Sequence[Expr], last: bool) -> Kernel:
        """The folds of the parts; behind the last of them all that is stored of no row."""
        maker = Maker()
        mapped = {e: self._whole(maker, e) if e in folds else self._known(maker, e)
                  for e in self.folds if e in folds or self.kernel.level(e) < self.kernel.level(folds[0])}  # fmt: skip
        stores = []
        if not last or any(self.kernel.level(s.value) == self.sweeps for s in self.inner):
            for e in folds:
                name = f"f{self.folds.index(e)}"
                self.between[name] = (e.dtype, product(self.kernel.outer))
                stores.append(Store(name, self._place(), mapped[e]))
        if last:
            for e in self.kernel.body:
                self._above(e, mapped)
            stores += [Store(s.buffer, s.address, mapped[s.value]) for s in self.rest]
        return self._kernel("", self.kernel.outer, (Dim("r0", self.parts),), stores)

    def _pointwise(self, level: int, writes: Sequence[Store]) -> Kernel:
        """What is stored of the row, by a kernel that folds nothing."""
        maker = Maker()
        mapped: dict[Expr, Expr] = {}
        for e in self.kernel.body:
            if self.kernel.level(e) <= level:
                known = e.op == "reduce"
                mapped[e] = self._known(maker, e) if known else self._copied(e, mapped)
        stores = [Store(s.buffer, s.address, mapped[s.value]) for s in writes]
        return self._kernel("", (*self.kernel.outer, *self.kernel.row), (), stores)
