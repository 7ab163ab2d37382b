"""LLVM IR text, one instruction at a time, over scalars or vectors of ``width`` lanes.

A register holds a value of a loop IR dtype: ``bool`` as i1, integers as they are, ``f16`` and ``bf16`` as float that is
exactly representable, so that a cast to f32 is free and a cast from f32 rounds. In memory they have torch's layout.

``Text``     the function that is being written: lines, fresh names, declarations.
``Emitter``  instructions at one width under one lane mask; ``OPS`` has the instruction sequence of each loop IR op.

Integer division never traps: a divisor of zero sets the error code, and -1 is handled apart, because the smallest integer
divided by -1 is a trap too. Nothing here uses fast-math flags; what may be contracted is written as ``fma``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .loop_ir import DIVISION_BY_ZERO, FLOATS, INDEX_OUT_OF_RANGE, ITEM_SIZES, Unsupported

REGISTER = {"bool": "i1", "u8": "i8", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64",
            "f16": "float", "bf16": "float", "f32": "float", "f64": "double"}  # fmt: skip
MEMORY = {**REGISTER, "bool": "i8", "f16": "half", "bf16": "i16"}
UNSIGNED = ("bool", "u8")
SUFFIX = {"i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64",
          "float": "f32", "double": "f64", "half": "f16"}  # fmt: skip


class Text:
    """One function's text. ``imports`` are C functions that it calls, with their declarations."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.declarations: dict[str, str] = {}
        self.imports: dict[str, None] = {}
        self.block = "entry"
        self._count = 0

    def fresh(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def label(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def set(self, text: str) -> str:
        """``%fresh = text``."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def alloca(self, kind: str, align: int = 64) -> str:
        """A stack slot, made in the entry block so that it becomes a register."""
        name = self.fresh()
        self.entry.append(f"  {name} = alloca {kind}, align {align}")
        return name

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    @contextmanager
    def loop(self, start: str, stop: str, step: int) -> Iterator[str]:
        """A counted loop; gives the register of its variable."""
        head, body, latch, done = (self.label(s) for s in ("head", "body", "latch", "done"))
        before, i, following = self.block, self.fresh(), self.fresh()
        self.line(f"br label %{head}")
        self.start(head)
        self.line(f"{i} = phi i64 [ {start}, %{before} ], [ {following}, %{latch} ]")
        more = self.set(f"icmp slt i64 {i}, {stop}")
        self.line(f"br i1 {more}, label %{body}, label %{done}")
        self.start(body)
        yield i
        self.line(f"br label %{latch}")
        self.start(latch)
        self.line(f"{following} = add nsw i64 {i}, {step}")
        self.line(f"br label %{head}, !llvm.loop !0")
        self.start(done)


def float_literal(value: float, dtype: str) -> str:
    """A floating point constant as LLVM's hexadecimal double, rounded to ``dtype``."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded(value, dtype)))[0]:016X}"


def rounded(value: float, dtype: str) -> float:
    """``value`` as ``dtype`` holds it; what is too large becomes infinite."""
    if dtype == "f64" or value != value:
        return value
    code = {"f32": "<f", "f16": "<e", "bf16": "<f"}[dtype]
    try:
        value = struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    if dtype == "bf16" and abs(value) != float("inf"):
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
        value = struct.unpack("<f", struct.pack("<I", bits))[0]
    return value


def integer_literal(value: int, dtype: str) -> str:
    if dtype == "bool":
        return "true" if value else "false"
    bits = 8 * ITEM_SIZES[dtype]
    value &= (1 << bits) - 1
    return str(value - (1 << bits) if value >> bits - 1 else value)


class Emitter:
    """Instructions at one width. ``mask`` is the register of the lanes that exist, or None for all."""

    def __init__(self, text: Text, target, width: int, mask: str | None, error: str | None):
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
        """Elements at ``pointer``; ``lanes``: "one", "all" (contiguous) or "each" (a vector of pointers)."""
        kind, align = MEMORY[dtype], ITEM_SIZES[dtype]
        if lanes == "one" or self.width == 1:
            raw = self.text.set(f"load {kind}, ptr {pointer}, align {align}")
            one = Emitter(self.text, self.target, 1, None, self.error)
            return self.splat(REGISTER[dtype], one.from_memory(dtype, raw))
        full = self.type_of(kind)
        if lanes == "all" and self.mask is None:
            raw = self.text.set(f"load {full}, ptr {pointer}, align {align}")
        else:
            word, pointers = ("load", "ptr") if lanes == "all" else ("gather", self.type_of("ptr"))
            raw = self._masked_load(word, pointers, kind, align, pointer)
        return self.from_memory(dtype, raw)

    def _masked_load(self, word: str, pointers: str, kind: str, align: int, pointer: str) -> str:
        full, lanes = self.type_of(kind), self.type("bool")
        mask = self.mask or self.splat_literal("i1", "true")
        suffix = "p0" if word == "load" else f"v{self.width}p0"
        name = f"@llvm.masked.{word}.v{self.width}{SUFFIX[kind]}.{suffix}"
        self.text.declarations[name] = f"declare {full} {name}({pointers}, i32, {lanes}, {full})"
        return self.text.set(
            f"call {full} {name}({pointers} {pointer}, i32 {align}, {lanes} {mask}, {full} zeroinitializer)"
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


# ---- the ops of the loop IR that are a few instructions


def _float_or(floating: str, integer: str, boolean: str = "") -> Callable[..., str]:
    def emit(e: Emitter, dtype: str, a: str, b: str) -> str:
        word = floating if dtype in FLOATS else boolean if boolean and dtype == "bool" else integer
        return e.binary(word, dtype, a, b)

    return emit


def _comparison(ordered: str, word: str) -> Callable[..., str]:
    def emit(e: Emitter, dtype: str, a: str, b: str) -> str:
        if dtype in FLOATS:
            return e.compare(ordered, dtype, a, b)
        sign = "" if word in ("eq", "ne") else "u" if dtype in UNSIGNED else "s"
        return e.compare(sign + word, dtype, a, b)

    return emit


def _extreme(word: str, propagate: bool) -> Callable[..., str]:
    """The larger or smaller; of two equal ones the first. NaN wins when it propagates, else it loses."""

    def emit(e: Emitter, dtype: str, a: str, b: str) -> str:
        if dtype == "bool":
            return e.binary("or" if word == "gt" else "and", dtype, a, b)
        if dtype not in FLOATS:
            sign = "u" if dtype in UNSIGNED else "s"
            return e.select(e.compare(sign + word, dtype, b, a), dtype, b, a)
        if propagate and b == e.const(0, dtype):
            # Between f16 and f32 LLVM takes the strict comparison apart and loses the sign of a zero; this one it leaves alone.
            return e.select(e.compare("uge" if word == "gt" else "ule", dtype, a, b), dtype, a, b)
        best = e.select(e.compare("o" + word, dtype, b, a), dtype, b, a)
        if propagate:
            return best if b.startswith(("splat", "0x")) else e.select(e.compare("uno", dtype, b, b), dtype, b, best)  # fmt: skip
        return e.select(e.compare("uno", dtype, a, a), dtype, b, best)

    return emit


def _safe_divisor(e: Emitter, dtype: str, b: str) -> tuple[str, str]:
    """(a divisor that does not trap, the lanes where it was -1)."""
    zero = e.compare("eq", dtype, b, e.const(0, dtype))
    e.fail(zero, DIVISION_BY_ZERO)
    minus = e.compare("eq", dtype, b, e.const(-1, dtype)) if dtype not in UNSIGNED else e.const(0, "bool")  # fmt: skip
    unsafe = e.binary("or", "bool", zero, minus)
    return e.select(unsafe, dtype, e.const(1, dtype), b), minus


def _constant_divisor(b: str, e: Emitter) -> bool:
    """Whether a divisor is a literal other than 0 and -1, which needs no check."""
    literal = b.removeprefix("splat (").removesuffix(")").split()[-1]
    return literal.lstrip("-").isdigit() and int(literal) not in (0, -1)


def _division(what: str) -> Callable[..., str]:
    def emit(e: Emitter, dtype: str, a: str, b: str) -> str:
        divide, remain = ("udiv", "urem") if dtype in UNSIGNED else ("sdiv", "srem")
        if _constant_divisor(b, e):
            return _quotient(e, dtype, a, b, what, divide, remain)
        safe, minus = _safe_divisor(e, dtype, b)
        plain = _quotient(e, dtype, a, safe, what, divide, remain)
        if what in ("mod", "fmod"):
            return e.select(minus, dtype, e.const(0, dtype), plain)
        return e.select(minus, dtype, e.binary("sub", dtype, e.const(0, dtype), a), plain)

    return emit


def _quotient(e: Emitter, dtype: str, a: str, b: str, what: str, divide: str, remain: str) -> str:
    if what == "truncdiv" or (dtype in UNSIGNED and what == "floordiv"):
        return e.binary(divide, dtype, a, b)
    if what == "fmod" or dtype in UNSIGNED:
        return e.binary(remain, dtype, a, b)
    rest = e.binary(remain, dtype, a, b)
    signs = e.compare("slt", dtype, e.binary("xor", dtype, rest, b), e.const(0, dtype))
    differ = e.binary("and", "bool", e.compare("ne", dtype, rest, e.const(0, dtype)), signs)
    if what == "mod":
        return e.select(differ, dtype, e.binary("add", dtype, rest, b), rest)
    quotient = e.binary(divide, dtype, a, b)
    return e.select(differ, dtype, e.binary("sub", dtype, quotient, e.const(1, dtype)), quotient)


def _fmod(e: Emitter, dtype: str, a: str, b: str) -> str:
    if dtype in FLOATS:
        return e.binary("frem", dtype, a, b)
    return _division("fmod")(e, dtype, a, b)


def _shift_left(e: Emitter, dtype: str, a: str, b: str) -> str:
    bits = 8 * ITEM_SIZES[dtype]
    inside = e.compare("ult", dtype, b, e.const(bits, dtype))
    amount = e.select(inside, dtype, b, e.const(0, dtype))
    return e.select(inside, dtype, e.binary("shl", dtype, a, amount), e.const(0, dtype))


def _shift_right(e: Emitter, dtype: str, a: str, b: str) -> str:
    bits = 8 * ITEM_SIZES[dtype]
    inside = e.compare("ult", dtype, b, e.const(bits, dtype))
    amount = e.select(inside, dtype, b, e.const(bits - 1, dtype))
    if dtype in UNSIGNED:
        shifted = e.binary("lshr", dtype, a, amount)
        return e.select(inside, dtype, shifted, e.const(0, dtype))
    return e.binary("ashr", dtype, a, amount)


def _unary(floating: str, integer: str = "") -> Callable[..., str]:
    def emit(e: Emitter, dtype: str, x: str) -> str:
        if dtype in FLOATS:
            return e.intrinsic(floating, REGISTER[dtype], x)
        return e.intrinsic(integer, REGISTER[dtype], x, extra="i1 false") if integer else x

    return emit


def _negate(e: Emitter, dtype: str, x: str) -> str:
    if dtype in FLOATS:
        return e.text.set(f"fneg {e.type(dtype)} {x}")
    return e.binary("sub", dtype, e.const(0, dtype), x)


def _multiply_add(e: Emitter, dtype: str, a: str, b: str, c: str) -> str:
    if dtype in FLOATS:
        return e.fma(dtype, a, b, c)
    return e.binary("add", dtype, e.binary("mul", dtype, a, b), c)


def _check_index(e: Emitter, dtype: str, index: str, size: str) -> str:
    """A valid index, negative ones counted from the end; 0 with the error code set where there is none."""
    negative = e.compare("slt", dtype, index, e.const(0, dtype))
    index = e.select(negative, dtype, e.binary("add", dtype, index, size), index)
    bad = e.compare("uge", dtype, index, size)
    e.fail(bad, INDEX_OUT_OF_RANGE)
    return e.select(bad, dtype, e.const(0, dtype), index)


OPS: dict[str, Callable[..., str]] = {
    "add": _float_or("fadd", "add", "or"), "sub": _float_or("fsub", "sub", "xor"),
    "mul": _float_or("fmul", "mul", "and"), "div": _float_or("fdiv", "sdiv"),
    "and": _float_or("and", "and"), "or": _float_or("or", "or"), "xor": _float_or("xor", "xor"),
    "eq": _comparison("oeq", "eq"), "ne": _comparison("une", "ne"), "lt": _comparison("olt", "lt"),
    "le": _comparison("ole", "le"), "gt": _comparison("ogt", "gt"), "ge": _comparison("oge", "ge"),
    "max": _extreme("gt", True), "min": _extreme("lt", True),
    "fmax": _extreme("gt", False), "fmin": _extreme("lt", False),
    "floordiv": _division("floordiv"), "mod": _division("mod"), "truncdiv": _division("truncdiv"),
    "fmod": _fmod, "shl": _shift_left, "shr": _shift_right,
    "neg": _negate, "abs": _unary("fabs", "abs"), "floor": _unary("floor"), "ceil": _unary("ceil"),
    "trunc": _unary("trunc"), "round": _unary("rint"), "sqrt": _unary("sqrt"),
    "copysign": lambda e, dtype, a, b: e.intrinsic("copysign", REGISTER[dtype], a, b),
    "isnan": lambda e, dtype, x: e.compare("uno", dtype, x, x),
    "not": lambda e, dtype, x: e.binary("xor", dtype, x, e.const(1, "bool")),
    "bitnot": lambda e, dtype, x: e.binary("xor", dtype, x, e.const(-1, dtype)),
    "fma": _multiply_add, "check_index": _check_index,
}  # fmt: skip
