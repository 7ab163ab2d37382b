"""Vectors of the host's width while native code is written: loads and stores of whole and partial ones, and loops over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..kernels.jit import host
from .code import KEPT, REGISTER, SIZE, UNROLL, Code

if TYPE_CHECKING:
    from .lower import Lowering


class Lanes:
    """What a function on vectors of one dtype is written with. ``width``: elements of a vector."""

    def __init__(self, low: Lowering, dtype: str):
        self.dtype, self.kind = dtype, REGISTER[dtype]
        self.width = host().vector_bytes // SIZE[dtype]
        self.vector = f"<{self.width} x {self.kind}>"
        self.suffix = f"v{self.width}{'i' if self.kind[0] == 'i' else 'f'}{8 * SIZE[dtype]}"
        self.code = Code("m")
        self.code.declares = low.code.declares

    def at(self, base: str, *terms: tuple[str, int]) -> str:
        """The address of an element: ``base`` plus the sum of index * stride."""
        total = "0"
        for index, stride in terms:
            total = self.code.add(total, self.code.multiply(index, stride))
        return self.code.element(self.dtype, base, total)

    def splat(self, x: str) -> str:
        v = self.code.do(f"insertelement {self.vector} poison, {self.kind} {x}, i32 0")
        return self.code.do(f"shufflevector {self.vector} {v}, {self.vector} poison, <{self.width} x i32> zeroinitializer")  # fmt: skip

    def fma(self, a: str, b: str, c: str) -> str:
        if not host().fma:
            product = self.code.do(f"fmul {self.vector} {a}, {b}")
            return self.code.do(f"fadd {self.vector} {product}, {c}")
        name = f"llvm.fma.{self.suffix}"
        self.code.declare(name, f"{self.vector} {{}}({', '.join([self.vector] * 3)})")
        return self.code.do(f"call {self.vector} @{name}({self.vector} {a}, {self.vector} {b}, {self.vector} {c})")  # fmt: skip

    def mask(self, lanes: int) -> str:
        bits = ", ".join(f"i1 {'true' if k < lanes else 'false'}" for k in range(self.width))
        return f"<{bits}>"

    def load(self, pointer: str, lanes: int) -> str:
        align = SIZE[self.dtype]
        if lanes == self.width:
            return self.code.do(f"load {self.vector}, ptr {pointer}, align {align}")
        name = f"llvm.masked.load.{self.suffix}.p0"
        kinds = f"ptr, i32, <{self.width} x i1>, {self.vector}"
        self.code.declare(name, f"{self.vector} {{}}({kinds})")
        return self.code.do(f"call {self.vector} @{name}(ptr {pointer}, i32 {align}, <{self.width} x i1> {self.mask(lanes)}, {self.vector} zeroinitializer)")  # fmt: skip

    def store(self, value: str, pointer: str, lanes: int) -> None:
        align = SIZE[self.dtype]
        if lanes == self.width:
            self.code.line(f"store {self.vector} {value}, ptr {pointer}, align {align}")
            return
        name = f"llvm.masked.store.{self.suffix}.p0"
        self.code.declare(name, f"void {{}}({self.vector}, ptr, i32, <{self.width} x i1>)")
        self.code.line(f"call void @{name}({self.vector} {value}, ptr {pointer}, i32 {align}, <{self.width} x i1> {self.mask(lanes)})")  # fmt: skip

    def fold(self, total: str) -> str:
        name = f"llvm.vector.reduce.fadd.{self.suffix}"
        self.code.declare(name, f"{self.kind} {{}}({self.kind}, {self.vector})")
        return self.code.do(f"call reassoc {self.kind} @{name}({self.kind} 0.0, {self.vector} {total})")  # fmt: skip


def loop(code: Code, low: str, high: str, step: int, body: Callable[[str], None]) -> None:
    """``for i in range(low, high, step)``, which is not empty."""
    head, done, before = code.fresh("loop"), code.fresh("done"), code.block
    code.jump(head)
    place, i = code.later(), "%" + code.fresh("i")
    body(i)
    after = code.do(f"add nuw nsw i64 {i}, {step}")
    code.fill(place, f"{i} = phi i64 [{low}, %{before}], [{after}, %{code.block}]")
    code.branch(code.do(f"icmp slt i64 {after}, {high}"), head, done)
    code.label(done)


def cases(test: str, most: int, rest: int) -> list[tuple[str, int]]:
    """The sizes that a block may have, each with the test for it; an empty one where it always holds."""
    if not most or not rest:
        return [("", most or rest)]
    return [(test, most), (test.replace("slt", "sge"), rest)]


def only(code: Code, tests: list[str], body: Callable[[], None]) -> None:
    """``body`` where all tests hold."""
    tests = [t for t in tests if t]
    after = code.fresh("after") if tests else ""
    for test in tests:
        inside = code.fresh("holds")
        code.branch(code.do(test), inside, after)
        code.label(inside)
    body()
    if tests:
        code.jump(after)


def choice(code: Code, test: str, then: Callable[[], None], orelse: Callable[[], None]) -> None:
    labels = [code.fresh(n) for n in ("whole", "rest", "both")]
    code.branch(code.do(test), labels[0], labels[1])
    for label, body in zip(labels, (then, orelse), strict=False):
        code.label(label)
        body()
        code.line(f"br label %{labels[2]}")
    code.label(labels[2])


def opaque(code: Code, x: str) -> str:
    """``x``, of which LLVM does not see how it was computed: addresses that hold a remainder took it ten times as long as others."""
    return code.do(f'call i64 asm "", "=r,0"(i64 {x})')


def accumulate(code: Code, vector: str, count: int, depth: int | str, step: int, pointers: dict[str, int],
                body: Callable[[list[str], list[str]], list[str]], order: str | None = None, often: bool = True) -> list[str]:  # fmt: skip
    """``count`` running vectors along the shared dimension, from zero; ``body`` takes where it is in the matrices, and them.

    ``pointers``: where the matrices begin, and the bytes from one step to the next; ``order``: a table of the steps that are made, if not
    all are; ``often``: whether unrolling the loop is worth LLVM's time. Addresses that are computed of the step's number instead
    took LLVM, which looks for the cheapest way to compute all of them, half of the compile time of a training step.
    """
    if not depth:
        return ["zeroinitializer"] * count
    head, done, before = code.fresh("along"), code.fresh("end"), code.block
    code.jump(head)
    moving = {
        "%" + code.fresh("p"): (base, stride) for base, stride in pointers.items() if not order
    }
    places = [code.later() for _ in range(count + len(moving) + 1)]
    k, sums = "%" + code.fresh("k"), ["%" + code.fresh("s") for _ in range(count)]
    after = body([*moving, *(_entry(code, order, k, p) for p in pointers.items() if order)], sums)
    on = code.do(f"add nuw nsw i64 {k}, {step}")
    phis = [(k, "i64", "0", on)]
    for name, (base, stride) in moving.items():
        phis.append((name, "ptr", base, code.do(f"getelementptr i8, ptr {name}, i64 {stride}")))
    phis += [(name, vector, "zeroinitializer", new) for name, new in zip(sums, after, strict=True)]
    for place, (name, kind, old, new) in zip(places, phis, strict=True):
        code.fill(place, f"{name} = phi {kind} [{old}, %{before}], [{new}, %{code.block}]")
    again = UNROLL[4 if count > 4 else 8] if often else KEPT
    code.branch(code.do(f"icmp slt i64 {on}, {depth}"), head, done + again)
    code.label(done)
    return after


def _entry(code: Code, order: str, k: str, pointer: tuple[str, int]) -> str:
    """Where a matrix is at the step that entry ``k`` of a table names."""
    base, stride = pointer
    offset = code.multiply(code.load("i64", order, k), stride)
    return code.do(f"getelementptr i8, ptr {base}, i64 {offset}")
