"""exp, log, tanh, erf, sin and their kind as LLVM IR.

f32 has polynomials of our own: minimax fits (Lawson's iteration on Chebyshev nodes against float64 references) after the
textbook reductions, each named in its function; with AVX-512 erf and tanh are looked up (``llvm_tables``). Errors measured over
millions of points are at most 2.5 ulp, most below 1.5 (tests/runtime/kernels/test_llvm_math.py holds the bounds). NaN,
infinities, -0.0 and denormal arguments and results are right. ``precise`` and f64, and functions without a polynomial here, call
SLEEF (https://sleef.org, 1 ulp), whose vector functions libtorch exports because torch uses them itself. An op that has neither
is ``Unsupported``.

The exponent is put in with AVX-512's scalef where there is one; else with two exact multiplications by powers of two,
which rounds denormal results once, as scalef does.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from . import llvm_tables
from .llvm_text import REGISTER
from .loop_ir import Unsupported
from .vectors import Emitter

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693145751953125, 1.42860682030941723212e-6  # high has 9 zero bits at its end


class Lanes:
    """An f32 register with operators; numbers beside it become constants."""

    __slots__ = ("e", "name")

    def __init__(self, e: Emitter, name: str):
        self.e, self.name = e, name

    def of(self, other) -> str:
        return other.name if isinstance(other, Lanes) else self.e.const(other, "f32")

    def _binary(self, word: str, a: str, b: str) -> Lanes:
        return Lanes(self.e, self.e.binary(word, "f32", a, b))

    def __add__(self, other) -> Lanes:
        return self._binary("fadd", self.name, self.of(other))

    def __sub__(self, other) -> Lanes:
        return self._binary("fsub", self.name, self.of(other))

    def __rsub__(self, other) -> Lanes:
        return self._binary("fsub", self.of(other), self.name)

    def __mul__(self, other) -> Lanes:
        return self._binary("fmul", self.name, self.of(other))

    def __truediv__(self, other) -> Lanes:
        return self._binary("fdiv", self.name, self.of(other))

    def __rtruediv__(self, other) -> Lanes:
        return self._binary("fdiv", self.of(other), self.name)

    def __neg__(self) -> Lanes:
        return Lanes(self.e, self.e.text.set(f"fneg {self.e.type('f32')} {self.name}"))

    def fma(self, factor, addend) -> Lanes:
        """``self * factor + addend``"""
        return Lanes(self.e, self.e.fma("f32", self.name, self.of(factor), self.of(addend)))

    def intrinsic(self, name: str, *others) -> Lanes:
        return Lanes(self.e, self.e.intrinsic(name, "float", self.name, *map(self.of, others)))

    def abs(self) -> Lanes:
        return self.intrinsic("fabs")

    def test(self, predicate: str, other) -> str:
        return self.e.compare(predicate, "f32", self.name, self.of(other))

    def where(self, condition: str, then) -> Lanes:
        """``then`` in the lanes of the condition, this elsewhere."""
        return Lanes(self.e, self.e.select(condition, "f32", self.of(then), self.name))

    def poly(self, *coefficients: float) -> Lanes:
        """The polynomial in this variable, highest power first."""
        first = self.fma(coefficients[0], coefficients[1])
        for c in coefficients[2:]:
            first = first.fma(self, c)
        return first

    def bits(self) -> str:
        return self.e.convert("bitcast", "float", "i32", self.name)


def _from_bits(e: Emitter, bits: str) -> Lanes:
    return Lanes(e, e.convert("bitcast", "i32", "float", bits))


# ---- scaling by a power of two


def _scale(x: Lanes, n: Lanes) -> Lanes:
    """``x * 2**n`` for a whole n between -250 and 250 in float; exact but for one rounding of denormal results."""
    e = x.e
    if e.target.avx512:
        return _scalef(x, n)
    whole = e.convert("fptosi", "float", "i32", n.name)
    whole = e.text.set(f"freeze {e.type('i32')} {whole}")  # NaN: any number will do
    half = e.binary("ashr", "i32", whole, e.const(1, "i32"))
    rest = e.binary("sub", "i32", whole, half)
    return x * _power_of_two(e, half) * _power_of_two(e, rest)


def _power_of_two(e: Emitter, n: str) -> Lanes:
    """``2.0**n`` for -126 <= n <= 127."""
    biased = e.binary("add", "i32", n, e.const(127, "i32"))
    return _from_bits(e, e.binary("shl", "i32", biased, e.const(23, "i32")))


def _scalef(x: Lanes, n: Lanes) -> Lanes:
    e = x.e
    if e.width == 1:
        name, kind, mask = "@llvm.x86.avx512.mask.scalef.ss", "<4 x float>", "i8 -1, i32 4"
        e.text.declarations[name] = f"declare {kind} {name}({kind}, {kind}, {kind}, i8, i32)"
        size = 4
    else:
        name, kind, mask = "@llvm.x86.avx512.mask.scalef.ps.512", "<16 x float>", "i16 -1, i32 4"
        e.text.declarations[name] = f"declare {kind} {name}({kind}, {kind}, {kind}, i16, i32)"
        size = 16

    def call(a: str, b: str) -> str:
        return e.text.set(f"call {kind} {name}({kind} {a}, {kind} {b}, {kind} zeroinitializer, {mask})")  # fmt: skip

    return Lanes(e, e.parts("float", size, call, x.name, n.name))


# ---- the functions


def _reduced_exp(x: Lanes) -> tuple[Lanes, Lanes]:
    """(n, r) with ``x = n * ln 2 + r`` and ``|r| <= ln 2 / 2`` (Cody and Waite)."""
    n = (x * LOG2_E).intrinsic("rint")
    return n, n.fma(-LN2_LOW, n.fma(-LN2_HIGH, x))


def _clamped(x: Lanes, low: float, high: float) -> Lanes:
    """x between two bounds; NaN stays."""
    x = x.where(x.test("ogt", high), high)
    return x.where(x.test("olt", low), low)


def exp(x: Lanes) -> Lanes:
    """exp(x) = 2**n * exp(r). At the bounds the result is infinite, or 0."""
    return _exp(_clamped(x, -105.0, 89.5), _scale)


def _exp(x: Lanes, scale: Callable[[Lanes, Lanes], Lanes]) -> Lanes:
    n, r = _reduced_exp(x)
    p = r.poly(0.0013814602280035615, 0.008368715643882751, 0.04166838899254799,
               0.1666652113199234, 0.4999999403953552)  # fmt: skip
    return scale((p * r).fma(r, r) + 1.0, n)


def _exp_inside(x: Lanes) -> Lanes:
    """exp of an x between -80 and 80, or NaN: neither infinite nor denormal, which takes a third less instructions."""
    return _exp(x, _scale_inside)


def _scale_inside(x: Lanes, n: Lanes) -> Lanes:
    whole = x.e.convert("fptosi", "float", "i32", n.name)
    return x * _power_of_two(x.e, x.e.text.set(f"freeze {x.e.type('i32')} {whole}"))  # of a NaN


def exp2(x: Lanes) -> Lanes:
    """2**x = 2**n * 2**r."""
    x = _clamped(x, -200.0, 200.0)
    n = x.intrinsic("rint")
    r = x - n
    p = r.poly(1.5196156709862407e-05, 0.00015466756303794682, 0.0013333935057744384,
               0.009618038311600685, 0.055504102259874344, 0.24022650718688965, 0.6931471824645996)  # fmt: skip
    return _scale(p.fma(r, 1.0), n)


def expm1(x: Lanes) -> Lanes:
    """exp(x) - 1 = 2**n * expm1(r) + (2**n - 1); exp itself where that would overflow."""
    n, r = _reduced_exp(_clamped(x, -30.0, 89.5))
    p = r.poly(0.00019845877250190824, 0.0013940625358372927, 0.008333389647305012,
               0.041666362434625626, 0.1666666567325592, 0.5)  # fmt: skip
    small = (p * r).fma(r, r)
    half = _scale(Lanes(x.e, x.e.const(0.5, "f32")), n)  # 2**(n - 1): finite up to n = 128
    near = (small * half + (half - 0.5)) * 2.0
    out = near.where(n.test("oeq", 0.0), small)
    out = out.where(x.test("ogt", 88.8), math.inf)
    out = out.where(x.test("olt", -18.0), -1.0)
    return out.where(x.test("oeq", 0.0), x)


def _log_parts(x: Lanes) -> tuple[Lanes, Lanes]:
    """(e, f) with ``x = 2**e * (1 + f)`` and 1 + f between sqrt(1/2) and sqrt(2)."""
    e = x.e
    tiny = x.test("olt", 1.1754943508222875e-38)
    scaled = x.where(tiny, x * 8388608.0)
    bias = Lanes(e, e.const(0.0, "f32")).where(tiny, 23.0)
    shifted = e.binary("sub", "i32", scaled.bits(), e.const(0x3F3504F3, "i32"))  # bits of sqrt(1/2)
    exponent = e.binary("ashr", "i32", shifted, e.const(23, "i32"))
    mantissa = e.binary("sub", "i32", scaled.bits(), e.binary("shl", "i32", exponent, e.const(23, "i32")))  # fmt: skip
    power = Lanes(e, e.convert("sitofp", "i32", "float", exponent)) - bias
    return power, _from_bits(e, mantissa) - 1.0


def _log1p_reduced(f: Lanes) -> tuple[Lanes, Lanes]:
    """log(1 + f) as (f, rest) for the f of ``_log_parts``."""
    p = f.poly(0.06746640056371689, -0.11675651371479034, 0.11888162046670914, -0.1240558922290802,
               0.14219552278518677, -0.1666799634695053, 0.2000211924314499, -0.25000008940696716,
               0.3333331346511841)  # fmt: skip
    square = f * f
    return f, (p * f).fma(square, square * -0.5)


def _log_limits(x: Lanes, out: Lanes) -> Lanes:
    out = out.where(x.test("oeq", math.inf), math.inf)
    out = out.where(x.test("oeq", 0.0), -math.inf)
    return out.where(x.test("ult", 0.0), math.nan)  # unordered too: NaN stays NaN


def log(x: Lanes) -> Lanes:
    """log(x) = e * ln 2 + log(1 + f)."""
    power, f = _log_parts(x)
    f, rest = _log1p_reduced(f)
    low = power.fma(LN2_LOW, rest)
    return _log_limits(x, power.fma(LN2_HIGH, low + f))


def _log_base(factor: float) -> Callable[[Lanes], Lanes]:
    """log to another base: the product in two parts, so that its error stays near half an ulp."""
    high = math.ldexp(math.floor(math.ldexp(factor, 12)), -12)  # few bits: high * e is exact
    low = factor - high

    def function(x: Lanes) -> Lanes:
        power, f = _log_parts(x)
        f, rest = _log1p_reduced(f)
        # f has 24 bits: split it so that its product with the high part is exact too
        f_high = _from_bits(x.e, x.e.binary("and", "i32", f.bits(), x.e.const(-4096, "i32")))
        f_low = (f - f_high) + rest
        small = f_high.fma(low, f_low * factor)
        exponent = 1.0 if factor == LOG2_E else math.log10(2)
        e_high = math.ldexp(math.floor(math.ldexp(exponent, 12)), -12)
        total = power.fma(exponent - e_high, small)
        middle = f_high.fma(high, total)
        return _log_limits(x, power.fma(e_high, middle))

    return function


def log1p(x: Lanes) -> Lanes:
    """log(u) for u = 1 + x, with what the addition lost put back: + (x - (u - 1)) / u."""
    u = x + 1.0
    power, f = _log_parts(u)
    lost = (x - (u - 1.0)) / u
    lost = lost.where(u.abs().test("oeq", math.inf), 0.0)
    lost = lost.where(u.test("oeq", 0.0), 0.0)
    f, rest = _log1p_reduced(f)
    low = power.fma(LN2_LOW, rest) + lost
    out = _log_limits(u, power.fma(LN2_HIGH, low + f))
    return out.where(x.abs().test("olt", 5e-8), x)


def tanh(x: Lanes) -> Lanes:
    """With AVX-512 by table; else an odd polynomial near 0, elsewhere 1 - 2 / (exp(2|x|) + 1)."""
    if x.e.target.avx512:
        return Lanes(x.e, llvm_tables.tanh(x.e, x.name))
    a, t = x.abs(), x * x
    p = t.poly(0.002142961835488677, -0.008177397772669792, 0.021700702607631683,
               -0.05394676327705383, 0.1333320587873459, -0.3333333134651184)  # fmt: skip
    small = (x * t).fma(p, x)
    large = 1.0 - 2.0 / (_exp_inside(a.where(a.test("ogt", 10.0), 10.0) * 2.0) + 1.0)
    return large.where(a.test("olt", 0.625), small).intrinsic("copysign", x)


def erf(x: Lanes) -> Lanes:
    """With AVX-512 by table; else x + x * P(x**2) below 0.9; above, 1 - exp(-Q(|x|))."""
    if x.e.target.avx512:
        return Lanes(x.e, llvm_tables.erf(x.e, x.name))
    a, t = x.abs(), x * x
    p = t.poly(-1.0497067705728114e-05, 0.00011510038893902674, -0.000851222372148186,
               0.00522263627499342, -0.026865897700190544, 0.11283788830041885,
               -0.37612637877464294, 0.12837916612625122)  # fmt: skip
    small = x.fma(p, x)
    b = a.where(a.test("ogt", 3.95), 3.95)
    q = b.poly(-1.2132571782585817e-06, 1.951064587046858e-05, -0.00011492770136101171,
               0.00010546864359639585, 0.002825409173965454, -0.022934213280677795,
               0.10596618801355362, 0.6348887085914612, 1.1289278268814087, -7.725173054495826e-05)  # fmt: skip
    large = 1.0 - _exp_inside(-q)
    return large.intrinsic("copysign", x).where(a.test("olt", 0.9), small)


OWN: dict[str, Callable[[Lanes], Lanes]] = {
    "exp": exp, "exp2": exp2, "expm1": expm1, "log": log, "log2": _log_base(LOG2_E),
    "log10": _log_base(1 / math.log(10)), "log1p": log1p, "tanh": tanh, "erf": erf,
}  # fmt: skip

# SLEEF's names: the function's, and its error bound in tenths of an ulp.
SLEEF = {"exp": "exp u10", "exp2": "exp2 u10", "expm1": "expm1 u10", "log": "log u10", "log2": "log2 u10",
         "log10": "log10 u10", "log1p": "log1p u10", "tanh": "tanh u10", "sinh": "sinh u10", "cosh": "cosh u10",
         "sin": "sin u10", "cos": "cos u10", "tan": "tan u10", "asin": "asin u10", "acos": "acos u10",
         "atan": "atan u10", "asinh": "asinh u10", "acosh": "acosh u10", "atanh": "atanh u10", "erf": "erf u10",
         "erfc": "erfc u15", "lgamma": "lgamma u10", "pow": "pow u10", "atan2": "atan2 u10",
         "hypot": "hypot u05"}  # fmt: skip


def emit(e: Emitter, op: str, dtype: str, args: list[str]) -> str:
    """One library function of the loop IR."""
    if dtype == "f32" and op in OWN and not e.target.precise:
        return OWN[op](Lanes(e, args[0])).name
    stem, bound = SLEEF[op].split()
    return _called(e, op, stem, f"_{bound}", dtype, args)


def fmod(e: Emitter, dtype: str, args: list[str]) -> str:
    """What a division leaves, exact; a ``frem`` would be a call of the C library for each lane.

    SLEEF's function gives NaN where the quotient is beyond the type, so f32 goes by f64.
    """
    if dtype == "f64":
        return _called(e, "fmod", "fmod", "", dtype, args)
    wide = _called(e, "fmod", "fmod", "", "f64", [e.cast("f32", "f64", x) for x in args])
    return e.cast("f64", "f32", wide)


def _called(e: Emitter, op: str, stem: str, bound: str, dtype: str, args: list[str]) -> str:
    size = e.target.vector_bytes // (4 if dtype == "f32" else 8)
    name = f"Sleef_{stem}{'f' if dtype == 'f32' else 'd'}{size}{bound}"
    if not e.target.has(name):
        raise Unsupported(f"{op} of {dtype}: no {name} in this process")
    register = REGISTER[dtype]
    piece = Emitter(e.text, e.target, size, None, None)
    return e.parts(register, size, lambda *xs: piece.call(name, register, *xs), *args)
