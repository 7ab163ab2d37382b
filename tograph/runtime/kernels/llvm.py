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
is costly is kept in a scratch row, or in the row of the output that is written last, instead of computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from . import llvm_math
from .folds import Fold
from .loop_ir import (
    COSTLY,
    ITEM_SIZES,
    Affine,
    Dim,
    Expr,
    Kernel,
    Size,
    Store,
)
from .planning import Plan, Target, number, plan
from .vectors import MEMORY, OPS, REGISTER, Emitter, Text

SCRATCH_BYTES = 64 * 1024  # on the stack of a thread


@dataclass(frozen=True)
class Rendered:
    text: str
    imports: tuple[str, ...]
    units: int
    plan: Plan


def render(kernel: Kernel, target: Target) -> Rendered:
    """The LLVM IR of a kernel; ``Unsupported`` where this machine or this renderer cannot."""
    return _Renderer(kernel, target, plan(kernel, target)).module()


Scope = dict[Expr, tuple[str, int]]


class _Renderer:
    def __init__(self, kernel: Kernel, target: Target, plan: Plan):
        self.kernel, self.target, self.plan = kernel, target, plan
        self.text = Text()
        self.error = self.text.alloca("i32", 4) if kernel.may_fail else None
        self.scopes: list[Scope] = []
        self.variables: dict[str, str] = {}
        self.buffers = {b.name: b for b in kernel.buffers}
        self.pointers: dict[str, str] = {}
        self.spread: list[dict[str, str]] = []
        self.kept: dict[Expr, tuple[str, Affine]] = {}
        self.sizes: dict[str, str] = {}
        self.emitter = self.emitter_of(1, None)

    def emitter_of(self, width: int, mask: str | None) -> Emitter:
        return Emitter(self.text, self.target, width, mask, self.error)

    # ---- the functions

    def module(self) -> Rendered:
        name, text = self.kernel.name, self.text
        self._prologue()
        with text.loop("%begin", "%end", 1) as unit:
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

    def size(self, size: Size) -> str:
        """A size or stride as an operand."""
        return self.sizes[size] if isinstance(size, str) else str(size)

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
        self._open()
        self._settle(frozenset(), 0)

    def _unit(self, unit: str) -> None:
        """One unit: set the outer variables, then the loops inside of it."""
        self._open()
        outer = list(self.kernel.outer)
        lanes = None if self.plan.in_row or self.plan.lanes is None else outer.pop()
        low = high = ""
        if lanes is not None:
            low, high, unit = self._block(unit, lanes.size)
        self._decompose(unit, outer)
        known = frozenset(d.name for d in outer)
        self._settle(known, 0)
        if lanes is None:
            self._row(known, lambda s: self._store(s))
        else:
            n, block = lanes.size, self.plan.block
            exact = isinstance(n, int) and n % block == 0
            self._lanes(lanes.name, low, high, block if exact else None, n,
                        lambda: self._point(known | {lanes.name}))  # fmt: skip
        self._close()

    def _point(self, known: frozenset[str]) -> None:
        """The work of a vector of outer points."""
        self._settle(known, 0)
        self._row(known, lambda s: self._store(s))

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

    # ---- lanes

    def _lanes(self, name: str, low: str, high: str, length: int | None, n: Size,
               body: Callable[[], None]) -> None:  # fmt: skip
        """``body`` for the points of a lane loop; ``length`` is high - low where it is known."""
        wide, text = self.plan.wide, self.text
        if length is not None:
            return self._known_lanes(name, low, length, body)
        whole = text.set(f"sub nsw i64 {high}, {low}")
        whole = text.set(f"and i64 {whole}, {-wide}")
        middle = text.set(f"add nsw i64 {low}, {whole}")
        with text.loop(low, middle, wide) as i:
            self._vector(name, i, wide, None, body)
        if isinstance(n, str) or n % wide:
            self._tail_loop(name, middle, high, body)
        return None

    def _known_lanes(self, name: str, low: str, length: int, body: Callable[[], None]) -> None:
        wide, text = self.plan.wide, self.text
        main = length - length % wide
        at = _offset(text, low, main)
        if main == wide:
            self._vector(name, low, wide, None, body)
        elif main:
            with text.loop(low, at, wide) as i:
                self._vector(name, i, wide, None, body)
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
        self._open()
        body()
        self._close()
        self.emitter = before

    # ---- sweeps

    def _row(self, known: frozenset[str], store: Callable[[Store], None]) -> None:
        """All sweeps over the row for the current outer point or points, and the stores outside of the row."""
        kernel = self.kernel
        row = {d.name for d in kernel.row}
        stores = [s for s in kernel.stores if not (kernel.store_depends(s) & row)]
        inner = [s for s in kernel.stores if kernel.store_depends(s) & row]
        reductions = [e for e in kernel.body if e.op == "reduce"]
        last = max([kernel.level(e) for e in kernel.body], default=0)
        self.kept = {}
        wanted = self._wanted(reductions, inner, last) if self.plan.in_row else []
        for level in range(last + 1):
            folds = [e for e in reductions if kernel.level(e) == level + 1]
            writes = [s for s in inner if kernel.level(s.value) == level]
            if folds or writes:
                self._sweep(level, folds, writes, store, wanted)
                self._settle(known, level + 1)
        for s in stores:
            store(s)

    def _sweep(self, level, folds, writes, store, wanted) -> None:
        cells = {e: Fold(self, e) for e in folds}
        scans = {e: Fold(self, e) for e in self.kernel.body if e.op == "scan"} if not self.plan.in_row else {}  # fmt: skip
        keep = [e for e, first in wanted if first == level and e not in self.kept]
        slots = {e: self._slot(e) for e in keep}
        self.scans = scans
        outer_lanes = not self.plan.in_row

        def body() -> None:
            for e, slot in slots.items():
                if slot is not None:
                    self._write(slot[0], e.dtype, slot[1], self.value(e))
            for e, fold in cells.items():
                fold.step([self.value(a) for a in e.args])
            for s in writes:
                store(s)

        self._row_loops(list(self.kernel.row), body, outer_lanes)
        self.kept |= {e: s for e, s in slots.items() if s is not None}
        for e, fold in cells.items():
            self.scopes[-1][e] = (fold.result(), self.emitter.width)

    def _row_loops(self, dims: list[Dim], body: Callable[[], None], outer_lanes: bool) -> None:
        if not dims:
            self._open()
            body()
            self._close()
            return
        dim, rest = dims[0], dims[1:]
        n = dim.size
        if not rest and not outer_lanes:
            self._lanes(dim.name, "0", self.size(n), n if isinstance(n, int) else None, n, body)
            return
        with self.text.loop("0", self.size(n), 1) as i:
            self.variables[dim.name] = i
            self._open()
            self._row_loops(rest, body, outer_lanes)
            self._close()

    # ---- keeping values between sweeps

    def _wanted(self, reductions, writes, last: int) -> list[tuple[Expr, int]]:
        """Costly row values that a later sweep needs again, with the sweep that computes them first."""
        kernel = self.kernel
        needs: list[dict[Expr, None]] = []
        for level in range(last + 1):
            roots = [a for e in reductions if kernel.level(e) == level + 1 for a in e.args]
            roots += [s.value for s in writes if kernel.level(s.value) == level]
            needs.append(self._row_needs(roots))
        out: dict[Expr, int] = {}
        for later in range(1, last + 1):
            for e in needs[later]:
                first = next(k for k in range(later + 1) if e in needs[k])
                users = [u for u in needs[later] if e in u.args]
                new = not users or any(all(u not in needs[k] for k in range(later)) for u in users)
                if first < later and new and self._is_costly(e):
                    out[e] = first
        return list(out.items())

    def _row_needs(self, roots: Iterable[Expr]) -> dict[Expr, None]:
        found: dict[Expr, None] = {}
        stack = list(roots)
        while stack:
            e = stack.pop()
            if e in found or not self.kernel.in_row(e):
                continue
            found[e] = None
            stack.extend(e.operands())
        return found

    def _is_costly(self, e: Expr) -> bool:
        return any(x.op in COSTLY for x in self._row_needs([e]))

    def _slot(self, e: Expr) -> tuple[str, Affine] | None:
        """Where a row of this value is kept: (pointer, address), or None to compute it again."""
        if any(isinstance(d.size, str) for d in self.kernel.row):
            return self._output_slot(e)
        n, address, step = 1, Affine(), 1
        for d in reversed(self.kernel.row):
            address = address + Affine(((d.name, step),))
            step *= number(d.size)
            n *= number(d.size)
        if n * ITEM_SIZES[e.dtype] * (len(self.kept) + 1) <= SCRATCH_BYTES:
            return self.text.alloca(f"[{n + self.plan.wide} x {MEMORY[e.dtype]}]"), address
        return self._output_slot(e)

    def _output_slot(self, e: Expr) -> tuple[str, Affine] | None:
        taken = {pointer for pointer, _ in self.kept.values()}
        for s in self.kernel.stores:
            pointer = self.pointers[s.buffer]
            if (self.kernel.in_row(s.value) and self.buffers[s.buffer].dtype == e.dtype
                    and e.dtype in ("f32", "f64") and pointer not in taken
                    and self.kernel.level(s.value) > self.kernel.level(e)):  # fmt: skip
                return pointer, s.address
        return None

    # ---- values

    def _open(self) -> None:
        self.scopes.append({})
        self.spread.append({})

    def _close(self) -> None:
        self.scopes.pop()
        self.spread.pop()

    def _settle(self, known: frozenset[str], level: int) -> None:
        """Compute here all values that depend on known variables only, so that no inner loop does."""
        for e in self.kernel.body:
            if (e.op not in ("const", "reduce") and self.kernel.level(e) == level
                    and self.kernel.depends(e) <= known):  # fmt: skip
                self._emit(e)

    def value(self, e: Expr) -> str:
        """The register of a value at the current width."""
        if e.op == "const":
            return self.emitter.const(e.value, e.dtype)
        name, width = self._emit(e)
        if width == self.emitter.width:
            return name
        if self.emitter.width == 1:  # a fold that all lanes share
            return self.text.set(f"extractelement <{width} x {REGISTER[e.dtype]}> {name}, i64 0")
        if name.startswith("%"):
            key = f"{name}x{self.emitter.width}"
            for known in self.spread:
                if key in known:
                    return known[key]
            self.spread[-1][key] = self.emitter.splat(REGISTER[e.dtype], name)
            return self.spread[-1][key]
        return self.emitter.splat_literal(REGISTER[e.dtype], name)

    def _emit(self, e: Expr) -> tuple[str, int]:
        stack = [e]
        while stack:  # operands first, so that a long chain does not recurse
            at = stack[-1]
            known = self._known(at)
            missing = [] if known or at in self.kept else [a for a in at.operands() if a.op != "const" and not self._known(a)]  # fmt: skip
            if missing:
                stack += missing
                continue
            stack.pop()
            if not known:
                self.scopes[-1][at] = known = self._fresh(at)
        assert known is not None
        return known

    def _known(self, e: Expr) -> tuple[str, int] | None:
        for scope in reversed(self.scopes):
            if e in scope:
                return scope[e]
        return None

    def _fresh(self, e: Expr) -> tuple[str, int]:
        if e in self.kept:
            pointer, address = self.kept[e]
            return self._read(pointer, e.dtype, address), self.emitter.width
        lane = self.plan.lanes.name if self.plan.lanes is not None else ""
        if self.emitter.width > 1 and lane not in self.kernel.depends(e):
            before, self.emitter = self.emitter, self.emitter_of(1, None)
            try:
                return self._compute(e), 1
            finally:
                self.emitter = before
        return self._compute(e), self.emitter.width

    def _compute(self, e: Expr) -> str:
        if e.op == "load":
            assert e.address is not None
            return self._read(self.pointers[e.name], self.buffers[e.name].dtype, e.address)
        if e.op == "index":
            assert e.address is not None
            return self._position(e.address)
        if e.op == "const":
            return self.emitter.const(e.value, e.dtype)
        if e.op == "scalar":
            return self._scalar(e)
        if e.op == "scan":
            return self.scans[e].scan([self.value(a) for a in e.args])
        args = [self.value(a) for a in e.args]
        if e.op == "cast":
            return self.emitter.cast(e.args[0].dtype, e.dtype, args[0])
        if e.op == "select":
            return self.emitter.select(args[0], e.dtype, args[1], args[2])
        if e.op in OPS:
            return OPS[e.op](self.emitter, e.args[0].dtype, *args)
        return llvm_math.emit(self.emitter, e.op, e.dtype, args)

    def _scalar(self, e: Expr) -> str:
        raw = self.text.set(f"load {MEMORY[e.dtype]}, ptr {self.pointers[e.name]}")
        return self.emitter.splat(REGISTER[e.dtype], self.emitter_of(1, None).from_memory(e.dtype, raw))  # fmt: skip

    # ---- addresses

    def _base(self, address: Affine) -> str:
        """The address of the first lane, as i64; gathers are not in it."""
        text, total = self.text, str(address.offset)
        for name, factor in address.terms:
            register = self.variables[name]
            part = register if factor == 1 else text.set(f"mul nsw i64 {register}, {self.size(factor)}")  # fmt: skip
            total = part if total == "0" else text.set(f"add nsw i64 {part}, {total}")
        return total

    def _position(self, address: Affine) -> str:
        """The value of an affine expression in every lane."""
        e, base = self.emitter, self._base(address)
        total = e.splat("i64", base) if not base.lstrip("-").isdigit() else e.const(int(base), "i64")  # fmt: skip
        factor = number(address.factor(self.plan.lanes.name)) if self.plan.lanes is not None else 0
        if e.width > 1 and factor:
            steps = "<" + ", ".join(f"i64 {i * factor}" for i in range(e.width)) + ">"
            total = e.binary("add", "i64", total, steps)
        for index, stride in address.gathers:
            moved = e.binary("mul", "i64", self.value(index), e.const(number(stride), "i64"))
            total = e.binary("add", "i64", total, moved)
        return total

    def _pointer(self, pointer: str, dtype: str, address: Affine) -> tuple[str, str]:
        """(pointer or vector of pointers, how the lanes lie) for an access."""
        e, kind = self.emitter, MEMORY[dtype]
        lane = self.plan.lanes.name if self.plan.lanes is not None else ""
        factor = address.factor(lane) if e.width > 1 else 0
        gathered = any(lane in self.kernel.depends(x) for x, _ in address.gathers)
        if factor in (0, 1) and not (gathered and e.width > 1):
            at = self._base(Affine(address.terms, address.offset))
            for index, stride in address.gathers:
                one = self._emit_scalar(index)
                moved = self.text.set(f"mul nsw i64 {one}, {number(stride)}")
                at = self.text.set(f"add nsw i64 {at}, {moved}")
            place = self.text.set(f"getelementptr {kind}, ptr {pointer}, i64 {at}")
            return place, "one" if factor == 0 else "all"
        positions = self._position(address)
        place = self.text.set(f"getelementptr {kind}, ptr {pointer}, {e.type('i64')} {positions}")
        return place, "each"

    def _emit_scalar(self, e: Expr) -> str:
        before, self.emitter = self.emitter, self.emitter_of(1, None)
        try:
            return self.value(e)
        finally:
            self.emitter = before

    def _read(self, pointer: str, dtype: str, address: Affine) -> str:
        place, lanes = self._pointer(pointer, dtype, address)
        return self.emitter.load(dtype, place, lanes)

    def _write(self, pointer: str, dtype: str, address: Affine, value: str) -> None:
        place, lanes = self._pointer(pointer, dtype, address)
        self.emitter.store(dtype, place, lanes, value)

    def _store(self, s: Store) -> None:
        value = self.value(s.value)
        self._write(self.pointers[s.buffer], self.buffers[s.buffer].dtype, s.address, value)


def _offset(text: Text, base: str, by: int) -> str:
    if not by:
        return base
    return str(int(base) + by) if base.isdigit() else text.set(f"add nsw i64 {base}, {by}")


__all__ = ["Plan", "Rendered", "Target", "plan", "render"]
