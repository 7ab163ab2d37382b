"""The scalar form of every op of the loop IR: one LLVM value for one point.

The same text serves values in registers and the bodies of loops: it has no branches, so that LLVM's vectoriser
turns a loop of it into vector code. Library functions that occur in loops are polynomials for that reason; the others
call the C library. A failure (division by zero, an index out of range) does not branch either: it sets a flag that
``fail`` collects, and goes on with a harmless value.

Rounding: one operation, one rounding; nothing is contracted or reassociated here.
"""

from __future__ import annotations

from ..kernels.loop_ir import Expr, Unsupported
from . import scalar_math
from .code import BITS, FLOATS, REGISTER, UNSIGNED, Code, literal
from .scalar_parts import Fail, Rule, cast, compare, fma, isnan, select, zero

_HALF, _EXACT = ("f16", "bf16"), ("select", "neg", "abs")  # what has code in half precision
RULES: dict[str, Rule] = dict(scalar_math.RULES)


def render(code: Code, e: Expr, args: list[str], fail: Fail) -> str:
    """The value of ``e`` for the values of its arguments. ``fail`` takes an ``i1`` that is true on failure."""
    if e.op == "cast":
        return cast(code, args[0], e.args[0].dtype, e.dtype)
    rule = RULES.get(e.op)
    if rule is None:
        raise Unsupported(f"no scalar code for {e.op}")
    dtype = e.args[1].dtype if e.op == "select" else e.args[0].dtype
    if dtype in _HALF and e.op not in _EXACT:
        raise Unsupported(f"{e.op} in {dtype}")
    return rule(code, dtype, args, fail)


def supports(e: Expr) -> bool:
    """Whether ``render`` has code for a pointwise expression."""
    if e.op == "cast":
        return True
    return e.op in RULES and (e.op in _EXACT or all(x.dtype not in _HALF for x in e.args))


