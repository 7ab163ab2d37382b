"""The instructions of the loop IR's ops that are a few of them: ``OPS``; functions of many are in ``llvm_math``.

Integer division never traps: a divisor of zero sets the error code, and -1 is handled apart, because the smallest integer
divided by -1 is a trap too.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from . import llvm_math
from .llvm_text import REGISTER, UNSIGNED
from .loop_ir import DIVISION_BY_ZERO, FLOATS, INDEX_OUT_OF_RANGE, ITEM_SIZES, Unsupported
from .vectors import Emitter


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
        if b == e.const(math.nan, dtype):
            return b if propagate else a
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


def _constant_divisor(b: str) -> bool:
    """Whether a divisor is a literal other than 0 and -1, which needs no check."""
    literal = b.removeprefix("splat (").removesuffix(")").split()[-1]
    return literal.lstrip("-").isdigit() and int(literal) not in (0, -1)


def _division(what: str) -> Callable[..., str]:
    def emit(e: Emitter, dtype: str, a: str, b: str) -> str:
        divide, remain = ("udiv", "urem") if dtype in UNSIGNED else ("sdiv", "srem")
        if _constant_divisor(b):
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
        try:
            return llvm_math.fmod(e, dtype, [a, b])
        except Unsupported:
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
