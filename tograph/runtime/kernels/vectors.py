"""LLVM instructions over scalars or vectors of ``width`` lanes under one lane mask (``Emitter``).

Nothing here uses fast-math flags; what may be contracted is written as ``fma``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .llvm_text import (
    MEMORY,
    REGISTER,
    SUFFIX,
    UNSIGNED,
    Text,
    float_literal,
    integer_literal,
)
from .loop_ir import FLOATS, ITEM_SIZES, Unsupported
from .planning import Target


class Emitter:
    """Instructions at one width. ``mask`` is the register of the lanes that exist, or None for all."""

    def __init__(self, text: Text, target: Target, width: int, mask: str | None, error: str | None):
        self.text, self.target, self.width, self.mask, self.error = text, target, width, mask, error

    # ---- types and constants

    def type_of(self, register: str) -> str:
        return register if self.width == 1 else f"<{self.width} x {register}>"

    def type(self, dtype: str) -> str:
        return self.type_of(REGISTER[dtype])

    def splat_literal(self, register: str, literal: str) -> str:
        return literal if self.width == 1 else f"splat ({register} {literal})"

    def const(self, value, dtype: str) -> str:
        literal = float_literal(value, dtype) if dtype in FLOATS else integer_literal(value, dtype)
        return self.splat_literal(REGISTER[dtype], literal)

    def splat(self, register: str, scalar: str) -> str:
        """A scalar in all lanes."""
        if self.width == 1:
            return scalar
        kind = self.type_of(register)
        one = self.text.set(f"insertelement {kind} poison, {register} {scalar}, i64 0")
        zero = f"<{self.width} x i32> zeroinitializer"
        return self.text.set(f"shufflevector {kind} {one}, {kind} poison, {zero}")

    def shifted(self, dtype: str, x: str, by: int, first: float) -> str:
        """The lanes ``by`` places on; ``first`` in those that have none before them."""
        lanes = ", ".join(f"i32 {self.width + k - by if k >= by else 0}" for k in range(self.width))
        kind, empty = self.type(dtype), self.const(first, dtype)
        return self.text.set(f"shufflevector {kind} {empty}, {kind} {x}, <{self.width} x i32> <{lanes}>")  # fmt: skip

    def iota(self) -> str:
        """0, 1, 2, ... as i64."""
        return "<" + ", ".join(f"i64 {i}" for i in range(self.width)) + ">"

    # ---- instructions

    def binary(self, instruction: str, dtype: str, a: str, b: str) -> str:
        return self.text.set(f"{instruction} {self.type(dtype)} {a}, {b}")

    def convert(self, instruction: str, source: str, to: str, x: str) -> str:
        """A conversion between register types."""
        return self.text.set(f"{instruction} {self.type_of(source)} {x} to {self.type_of(to)}")

    def intrinsic(self, name: str, register: str, *args: str, extra: str = "") -> str:
        kind = self.type_of(register)
        suffix = SUFFIX[register] if self.width == 1 else f"v{self.width}{SUFFIX[register]}"
        full = f"@llvm.{name}.{suffix}"
        more = f", {extra.split()[0]}" if extra else ""
        self.text.declarations[full] = (
            f"declare {kind} {full}({', '.join([kind] * len(args))}{more})"
        )
        inside = ", ".join(f"{kind} {a}" for a in args) + (f", {extra}" if extra else "")
        return self.text.set(f"call {kind} {full}({inside})")

    def compare(self, predicate: str, dtype: str, a: str, b: str) -> str:
        word = "fcmp" if dtype in FLOATS else "icmp"
        return self.text.set(f"{word} {predicate} {self.type(dtype)} {a}, {b}")

    def select(self, condition: str, dtype: str, a: str, b: str) -> str:
        lanes, kind = self.type("bool"), self.type(dtype)
        return self.text.set(f"select {lanes} {condition}, {kind} {a}, {kind} {b}")

    def fma(self, dtype: str, a: str, b: str, c: str) -> str:
        """``a * b + c``; in two roundings where the machine has no fused form (llvm.fma would be a library call)."""
        if self.target.fma:
            return self.intrinsic("fma", REGISTER[dtype], a, b, c)
        return self.binary("fadd", dtype, self.binary("fmul", dtype, a, b), c)

    def parts(self, register: str, size: int, function: Callable[..., str], *xs: str) -> str:
        """``function`` over vectors of exactly ``size`` lanes: wider ones in pieces, narrower ones padded."""
        if self.width == size:
            return function(*xs)
        if self.width < size:
            return self._padded(register, size, function, *xs)
        kind, pieces = self.type_of(register), []
        for k in range(0, self.width, size):
            lanes = ", ".join(f"i32 {k + j}" for j in range(size))
            pieces.append(function(*(
                self.text.set(f"shufflevector {kind} {x}, {kind} poison, <{size} x i32> <{lanes}>")
                for x in xs)))  # fmt: skip
        return self._joined(register, size, pieces)

    def _joined(self, register: str, size: int, pieces: list[str]) -> str:
        while len(pieces) > 1:
            kind = f"<{size} x {register}>"
            lanes = ", ".join(f"i32 {j}" for j in range(2 * size))
            pieces = [
                self.text.set(f"shufflevector {kind} {a}, {kind} {b}, <{2 * size} x i32> <{lanes}>")
                for a, b in zip(pieces[::2], pieces[1::2], strict=True)
            ]
            size *= 2
        return pieces[0]

    def _padded(self, register: str, size: int, function: Callable[..., str], *xs: str) -> str:
        wide = f"<{size} x {register}>"
        if self.width == 1:
            full = [self.text.set(f"insertelement {wide} zeroinitializer, {register} {x}, i64 0") for x in xs]  # fmt: skip
            return self.text.set(f"extractelement {wide} {function(*full)}, i64 0")
        lanes = ", ".join(f"i32 {min(j, self.width)}" for j in range(size))
        kind = self.type_of(register)
        full = [self.text.set(f"shufflevector {kind} {x}, {kind} zeroinitializer, <{size} x i32> <{lanes}>") for x in xs]  # fmt: skip
        back = ", ".join(f"i32 {j}" for j in range(self.width))
        return self.text.set(f"shufflevector {wide} {function(*full)}, {wide} poison, <{self.width} x i32> <{back}>")  # fmt: skip

    def call(self, name: str, register: str, *args: str) -> str:
        """A C function over this many lanes."""
        self.text.imports[name] = None
        kind = self.type_of(register)
        self.text.declarations["@" + name] = (
            f"declare {kind} @{name}({', '.join([kind] * len(args))}) #1"
        )
        return self.text.set(f"call {kind} @{name}({', '.join(f'{kind} {a}' for a in args)}) #1")

    def fail(self, condition: str, code: int) -> None:
        """Set the error code where the condition holds in a lane that exists."""
        assert self.error is not None
        if self.width > 1:
            if self.mask is not None:
                condition = self.binary("and", "bool", condition, self.mask)
            name = f"@llvm.vector.reduce.or.v{self.width}i1"
            self.text.declarations[name] = f"declare i1 {name}({self.type('bool')})"
            condition = self.text.set(f"call i1 {name}({self.type('bool')} {condition})")
        old = self.text.set(f"load i32, ptr {self.error}")
        new = self.text.set(f"select i1 {condition}, i32 {code}, i32 {old}")
        self.text.line(f"store i32 {new}, ptr {self.error}")

    # ---- memory

    def load(self, dtype: str, pointer: str, lanes: str) -> str:
        """Elements at ``pointer``; ``lanes``: "one", "all" (contiguous), "back" (contiguous, the last lane first) or "each" (a vector of pointers)."""
        kind, align = MEMORY[dtype], ITEM_SIZES[dtype]
        if lanes == "one" or self.width == 1:
            raw = self.text.set(f"load {kind}, ptr {pointer}, align {align}")
            one = Emitter(self.text, self.target, 1, None, self.error)
            return self.splat(REGISTER[dtype], one.from_memory(dtype, raw))
        full, back = self.type_of(kind), lanes == "back"
        if lanes != "each" and self.mask is None:
            raw = self.text.set(f"load {full}, ptr {pointer}, align {align}")
        else:
            word, pointers = ("gather", self.type_of("ptr")) if lanes == "each" else ("load", "ptr")
            mask = self._reversed("i1", self.mask) if back and self.mask else self.mask
            raw = self._masked_load(word, pointers, kind, align, pointer, mask)
        return self.from_memory(dtype, self._reversed(kind, raw) if back else raw)

    def load_runs(self, dtype: str, first: str, second: str, count: str) -> str:
        """Contiguous elements: ``count`` lanes (i64, any number) of those at ``first``, the others of those at ``second``."""
        kind, align = MEMORY[dtype], ITEM_SIZES[dtype]
        # A processor takes hundreds of cycles to find that nothing is wanted of a page that is not there.
        ends = []
        for limit, comparison, other in (("0", "sle", second), (str(self.width), "sge", first)):
            beyond = self.text.set(f"icmp {comparison} i64 {count}, {limit}")
            ends.append((beyond, other))
            count = self.text.set(f"select i1 {beyond}, i64 {limit}, i64 {count}")
        first, second = (
            self.text.set(f"select i1 {beyond}, ptr {other}, ptr {own}")
            for own, (beyond, other) in zip((first, second), ends)
        )
        narrow = self.splat("i32", self.text.set(f"trunc i64 {count} to i32"))
        numbers = "<" + ", ".join(f"i32 {i}" for i in range(self.width)) + ">"
        own = self.text.set(f"icmp slt {self.type_of('i32')} {numbers}, {narrow}")
        other = self.binary("xor", "bool", own, self.splat_literal("i1", "true"))
        raw = "zeroinitializer"
        for pointer, mask in ((first, own), (second, other)):
            mask = mask if self.mask is None else self.binary("and", "bool", mask, self.mask)
            raw = self._masked_load("load", "ptr", kind, align, pointer, mask, raw)
        return self.from_memory(dtype, raw)

    def load_pairs(self, dtype: str, first: str, second: str) -> str:
        """Every other element from the one at ``first`` on; ``second``: where the last vector of those begins that these are among. Two loads, where a gather is one for each lane."""
        kind, align, n = MEMORY[dtype], ITEM_SIZES[dtype], self.width
        full = self.type_of(kind)
        a, b = (self.text.set(f"load {full}, ptr {p}, align {align}") for p in (first, second))
        lanes = [2 * i if 2 * i < n else n + 2 * i - (n - 1) for i in range(n)]
        return self.from_memory(dtype, self._taken(kind, a, b, lanes))

    def store_pairs(self, dtype: str, first: str, second: str, value: str) -> None:
        """To every other element from the one at ``first`` on; ``second``: where the lanes from the middle on begin. What is between stays."""
        kind, align, n = MEMORY[dtype], ITEM_SIZES[dtype], self.width
        raw, full, lane_kind = self.to_memory(dtype, value), self.type_of(kind), self.type("bool")
        name = f"@llvm.masked.store.v{n}{SUFFIX[kind]}.p0"
        self.text.declarations[name] = f"declare void {name}({full}, ptr, i32, {lane_kind})"
        mask = "<" + ", ".join(f"i1 {'true' if i % 2 == 0 else 'false'}" for i in range(n)) + ">"
        for start, pointer in ((0, first), (n // 2, second)):
            spread = self._taken(kind, raw, raw, [start + i // 2 for i in range(n)])
            self.text.line(f"call void {name}({full} {spread}, ptr {pointer}, i32 {align}, {lane_kind} {mask})")  # fmt: skip

    def _taken(self, register: str, a: str, b: str, lanes: Sequence[int]) -> str:
        """These lanes of two vectors, those of the second behind those of the first."""
        kind, mask = self.type_of(register), ", ".join(f"i32 {i}" for i in lanes)
        return self.text.set(f"shufflevector {kind} {a}, {kind} {b}, <{self.width} x i32> <{mask}>")

    def _reversed(self, register: str, x: str) -> str:
        kind = self.type_of(register)
        lanes = ", ".join(f"i32 {i}" for i in reversed(range(self.width)))
        return self.text.set(f"shufflevector {kind} {x}, {kind} poison, <{self.width} x i32> <{lanes}>")  # fmt: skip

    def _masked_load(
        self,
        word: str,
        pointers: str,
        kind: str,
        align: int,
        pointer: str,
        mask: str | None,
        rest: str = "zeroinitializer",
    ) -> str:
        """The lanes of ``mask``; the others are those of ``rest``."""
        full, lanes = self.type_of(kind), self.type("bool")
        mask = mask or self.splat_literal("i1", "true")
        suffix = "p0" if word == "load" else f"v{self.width}p0"
        name = f"@llvm.masked.{word}.v{self.width}{SUFFIX[kind]}.{suffix}"
        self.text.declarations[name] = f"declare {full} {name}({pointers}, i32, {lanes}, {full})"
        return self.text.set(
            f"call {full} {name}({pointers} {pointer}, i32 {align}, {lanes} {mask}, {full} {rest})"
        )

    def store(self, dtype: str, pointer: str, lanes: str, value: str) -> None:
        kind, align = MEMORY[dtype], ITEM_SIZES[dtype]
        raw, full = self.to_memory(dtype, value), self.type_of(kind)
        if self.width == 1 or (lanes == "all" and self.mask is None):
            self.text.line(f"store {full} {raw}, ptr {pointer}, align {align}")
            return
        word, pointers = ("store", "ptr") if lanes == "all" else ("scatter", self.type_of("ptr"))
        mask = self.mask or self.splat_literal("i1", "true")
        suffix = "p0" if word == "store" else f"v{self.width}p0"
        name = f"@llvm.masked.{word}.v{self.width}{SUFFIX[kind]}.{suffix}"
        lane_kind = self.type("bool")
        self.text.declarations[name] = f"declare void {name}({full}, {pointers}, i32, {lane_kind})"
        self.text.line(
            f"call void {name}({full} {raw}, {pointers} {pointer}, i32 {align}, {lane_kind} {mask})"
        )

    def from_memory(self, dtype: str, raw: str) -> str:
        if dtype == "bool":
            return self.text.set(f"icmp ne {self.type_of('i8')} {raw}, {self.splat_literal('i8', '0')}")  # fmt: skip
        if dtype == "f16":
            return self.convert("fpext", "half", "float", raw)
        if dtype == "bf16":
            bits = self.convert("zext", "i16", "i32", raw)
            bits = self.binary("shl", "i32", bits, self.const(16, "i32"))
            return self.convert("bitcast", "i32", "float", bits)
        return raw

    def to_memory(self, dtype: str, value: str) -> str:
        if dtype == "bool":
            return self.convert("zext", "i1", "i8", value)
        if dtype == "f16":
            return self.convert("fptrunc", "float", "half", value)
        if dtype == "bf16":
            bits = self.convert("bitcast", "float", "i32", value)
            return self.convert("trunc", "i32", "i16", self.binary("lshr", "i32", bits, self.const(16, "i32")))  # fmt: skip
        return value

    # ---- conversions

    def cast(self, source: str, to: str, x: str) -> str:
        """C's conversion between dtypes; to bool is ``!= 0``."""
        if source in FLOATS and to in FLOATS:
            return self._float_to_float(source, to, x)
        if source in FLOATS:
            wide = "i64" if to == "i64" else "i32"
            whole = self.convert("fptosi", REGISTER[source], wide, x)
            whole = self.text.set(f"freeze {self.type_of(wide)} {whole}")
            return self._resize(wide, to, whole)
        if to in FLOATS:
            word = "uitofp" if source in UNSIGNED else "sitofp"
            into = "f64" if to == "f64" else "f32"
            return self._float_to_float(into, to, self.convert(word, REGISTER[source], REGISTER[into], x))  # fmt: skip
        return self._resize(source, to, x)

    def _resize(self, source: str, to: str, x: str) -> str:
        a, b = REGISTER[source], REGISTER[to]
        if a == b:
            return x
        if int(a[1:]) > int(b[1:]):
            return self.convert("trunc", a, b, x)
        return self.convert("zext" if source in UNSIGNED else "sext", a, b, x)

    def _float_to_float(self, source: str, to: str, x: str) -> str:
        if source == to or (to == "f32" and source != "f64"):
            return x
        if to == "f64":
            return self.convert("fpext", "float", "double", x)
        if source == "f64":
            x = self.convert("fptrunc", "double", "float", x)
        if to == "f16":
            if not self.target.half:
                raise Unsupported("f16 on a machine that does not convert it")
            return self.convert("fpext", "half", "float", self.convert("fptrunc", "float", "half", x))  # fmt: skip
        return self._round_bf16(x) if to == "bf16" else x

    def _round_bf16(self, x: str) -> str:
        """To nearest even in integer arithmetic: the instruction for it would flush denormals."""
        bits = self.convert("bitcast", "float", "i32", x)
        odd = self.binary("and", "i32", self.binary("lshr", "i32", bits, self.const(16, "i32")), self.const(1, "i32"))  # fmt: skip
        up = self.binary("add", "i32", self.binary("add", "i32", bits, self.const(0x7FFF, "i32")), odd)  # fmt: skip
        kept = self.binary("and", "i32", up, self.const(0xFFFF0000, "i32"))
        nan = self.compare("uno", "f32", x, x)
        kept = self.select(nan, "i32", self.const(0x7FC00000, "i32"), kept)
        return self.convert("bitcast", "i32", "float", kept)

    # ---- folding lanes

    def halves(self, kind: str, x: str) -> tuple[str, str]:
        """The lower and the upper half of the lanes, as registers of an emitter of half the width."""
        half, full = self.width // 2, self.type_of(kind)
        out = []
        for k in (0, half):
            lanes = ", ".join(f"i32 {k + j}" for j in range(half))
            out.append(self.text.set(f"shufflevector {full} {x}, {full} poison, <{half} x i32> <{lanes}>"))  # fmt: skip
            if half == 1:
                out[-1] = self.text.set(f"extractelement <1 x {kind}> {out[-1]}, i64 0")
        return out[0], out[1]

    def narrower(self) -> Emitter:
        return Emitter(self.text, self.target, self.width // 2, None, self.error)