def rule(*names: str):
    """Register the code of ops."""

    def add(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return add


def _simple(floating: str | None, integer: str | None, boolean: str | None = None) -> Rule:
    def run(code: Code, dtype: str, args: list[str], fail: Fail) -> str:
        word = floating if dtype in FLOATS else (boolean or integer) if dtype == "bool" else integer
        if word is None:
            raise Unsupported(f"this op in {dtype}")
        return code.do(f"{word} {REGISTER[dtype]} {', '.join(args)}")

    return run


RULES["add"] = _simple("fadd", "add", "or")
RULES["sub"] = _simple("fsub", "sub")
RULES["mul"] = _simple("fmul", "mul", "and")
RULES["div"] = _simple("fdiv", None)
RULES["and"] = _simple(None, "and")
RULES["or"] = _simple(None, "or")
RULES["xor"] = _simple(None, "xor")
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    RULES[_name] = lambda code, dtype, a, fail, n=_name: compare(code, dtype, n, a[0], a[1])


@rule("neg")
def _neg(code, dtype, args, fail):
    if dtype == "bf16":
        return code.do(f"xor i16 {args[0]}, -32768")
    if dtype in FLOATS:
        return code.do(f"fneg {REGISTER[dtype]} {args[0]}")
    return code.do(f"sub {REGISTER[dtype]} 0, {args[0]}")


@rule("abs")
def _abs(code, dtype, args, fail):
    if dtype == "bf16":
        return code.do(f"and i16 {args[0]}, 32767")
    if dtype in FLOATS:
        return code.intrinsic("fabs", dtype, args[0])
    if dtype in UNSIGNED:
        return args[0]
    return select(code, dtype, compare(code, dtype, "lt", args[0], "0"), _neg(code, dtype, args, fail), args[0])  # fmt: skip


@rule("isnan")
def _isnan(code, dtype, args, fail):
    return isnan(code, dtype, args[0])


@rule("fma")
def _fma(code, dtype, args, fail):
    return fma(code, dtype, args)


@rule("not", "bitnot")
def _not(code, dtype, args, fail):
    return code.do(f"xor {REGISTER[dtype]} {args[0]}, {'true' if dtype == 'bool' else '-1'}")


@rule("select")
def _choose(code, dtype, args, fail):
    return select(code, dtype, *args)


def _pick(word: str, nan_wins: bool) -> Rule:
    """The first of two numbers where the comparison holds, or a NaN decides."""

    def run(code: Code, dtype: str, args: list[str], fail: Fail) -> str:
        a, b = args
        first = compare(code, dtype, word, a, b)
        if dtype in FLOATS:
            first = code.do(f"or i1 {first}, {isnan(code, dtype, a if nan_wins else b)}")
        return select(code, dtype, first, a, b)

    return run


RULES["max"], RULES["min"] = _pick("ge", True), _pick("le", True)  # of two zeros the first
RULES["fmax"], RULES["fmin"] = _pick("gt", False), _pick("lt", False)


def _rounding(intrinsic: str) -> Rule:
    return lambda code, dtype, args, fail: code.intrinsic(intrinsic, dtype, args[0])


for _name, _full in {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "roundeven", "sqrt": "sqrt"}.items():  # fmt: skip
    RULES[_name] = _rounding(_full)


@rule("copysign")
def _copysign(code, dtype, args, fail):
    return code.intrinsic("copysign", dtype, *args)


# ---- integers


def _power_of_two(b: str) -> int:
    """The exponent when ``b`` is a literal power of two, else -1."""
    n = int(b) if b.isdigit() else 0
    return n.bit_length() - 1 if n > 0 and n & (n - 1) == 0 else -1


def _safe_divisor(code: Code, dtype: str, args: list[str], fail: Fail) -> str:
    """The divisor with what the machine would trap on reported and replaced: zero, and -1 where it overflows."""
    a, b = args
    if b.lstrip("-").isdigit() and b not in ("0", "-1"):
        return b
    kind = REGISTER[dtype]
    zero = compare(code, dtype, "eq", b, "0")
    fail(zero)
    b = select(code, dtype, zero, "1", b)
    if dtype in UNSIGNED:
        return b
    lowest = literal(1 << (BITS[dtype] - 1), dtype)
    over = code.do(f"and i1 {code.do(f'icmp eq {kind} {a}, {lowest}')}, {code.do(f'icmp eq {kind} {b}, -1')}")  # fmt: skip
    fail(over)
    return select(code, dtype, over, "1", b)


@rule("floordiv")
def _floordiv(code, dtype, args, fail):
    kind = REGISTER[dtype]
    if dtype in FLOATS:
        raise Unsupported("floordiv of floats")
    shift = _power_of_two(args[1])
    if shift >= 0:
        return code.do(f"{'lshr' if dtype in UNSIGNED else 'ashr'} {kind} {args[0]}, {shift}")
    b = _safe_divisor(code, dtype, args, fail)
    if dtype in UNSIGNED:
        return code.do(f"udiv {kind} {args[0]}, {b}")
    quotient = code.do(f"sdiv {kind} {args[0]}, {b}")
    rest = code.do(f"sub {kind} {args[0]}, {code.do(f'mul {kind} {quotient}, {b}')}")
    return code.do(f"add {kind} {quotient}, {code.do(f'sext i1 {_wrong_side(code, kind, rest, b)} to {kind}')}")  # fmt: skip


def _wrong_side(code: Code, kind: str, rest: str, b: str) -> str:
    """Whether a remainder is not zero and has not the sign of the divisor."""
    signs = code.do(f"icmp slt {kind} {code.do(f'xor {kind} {rest}, {b}')}, 0")
    return code.do(f"and i1 {code.do(f'icmp ne {kind} {rest}, 0')}, {signs}")


@rule("mod")
def _mod(code, dtype, args, fail):
    kind = REGISTER[dtype]
    if dtype in FLOATS:
        raise Unsupported("mod of floats")
    shift = _power_of_two(args[1])
    if shift >= 0:
        return code.do(f"and {kind} {args[0]}, {(1 << shift) - 1}")
    b = _safe_divisor(code, dtype, args, fail)
    if dtype in UNSIGNED:
        return code.do(f"urem {kind} {args[0]}, {b}")
    rest = code.do(f"srem {kind} {args[0]}, {b}")
    return code.do(f"add {kind} {rest}, {select(code, dtype, _wrong_side(code, kind, rest, b), b, '0')}")  # fmt: skip


@rule("truncdiv")
def _truncdiv(code, dtype, args, fail):
    b = _safe_divisor(code, dtype, args, fail)
    return code.do(f"{'udiv' if dtype in UNSIGNED else 'sdiv'} {REGISTER[dtype]} {args[0]}, {b}")


@rule("fmod")
def _fmod(code, dtype, args, fail):
    if dtype in FLOATS:
        return code.external("fmodf" if dtype == "f32" else "fmod", dtype, *args)
    b = _safe_divisor(code, dtype, args, fail)
    return code.do(f"{'urem' if dtype in UNSIGNED else 'srem'} {REGISTER[dtype]} {args[0]}, {b}")


def _shifting(name: str) -> Rule:
    def run(code: Code, dtype: str, args: list[str], fail: Fail) -> str:
        """A shift by the width or more gives what is left when all bits are gone."""
        kind, width = REGISTER[dtype], BITS[dtype]
        if dtype == "bool":
            raise Unsupported("a shift of bools")
        inside = code.do(f"icmp ult {kind} {args[1]}, {width}")
        by = select(code, dtype, inside, args[1], str(width - 1))
        if name == "shr" and dtype != "u8":
            return code.do(f"ashr {kind} {args[0]}, {by}")
        if name == "shr":
            return select(code, dtype, inside, code.do(f"lshr {kind} {args[0]}, {by}"), "0")
        return select(code, dtype, inside, code.do(f"shl {kind} {args[0]}, {by}"), "0")

    return run


RULES["shl"], RULES["shr"] = _shifting("shl"), _shifting("shr")


@rule("sign")
def _sign(code, dtype, args, fail):
    above = code.do(f"zext i1 {compare(code, dtype, 'gt', args[0], zero(dtype))} to i32")
    below = code.do(f"zext i1 {compare(code, dtype, 'lt', args[0], zero(dtype))} to i32")
    return cast(code, code.do(f"sub i32 {above}, {below}"), "i32", dtype)
