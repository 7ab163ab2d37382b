"""A kernel of the loop IR as LLVM loops, one scalar per point, for LLVM's own vectoriser.

``emit`` writes the loops of a kernel into the function that is being written: the outer loops, and inside of them one
sweep over the row for each level of reductions. A kernel without loops is straight-line code on registers. What a
parameter of the kernel stands for is given by ``bind``: a pointer for buffers, a value for scalars and for buffers of
one element that live in a register.

Sums of floats may be reassociated, as every fast sum is; long rows are summed in blocks, which bounds the error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..kernels.loop_ir import FLOATS, Affine, Dim, Expr, Kernel, Store, Unsupported
from .code import BITS, REGISTER, UNROLL, UNSIGNED, Code, literal
from .scalar import render
from .scalar_math import calls_library
from .scalar_parts import Fail

BLOCK = 4096  # elements of a row that are summed before the total is touched
FEW = 4  # steps of a loop that is written out, rather than to be vectorised


@dataclass(frozen=True)
class Place:
    """Where a parameter of the kernel is: a pointer to its elements, or the register that holds its only one."""

    text: str
    register: bool = False


def emit(
    code: Code,
    kernel: Kernel,
    bind: Mapping[str, Place],
    fail: Fail,
    bounds: tuple[str, str] | None = None,
) -> dict[str, str]:
    """Write ``kernel``; ``bounds`` are those of its first outer loop, if not all of it is to run.

    Returns the registers of the stores that go to no memory, by buffer name.
    """
    return _Emitter(code, kernel, bind, fail).run(bounds)


class _Emitter:
    def __init__(self, code: Code, kernel: Kernel, bind: Mapping[str, Place], fail: Fail):
        self.code, self.kernel, self.bind, self.fail = code, kernel, bind, fail
        self.variables: dict[str, str] = {}
        self.values: dict[Expr, str] = {}
        self.registers: dict[str, str] = {}
        # A vectorised loop would call the library once for each lane: much code, and no faster.
        self.ending = ", !llvm.loop !0" if any(map(calls_library, kernel.body)) else ""
        self.scans: dict[Expr, _Fold] = {}

    def run(self, bounds: tuple[str, str] | None) -> dict[str, str]:
        self._nest(self.kernel.outer, self._point, bounds)
        return self.registers

    def _nest(
        self, dims: Sequence[Dim], body: Callable[[], None], bounds: tuple[str, str] | None = None
    ) -> None:
        if not dims:
            body()
            return
        size = dims[0].size
        low, high = bounds or ("0", self.bind[size].text if isinstance(size, str) else str(size))
        empty = isinstance(size, str)
        self.loop(dims[0].name, low, high, lambda: self._nest(dims[1:], body), empty=empty)

    def loop(self, name: str, low: str, high: str, body: Callable[[], None], step: int = 1, empty: bool = False) -> None:  # fmt: skip
        """``for name in range(low, high, step)``; ``empty``: whether there may be no step."""
        code = self.code
        head, done = code.fresh("loop"), code.fresh("done")
        before = code.block
        if empty:
            code.branch(code.do(f"icmp slt i64 {low}, {high}"), head, done)
            code.label(head)
        else:
            code.jump(head)
        place, variable = code.later(), "%" + code.fresh("i")
        self.variables[name] = variable
        body()
        after = code.do(f"add nuw nsw i64 {variable}, {step}")
        code.fill(place, f"{variable} = phi i64 [{low}, %{before}], [{after}, %{code.block}]")
        few = low == "0" and high.isdigit() and int(high) < FEW * step
        code.branch(
            code.do(f"icmp slt i64 {after}, {high}"),
            head,
            done + (UNROLL["full"] if few else self.ending),
        )
        code.label(done)

    # ---- one point of the outer loops

    def _point(self) -> None:
        kept = dict(self.values)
        body, kernel = self.kernel.body, self.kernel
        for level in range(max((kernel.level(e) for e in body), default=0) + 1):
            for e in body:
                if kernel.level(e) == level and not kernel.in_row(e) and e.op != "reduce":
                    self.value(e)
            folds = [e for e in body if e.op == "reduce" and kernel.level(e) == level + 1]
            stores = [s for s in kernel.stores if self._level(s) == level and self._in_row(s)]
            if folds or stores:
                self._sweep(folds, stores)
            for store in kernel.stores:
                if self._level(store) == level and not self._in_row(store):
                    self._store(store)
        self.values = kept

    def _level(self, store: Store) -> int:
        gathers = [self.kernel.level(e) for e, _ in store.address.gathers]
        return max([self.kernel.level(store.value), *gathers])

    def _in_row(self, store: Store) -> bool:
        return any(d.name in self.kernel.store_depends(store) for d in self.kernel.row)

    def _sweep(self, folds: list[Expr], stores: list[Store]) -> None:
        cells = {e: _Fold(self.code, e) for e in folds}
        self.scans = {e: _Fold(self.code, e) for e in self.kernel.body if e.op == "scan"}
        kept = dict(self.values)

        def point() -> None:
            for e, cell in cells.items():
                cell.add([self.value(a) for a in e.args])
            for store in stores:
                self._store(store)
            self.values = dict(kept)

        self._row(point, list(cells.values()))
        self.values = kept
        for e, cell in cells.items():
            self.values[e] = cell.result()

    def _row(self, point: Callable[[], None], cells: list[_Fold]) -> None:
        dims = self.kernel.row
        long = len(dims) == 1 and type(dims[0].size) is int and dims[0].size > 2 * BLOCK
        if not long or not cells or not all(c.additive for c in cells):
            self._nest(dims, point)
            return
        name, size = dims[0].name, dims[0].size

        def block() -> None:
            low = self.variables[name + "block"]
            high = self.code.do(f"add nuw nsw i64 {low}, {BLOCK}")
            self.code.declare("llvm.smin.i64", "i64 {}(i64, i64)")
            high = self.code.do(f"call i64 @llvm.smin.i64(i64 {high}, i64 {size})")
            for cell in cells:
                cell.begin_block()
            self.loop(name, low, high, point)
            for cell in cells:
                cell.end_block()

        self.loop(name + "block", "0", str(size), block, BLOCK)

    # ---- values

    def value(self, e: Expr) -> str:
        values, stack = self.values, [e]
        while stack:  # operands first, so that a long chain does not recurse
            at = stack[-1]
            missing = [] if at in values else [a for a in at.operands() if a not in values]
            if missing:
                stack += missing
                continue
            stack.pop()
            if at not in values:
                values[at] = self._compute(at)
        return values[e]

    def _compute(self, e: Expr) -> str:
        if e.op == "const":
            return literal(e.value, e.dtype)
        if e.op == "scalar":
            return self.bind[e.name].text
        if e.op == "index":
            return self._address(e.address)
        if e.op == "load":
            if e.args:
                raise Unsupported("a masked load")
            place = self.bind[e.name]
            if place.register:
                return place.text
            return self.code.load(e.dtype, place.text, self._address(e.address))
        if e.op == "scan":
            self.scans[e].add([self.value(a) for a in e.args])
            return self.scans[e].get()
        if e.op == "reduce":
            raise Unsupported("a reduction here")
        if e.op == "check_index":
            return self._checked(*map(self.value, e.args))
        return render(self.code, e, [self.value(a) for a in e.args], self.fail)

    def _checked(self, index: str, size: str) -> str:
        """A negative index counts from the end; one out of range fails and reads element 0."""
        code = self.code
        wrapped = code.do(f"add i64 {index}, {size}")
        index = code.do(f"select i1 {code.do(f'icmp slt i64 {index}, 0')}, i64 {wrapped}, i64 {index}")  # fmt: skip
        inside = code.do(f"icmp ult i64 {index}, {size}")
        self.fail(code.do(f"xor i1 {inside}, true"))
        return code.do(f"select i1 {inside}, i64 {index}, i64 0")

    def _address(self, a: Affine) -> str:
        total = str(a.offset)
        for name, factor in a.terms:
            total = self.code.add(total, self._times(self.variables[name], factor))
        for e, factor in a.gathers:
            total = self.code.add(total, self._times(self.value(e), factor))
        return total

    def _times(self, index: str, factor: int | str) -> str:
        """An index times a stride, which may be a parameter of the kernel."""
        if type(factor) is str:
            return self.code.do(f"mul nsw i64 {index}, {self.bind[factor].text}")
        return self.code.multiply(index, factor)

    def _store(self, store: Store) -> None:
        place, value = self.bind[store.buffer], self.value(store.value)
        if place.register:
            self.registers[store.buffer] = value
        else:
            self.code.store(store.value.dtype, value, place.text, self._address(store.address))


_INITIAL = {"sum": 0, "prod": 1, "any": False, "all": True}
_LOWEST = {"f32": "0xFFF0000000000000", "f64": "0xFFF0000000000000"}
_HIGHEST = {"f32": "0x7FF0000000000000", "f64": "0x7FF0000000000000"}


class _Fold:
    """The running value of a reduction or scan, in a stack cell that LLVM turns into a register.

    Only a reduction may be reassociated: LLVM makes a scan of one value ``k * value``, which is NaN for the first of infinities.
    """

    def __init__(self, code: Code, e: Expr):
        self.free = " reassoc" if e.op == "reduce" else ""
        self.code, self.kind, self.dtype = code, e.name, e.dtype
        if self.kind.startswith("arg"):
            self.dtype = e.args[0].dtype
        self.register = REGISTER[self.dtype]
        self.additive = self.kind == "sum"
        self.cell = code.cell(self.register)
        self.set(self._start())
        if self.kind.startswith("arg"):
            self.where = code.cell("i64")
            code.line(f"store i64 0, ptr {self.where}")

    def _start(self) -> str:
        if self.kind in _INITIAL:
            return literal(_INITIAL[self.kind], self.dtype)
        largest = self.kind in ("max", "argmax")
        if self.dtype in FLOATS:
            return (_LOWEST if largest else _HIGHEST)[self.dtype]
        bits = BITS[self.dtype]
        if self.dtype in UNSIGNED:
            return literal(0 if largest else (1 << bits) - 1, self.dtype)
        return literal(-(1 << (bits - 1)) if largest else (1 << (bits - 1)) - 1, self.dtype)

    def get(self) -> str:
        return self.code.do(f"load {self.register}, ptr {self.cell}")

    def set(self, value: str) -> None:
        self.code.line(f"store {self.register} {value}, ptr {self.cell}")

    def begin_block(self) -> None:
        self.total = self.get()
        self.set(self._start())

    def end_block(self) -> None:
        self.set(self._join(self.total, self.get()))

    def add(self, values: list[str]) -> None:
        if self.kind.startswith("arg"):
            self._add_argument(*values)
        else:
            self.set(self._join(self.get(), values[0]))

    def _join(self, a: str, b: str) -> str:
        kind, floating = self.register, self.dtype in FLOATS
        if self.kind in ("max", "min"):
            return self._extreme(a, b)
        word = {"sum": "add", "prod": "mul", "any": "or", "all": "and"}[self.kind]
        if self.dtype == "bool":
            word = {"add": "or", "mul": "and"}.get(word, word)
        return self.code.do(f"{'f' + word + self.free if floating else word} {kind} {a}, {b}")

    def _extreme(self, a: str, b: str) -> str:
        if self.dtype in FLOATS:
            return self.code.intrinsic(self.kind + "imum", self.dtype, a, b)
        sign = "u" if self.dtype in UNSIGNED else "s"
        return self.code.intrinsic(sign + self.kind, self.dtype, a, b)

    def _add_argument(self, value: str, index: str) -> None:
        """The first best one, or the first NaN."""
        code, best = self.code, self.get()
        word = "gt" if self.kind == "argmax" else "lt"
        if self.dtype in FLOATS:
            better = code.do(f"fcmp o{word} {self.register} {value}, {best}")
            nan = code.do(f"fcmp uno {self.register} {value}, {value}")
            first = code.do(f"and i1 {nan}, {code.do(f'fcmp ord {self.register} {best}, {best}')}")
            better = code.do(f"or i1 {better}, {first}")
        else:
            sign = "u" if self.dtype in UNSIGNED else "s"
            better = code.do(f"icmp {sign}{word} {self.register} {value}, {best}")
        self.set(code.do(f"select i1 {better}, {self.register} {value}, {self.register} {best}"))
        old = code.do(f"load i64, ptr {self.where}")
        code.line(f"store i64 {code.do(f'select i1 {better}, i64 {index}, i64 {old}')}, ptr {self.where}")  # fmt: skip

    def result(self) -> str:
        if self.kind.startswith("arg"):
            return self.code.do(f"load i64, ptr {self.where}")
        return self.get()
