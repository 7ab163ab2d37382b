"""Values of a kernel while its text is written: the register of each expression where it is needed, and accesses of buffers.

Values are computed where their variables are known: before all loops, once for a unit, once for a vector of lanes, or in
the innermost loop (``settle``); a value that does not change along the lanes is computed once and spread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from . import far_reads, llvm_math, turns
from .folds import Fold
from .llvm_text import MEMORY, REGISTER, Text
from .loop_ir import ITEM_SIZES, Affine, Expr, Kernel, Size, Store
from .planning import Plan, Target, number
from .vector_ops import OPS
from .vectors import Emitter

SCRATCH_BYTES = 64 * 1024  # on the stack of a thread
Found = tuple[
    dict[Expr, tuple[str, int]], dict[str, str]
]  # registers of values with their width, and of scalars in all lanes


class Values:
    """The values of ``kernel`` in the scopes of the loops around what is being written."""

    def __init__(self, kernel: Kernel, target: Target, plan: Plan):
        self.kernel, self.target, self.plan = kernel, target, plan
        self.text = Text()
        self.error = self.text.alloca("i32", 4) if kernel.may_fail else None
        self.buffers = {b.name: b for b in kernel.buffers}
        self.pointers: dict[str, str] = {}  # of buffers, and where scalars are
        self.sizes: dict[str, str] = {}  # registers of the sizes that only a call knows
        self.variables: dict[str, str] = {}  # of the loops
        # (register, width), outermost loop first.
        self.scopes: list[dict[Expr, tuple[str, int]]] = [{}]
        self.spread: list[dict[str, str]] = [{}]  # scalars in all lanes, by scope
        self.kept: dict[Expr, tuple[str, Affine]] = {}  # rows that an earlier sweep stored
        self.scans: dict[Expr, Fold] = {}
        self.emitter = self.emitter_of(1, None)

    def emitter_of(self, width: int, mask: str | None) -> Emitter:
        return Emitter(self.text, self.target, width, mask, self.error)

    def size(self, size: Size) -> str:
        """A size or stride as an operand."""
        return self.sizes[size] if isinstance(size, str) else str(size)

    @contextmanager
    def scope(self, before: Found | None = None) -> Iterator[None]:
        """What is computed inside is known inside only: the body of a loop. ``before``: what is known there, and will be in the next such scope."""
        values, spread = ({}, {}) if before is None else before
        self.scopes.append(values)
        self.spread.append(spread)
        yield
        self.scopes.pop()
        self.spread.pop()

    def settle(self, known: frozenset[str], level: int) -> None:
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
            return self.read(pointer, e.dtype, address), self.emitter.width
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
            self._fetch_ahead(e.name, e.address)
            return self.read(self.pointers[e.name], self.buffers[e.name].dtype, e.address)
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
            return self._place(pointer, kind, self._first(address)), "one" if factor == 0 else "all"
        positions = self._position(address)
        place = self.text.set(f"getelementptr {kind}, ptr {pointer}, {e.type('i64')} {positions}")
        return place, "each"

    def _first(self, address: Affine) -> str:
        """The address of the first lane, as i64, with gathers that are the same in all lanes."""
        at = self._base(Affine(address.terms, address.offset))
        for index, stride in address.gathers:
            one = self._emit_scalar(index)
            moved = self.text.set(f"mul nsw i64 {one}, {number(stride)}")
            at = self.text.set(f"add nsw i64 {at}, {moved}")
        return at

    def _place(self, pointer: str, kind: str, at: str) -> str:
        return self.text.set(f"getelementptr {kind}, ptr {pointer}, i64 {at}")

    def _emit_scalar(self, e: Expr) -> str:
        before, self.emitter = self.emitter, self.emitter_of(1, None)
        try:
            return self.value(e)
        finally:
            self.emitter = before

    def read(self, pointer: str, dtype: str, address: Affine) -> str:
        if self.emitter.width > 1 and self.plan.lanes is not None:
            for form in (self._read_back, self._read_runs, self._read_pairs):
                if (found := form(pointer, dtype, address)) is not None:
                    return found
        place, lanes = self._pointer(pointer, dtype, address)
        return self.emitter.load(dtype, place, lanes)

    def _fetch_ahead(self, buffer: str, address: Affine) -> None:
        """Ask for what a later step of the row loop reads, where that is far away."""
        dtype = self.buffers[buffer].dtype
        found = far_reads.step(self.kernel, self.plan, address, ITEM_SIZES[dtype])
        if found is None or found[0] not in self.variables or self.emitter.width == 1:
            return
        text, base = self.text, self._base(address.shifted(far_reads.STEPS * found[1]))
        text.declarations[far_reads.FETCH] = f"declare void @{far_reads.FETCH}(ptr, i32, i32, i32)"
        for byte in range(0, self.emitter.width * ITEM_SIZES[dtype], far_reads.LINE):
            at = text.set(f"add nsw i64 {base}, {byte // ITEM_SIZES[dtype]}")
            place = self._place(self.pointers[buffer], MEMORY[dtype], at)
            text.line(f"call void @{far_reads.FETCH}(ptr {place}, i32 0, i32 3, i32 1)")

    def _lane_gathers(self, address: Affine) -> list[tuple[Expr, Size]]:
        """The gathers that differ from lane to lane."""
        lane = self.plan.lanes.name
        return [(x, f) for x, f in address.gathers if lane in self.kernel.depends(x)]

    def _read_back(self, pointer: str, dtype: str, address: Affine) -> str | None:
        """Elements that lie one before the other."""
        if address.factor(self.plan.lanes.name) != -1 or self._lane_gathers(address):
            return None
        last = self._first(address.shifted(1 - self.emitter.width))
        return self.emitter.load(dtype, self._place(pointer, MEMORY[dtype], last), "back")

    def _read_runs(self, pointer: str, dtype: str, address: Affine) -> str | None:
        """Elements of a dim that is turned in a circle, which lie in two runs."""
        lane, inner = self.plan.lanes.name, self._lane_gathers(address)
        if address.factor(lane) != 0 or len(inner) != 1 or inner[0][1] != 1:
            return None
        found = turns.runs(inner[0][0])
        if found is None or found[0].factor(lane) != 1 or found[0].gathers:
            return None
        here, turn, low, high = found
        rest = tuple(g for g in address.gathers if g[0] is not inner[0][0])
        at, start = self._first(Affine(address.terms, address.offset, rest)), self._base(here)
        at = self.text.set(f"add nsw i64 {at}, {start}")
        first, second = (self._place(pointer, MEMORY[dtype], self.text.set(f"add nsw i64 {at}, {r}")) for r in (low, high))  # fmt: skip
        return self.emitter.load_runs(dtype, first, second, self.text.set(f"sub nsw i64 {turn}, {start}"))  # fmt: skip

    def _in_pairs(self, dtype: str, address: Affine) -> bool:
        """Whether whole vectors of lanes are every other element, as the parts of complex numbers are."""
        e, lanes = self.emitter, self.plan.lanes
        if e.width == 1 or e.width % 2 or e.mask is not None or lanes is None:
            return False
        return address.factor(lanes.name) == 2 and not self._lane_gathers(address) and ITEM_SIZES[dtype] >= 4  # fmt: skip

    def _read_pairs(self, pointer: str, dtype: str, address: Affine) -> str | None:
        if not self._in_pairs(dtype, address):
            return None
        last = address.shifted(self.emitter.width - 1)
        return self.emitter.load_pairs(dtype, *(self._place(pointer, MEMORY[dtype], self._first(a)) for a in (address, last)))  # fmt: skip

    def write(self, pointer: str, dtype: str, address: Affine, value: str) -> None:
        if self._in_pairs(dtype, address):
            middle = address.shifted(self.emitter.width)
            first, second = (self._place(pointer, MEMORY[dtype], self._first(a)) for a in (address, middle))  # fmt: skip
            self.emitter.store_pairs(dtype, first, second, value)
            return
        place, lanes = self._pointer(pointer, dtype, address)
        self.emitter.store(dtype, place, lanes, value)

    def store(self, s: Store) -> None:
        value = self.value(s.value)
        self.write(self.pointers[s.buffer], self.buffers[s.buffer].dtype, s.address, value)

    # ---- rows that are kept between sweeps

    def slot(self, e: Expr) -> tuple[str, Affine] | None:
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
