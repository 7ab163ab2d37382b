"""The loop IR as LLVM IR text.

A kernel becomes ``i32 @NAME(ptr params, i64 begin, i64 end)``, which runs the units ``begin`` to ``end`` of its outer loops and
returns 0 or an error code of ``loop_ir``; ``i32 @NAME_run(ptr params)`` runs all of them. Units are independent: threads
take ranges of them. ``params`` points to 8-byte slots in the order of ``Kernel.slots``: data pointers, numbers, sizes.

Which loop becomes lanes is one decision (``plan``): the innermost row loop, the innermost outer loop, or none.
* Lanes along the row: a unit is one outer point; each sweep runs over the row in steps of ``wide`` lanes, the rest in steps of
  ``narrow`` lanes under a mask (one lane at a time without masked instructions), and reductions fold lanes at the end.
* Lanes along an outer loop: a unit is a block of that loop; row loops run inside of it, lane by lane their own fold.

Values are computed where their variables are known: before all loops, once for a unit, once for a vector of lanes, or in
the innermost loop; a value that does not change along the lanes is computed once and spread. What several sweeps need and
is costly is kept in a scratch row, or in the row of the output that is written last, instead of computed again; of a row
that is one vector, or two, everything is kept in registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .folds import Fold
from .llvm_text import Text
from .llvm_values import Found, Values
from .loop_ir import COSTLY, Dim, Expr, Kernel, Size, Store
from .planning import Plan, Target, plan


@dataclass(frozen=True)
class Rendered:
    text: str
    imports: tuple[str, ...]
    units: int
    plan: Plan


def render(kernel: Kernel, target: Target) -> Rendered:
    """The LLVM IR of a kernel; ``Unsupported`` where this machine or this renderer cannot."""
    return Renderer(kernel, target, plan(kernel, target)).module()


BLOCK = 64  # vectors that the lanes of a sum add up before they go to its totals


class Renderer(Values):
    """The loops of a kernel: units, lanes, and sweeps over the row."""

    folding: Sequence[Fold] = ()  # the sums of the sweep that is being written whose errors add up
    # what earlier sweeps have computed of a row without a loop, by the first point and the width of a vector
    whole: dict[tuple[str, int], Found] | None = None

    def module(self) -> Rendered:
        name, text = self.kernel.name, self.text
        self._prologue()
        with text.loop("%begin", "%end", 1) as unit, self.scope():
            self._unit(unit)
        result = "0" if self.error is None else text.set(f"load i32, ptr {self.error}")
        text.line(f"ret i32 {result}")
        comments = [f"; {c}" for c in self.kernel.comments]
        out = [
            *comments,
            f"define internal i32 @{name}(ptr %params, i64 %begin, i64 %end) noinline #0 {{",
            "entry:", *text.entry, *text.lines, "}",
            f"define i32 @{name}_run(ptr %params) #0 {{",
            *self._all_units(),
            f"  %code = call i32 @{name}(ptr %params, i64 0, i64 %units)",
            "  ret i32 %code", "}",
            *(text.declarations[k] for k in sorted(text.declarations)),
            f'attributes #0 = {{ nounwind "prefer-vector-width"="{8 * self.target.vector_bytes}" }}',
            "attributes #1 = { nounwind memory(none) willreturn }",
            "!0 = distinct !{!0, !1, !2}",
            '!1 = !{!"llvm.loop.vectorize.enable", i1 false}',
            '!2 = !{!"llvm.loop.unroll.disable"}',
        ]  # fmt: skip
        return Rendered("\n".join(out) + "\n", tuple(text.imports), self.plan.units, self.plan)

    def _all_units(self) -> list[str]:
        """The lines that give ``%units``, the number of units of a call."""
        out, count = [], str(self.plan.units)
        for k, name in enumerate(self.plan.opened):
            place = self.kernel.slots.index(name)
            out += [f"  %q{k} = getelementptr i8, ptr %params, i64 {8 * place}", f"  %n{k} = load i64, ptr %q{k}",
                    f"  %u{k} = mul nsw i64 {count}, %n{k}"]  # fmt: skip
            count = f"%u{k}"
        return [*out, f"  %units = add i64 {count}, 0"]

    def _prologue(self) -> None:
        text = self.text
        if self.error is not None:
            text.line(f"store i32 0, ptr {self.error}")
        for place, slot in enumerate(self.kernel.slots):
            at = text.set(f"getelementptr i8, ptr %params, i64 {8 * place}")
            if slot in self.buffers:
                self.pointers[slot] = text.set(f"load ptr, ptr {at}")
            else:
                self.pointers[slot] = at
            if slot in self.kernel.sizes:
                self.sizes[slot] = text.set(f"load i64, ptr {at}")
        self.settle(frozenset(), 0)

    def _unit(self, unit: str) -> None:
        """One unit: set the outer variables, then the loops inside of it."""
        outer = list(self.kernel.outer)
        lanes = None if self.plan.in_row or self.plan.lanes is None else outer.pop()
        low = high = ""
        if lanes is not None:
            low, high, unit = self._block(unit, lanes.size)
        self._decompose(unit, outer)
        known = frozenset(d.name for d in outer)
        self.settle(known, 0)
        if lanes is None:
            self._row(known)
        else:
            n, block = lanes.size, self.plan.block
            exact = isinstance(n, int) and n % block == 0
            self._lanes(lanes.name, low, high, block if exact else None, n,
                        lambda: self._point(known | {lanes.name}))  # fmt: skip

    def _point(self, known: frozenset[str]) -> None:
        """The work of a vector of outer points."""
        self.settle(known, 0)
        self._row(known)

    def _block(self, unit: str, n: Size) -> tuple[str, str, str]:
        """(first point, end, the unit of the loops outside) of a block of the lane loop."""
        if isinstance(n, str):
            return "0", self.size(n), unit
        block, text = self.plan.block, self.text
        blocks = -(-n // block)
        outside = text.set(f"udiv i64 {unit}, {blocks}") if blocks > 1 else unit
        inside = text.set(f"urem i64 {unit}, {blocks}") if blocks > 1 else "0"
        low = text.set(f"mul nsw i64 {inside}, {block}")
        high = text.set(f"add nsw i64 {low}, {block}")
        if n % block:
            over = text.set(f"icmp sgt i64 {high}, {n}")
            high = text.set(f"select i1 {over}, i64 {n}, i64 {high}")
        return low, high, outside

    def _decompose(self, unit: str, outer: list[Dim]) -> None:
        for k, dim in enumerate(reversed(outer)):
            n = self.size(dim.size)
            last = k == len(outer) - 1
            self.variables[dim.name] = unit if last else self.text.set(f"urem i64 {unit}, {n}")
            if not last:
                unit = self.text.set(f"udiv i64 {unit}, {n}")

    def _lanes(self, name: str, low: str, high: str, length: int | None, n: Size,
               body: Callable[[], None]) -> None:  # fmt: skip
        """``body`` for the points of a lane loop; ``length`` is high - low where it is known."""
        wide, text = self.plan.wide, self.text
        if length is not None:
            return self._known_lanes(name, low, length, body)
        whole = text.set(f"sub nsw i64 {high}, {low}")
        whole = text.set(f"and i64 {whole}, {-wide}")
        middle = text.set(f"add nsw i64 {low}, {whole}")
        self._steps(low, middle, wide, None, lambda i: self._vector(name, i, wide, None, body))
        if isinstance(n, str) or n % wide:
            self._tail_loop(name, middle, high, body)
        return None

    def _steps(self, low: str, high: str, step: int, count: int | None, body: Callable[[str], None], inside: int = 1) -> None:  # fmt: skip
        """``count`` steps of a loop over the row, each of ``inside`` vectors: where there are many, in blocks that go to the totals of sums."""
        text, block = self.text, max(BLOCK // inside, 1)
        if not self.folding or (count is not None and count * inside <= 2 * BLOCK):
            with text.loop(low, high, step) as i:
                body(i)
            return
        with text.loop(low, high, block * step) as first:
            if block == 1:
                body(first)
            else:
                end = text.set(f"add nsw i64 {first}, {block * step}")
                over = text.set(f"icmp sgt i64 {end}, {high}")
                with text.loop(first, text.set(f"select i1 {over}, i64 {high}, i64 {end}"), step) as i:  # fmt: skip
                    body(i)
            for fold in self.folding:
                fold.end_block()

    def _known_lanes(self, name: str, low: str, length: int, body: Callable[[], None]) -> None:
        wide, text = self.plan.wide, self.text
        main = length - length % wide
        at = _offset(text, low, main)
        if main == wide:
            self._vector(name, low, wide, None, body)
        elif main:
            self._steps(low, at, wide, main // wide, lambda i: self._vector(name, i, wide, None, body))  # fmt: skip
        rest = length - main
        if not rest:
            return
        if rest <= self.plan.narrow and self.target.avx512:
            ones = ", ".join(f"i1 {'true' if k < rest else 'false'}" for k in range(self.plan.narrow))  # fmt: skip
            mask = None if rest == self.plan.narrow else f"<{ones}>"
            self._vector(name, at, self.plan.narrow, mask, body)
        else:
            self._tail_loop(name, at, _offset(text, low, length), body)

    def _tail_loop(self, name: str, low: str, high: str, body: Callable[[], None]) -> None:
        text, narrow = self.text, self.plan.narrow
        if not self.target.avx512:
            with text.loop(low, high, 1) as i:
                self._vector(name, i, 1, None, body)
            return
        with text.loop(low, high, narrow) as i:
            left = text.set(f"sub nsw i64 {high}, {i}")
            e = self.emitter_of(narrow, None)
            mask = e.compare("sgt", "i64", e.splat("i64", left), e.iota())
            self._vector(name, i, narrow, mask, body)

    def _vector(self, name: str, first: str, width: int, mask: str | None, body) -> None:
        """``body`` with the lane variable at ``first`` and the lanes after it."""
        before = self.emitter
        self.emitter = self.emitter_of(width, mask)
        self.variables[name] = first
        known = None if self.whole is None else self.whole.setdefault((first, width), ({}, {}))
        with self.scope(known):
            body()
        self.emitter = before

    def _row(self, known: frozenset[str]) -> None:
        """All sweeps over the row for the current outer point or points, and the stores outside of the row."""
        kernel = self.kernel
        row = {d.name for d in kernel.row}
        outside = [s for s in kernel.stores if not (kernel.store_depends(s) & row)]
        inside = [s for s in kernel.stores if kernel.store_depends(s) & row]
        reductions = [e for e in kernel.body if e.op == "reduce"]
        last = max([kernel.level(e) for e in kernel.body], default=0)
        self.kept = {}
        self.whole = {} if self.plan.in_row and self._is_straight() else None
        wanted = _wanted(kernel, reductions, inside, last) if self.plan.in_row and self.whole is None else []  # fmt: skip
        for level in range(last + 1):
            folds = [e for e in reductions if kernel.level(e) == level + 1]
            writes = [s for s in inside if kernel.level(s.value) == level]
            if folds or writes:
                self._sweep(level, folds, writes, wanted)
                self.settle(known, level + 1)
        for s in outside:
            self.store(s)

    def _is_straight(self) -> bool:
        """Whether the row is a vector or two, without a loop: its values stay in registers from sweep to sweep."""
        dims, plan = self.kernel.row, self.plan
        n = dims[0].size if len(dims) == 1 else None
        if type(n) is not int:
            return False
        rest = n % plan.wide
        return n - rest in (0, plan.wide) and (not rest or (rest <= plan.narrow and self.target.avx512))  # fmt: skip

    def _sweep(
        self, level: int, folds: list[Expr], writes: list[Store], wanted: list[tuple[Expr, int]]
    ) -> None:
        """One loop over the row: ``folds``, ``writes``, and the ``wanted`` values that this sweep computes first."""
        cells = {e: Fold(self, e) for e in folds}
        scans = [e for e in self.kernel.body if e.op == "scan"]
        keep = [e for e, first in wanted if first == level and e not in self.kept]
        slots = {e: self.slot(e) for e in keep}
        self.scans = {e: Fold(self, e) for e in scans}
        outer_lanes = not self.plan.in_row
        self.folding = [fold for fold in cells.values() if fold.grows_inexact]

        def body() -> None:
            for e, slot in slots.items():
                if slot is not None:
                    self.write(slot[0], e.dtype, slot[1], self.value(e))
            for e, fold in cells.items():
                fold.step([self.value(a) for a in e.args])
            for s in writes:
                self.store(s)

        self._row_loops(list(self.kernel.row), body, outer_lanes)
        self.folding = []
        self.kept |= {e: s for e, s in slots.items() if s is not None}
        for e, fold in cells.items():
            self.scopes[-1][e] = (fold.result(), self.emitter.width)

    def _row_loops(self, dims: list[Dim], body: Callable[[], None], outer_lanes: bool) -> None:
        if not dims:
            with self.scope():
                body()
            return
        dim, rest = dims[0], dims[1:]
        n = dim.size
        if not rest and not outer_lanes:
            self._lanes(dim.name, "0", self.size(n), n if isinstance(n, int) else None, n, body)
            return

        def step(i: str) -> None:
            self.variables[dim.name] = i
            with self.scope():
                self._row_loops(rest, body, outer_lanes)

        known = n if isinstance(n, int) else None
        self._steps("0", self.size(n), 1, known, step, self._vectors(rest, outer_lanes))

    def _vectors(self, dims: list[Dim], outer_lanes: bool) -> int:
        """How many vectors a point of the loops over ``dims`` takes; of a size that only the run knows, one."""
        sizes = [d.size if isinstance(d.size, int) else 1 for d in dims]
        if sizes and not outer_lanes:
            sizes[-1] = -(-sizes[-1] // self.plan.wide)
        return math.prod(sizes)


def _wanted(
    kernel: Kernel, reductions: list[Expr], writes: list[Store], last: int
) -> list[tuple[Expr, int]]:
    """Costly row values that a later sweep needs again, with the sweep that computes them first."""
    needs: list[dict[Expr, None]] = []
    for level in range(last + 1):
        roots = [a for e in reductions if kernel.level(e) == level + 1 for a in e.args]
        roots += [s.value for s in writes if kernel.level(s.value) == level]
        needs.append(_row_needs(kernel, roots))
    out: dict[Expr, int] = {}
    for later in range(1, last + 1):
        for e in needs[later]:
            first = next(k for k in range(later + 1) if e in needs[k])
            users = [u for u in needs[later] if e in u.args]
            new = not users or any(all(u not in needs[k] for k in range(later)) for u in users)
            if first < later and new and _is_costly(kernel, e):
                out[e] = first
    return list(out.items())


def _row_needs(kernel: Kernel, roots: Iterable[Expr]) -> dict[Expr, None]:
    found: dict[Expr, None] = {}
    stack = list(roots)
    while stack:
        e = stack.pop()
        if e in found or not kernel.in_row(e):
            continue
        found[e] = None
        stack.extend(e.operands())
    return found


def _is_costly(kernel: Kernel, e: Expr) -> bool:
    return any(x.op in COSTLY for x in _row_needs(kernel, [e]))


def _offset(text: Text, base: str, by: int) -> str:
    if not by:
        return base
    return str(int(base) + by) if base.isdigit() else text.set(f"add nsw i64 {base}, {by}")


__all__ = ["Plan", "Rendered", "Renderer", "Target", "plan", "render"]
