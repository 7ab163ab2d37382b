"""What the code of scalar ops is made of: conversions, comparisons, selections, and a product with a sum."""

from __future__ import annotations

from collections.abc import Callable

from ..kernels.jit import host
from .code import BITS, FLOATS, REGISTER, UNSIGNED, Code

Fail = Callable[[str], None]
Rule = Callable[[Code, str, list[str], Fail], str]


def cast(code: Code, x: str, source: str, target: str) -> str:
    """C's conversion between dtypes; to bool it is ``!= 0``."""
    if source == target:
        return x
    if target == "bool":
        return compare(code, source, "ne", x, zero(source))
    if "bf16" in (source, target):
        return _cast_bf16(code, x, source, target)
    if (source, target) == ("f64", "f16"):  # by way of f32 as torch rounds, and as processors can
        source, x = "f32", cast(code, x, source, "f32")
    if source in FLOATS and target in FLOATS:
        order = ("f16", "f32", "f64")
        word = "fpext" if order.index(source) < order.index(target) else "fptrunc"
        return code.do(f"{word} {REGISTER[source]} {x} to {REGISTER[target]}")
    if target in FLOATS:
        word = "uitofp" if source in UNSIGNED else "sitofp"
        return code.do(f"{word} {REGISTER[source]} {x} to {REGISTER[target]}")
    if source in FLOATS:
        return _float_to_int(code, x, source, target)
    if BITS[source] == BITS[target]:
        return x
    word = "trunc" if BITS[source] > BITS[target] else "zext" if source in UNSIGNED else "sext"
    return code.do(f"{word} {REGISTER[source]} {x} to {REGISTER[target]}")


def _float_to_int(code: Code, x: str, source: str, target: str) -> str:
    """Out of range the machine's own answer, as torch's; narrow integers are the low bits of a wide one."""
    wide = "i64" if target == "i64" else "i32"
    got = code.do(f"freeze {wide} " + code.do(f"fptosi {REGISTER[source]} {x} to {wide}"))
    return got if wide == REGISTER[target] else code.do(f"trunc {wide} {got} to {REGISTER[target]}")


def _cast_bf16(code: Code, x: str, source: str, target: str) -> str:
    """bf16 is the upper half of f32: rounded to nearest even, by integers, on every CPU."""
    if source == "bf16":
        wide = code.do(f"shl i32 {code.do(f'zext i16 {x} to i32')}, 16")
        return cast(code, code.do(f"bitcast i32 {wide} to float"), "f32", target)
    x = cast(code, x, source, "f32")
    bits = code.do(f"bitcast float {x} to i32")
    odd = code.do(f"and i32 {code.do(f'lshr i32 {bits}, 16')}, 1")
    up = code.do(f"add i32 {code.do(f'add i32 {bits}, 32767')}, {odd}")
    quiet = code.do(f"or i32 {bits}, 4194304")
    nan = code.do(f"fcmp uno float {x}, {x}")
    kept = code.do(f"lshr i32 {code.do(f'select i1 {nan}, i32 {quiet}, i32 {up}')}, 16")
    return code.do(f"trunc i32 {kept} to i16")


def zero(dtype: str) -> str:
    """The literal 0."""
    return "0.0" if dtype in FLOATS and dtype != "bf16" else "false" if dtype == "bool" else "0"


def compare(code: Code, dtype: str, name: str, a: str, b: str) -> str:
    """A comparison by its Python name; with a NaN only ``ne`` holds."""
    if dtype == "bf16":
        dtype, a, b = "f32", *(cast(code, x, "bf16", "f32") for x in (a, b))
    if dtype in FLOATS:
        return code.do(f"fcmp {'une' if name == 'ne' else 'o' + name} {REGISTER[dtype]} {a}, {b}")
    sign = "" if name in ("eq", "ne") else "u" if dtype in UNSIGNED else "s"
    return code.do(f"icmp {sign}{name} {REGISTER[dtype]} {a}, {b}")


def select(code: Code, dtype: str, c: str, a: str, b: str) -> str:
    """``a`` where ``c`` holds, else ``b``."""
    kind = REGISTER[dtype]
    return code.do(f"select i1 {c}, {kind} {a}, {kind} {b}")


def isnan(code: Code, dtype: str, x: str) -> str:
    if dtype == "bf16":
        dtype, x = "f32", cast(code, x, "bf16", "f32")
    return code.do(f"fcmp uno {REGISTER[dtype]} {x}, {x}")


def fma(code: Code, dtype: str, args: list[str]) -> str:
    """``a * b + c``: rounded once where the machine can."""
    kind = REGISTER[dtype]
    if dtype not in FLOATS:
        return code.do(f"add {kind} {code.do(f'mul {kind} {args[0]}, {args[1]}')}, {args[2]}")
    if host().fma:
        return code.intrinsic("fma", dtype, *args)
    return code.do(f"fadd {kind} {code.do(f'fmul {kind} {args[0]}, {args[1]}')}, {args[2]}")
