"""The scalar form of every op of the loop IR: one LLVM value for one point.

The same text serves values in registers and the bodies of loops: it has no branches, so that LLVM's vectoriser
turns a loop of it into vector code. Library functions that occur in loops are polynomials for that reason; the others
call the C library. A failure (division by zero, an index out of range) does not branch either: it sets a flag that
``fail`` collects, and goes on with a harmless value.

Rounding: one operation, one rounding; nothing is contracted or reassociated here.
"""

from __future__ import annotations

from collections.abc import Callable

from ..kernels.jit import host
from ..kernels.loop_ir import Expr, Unsupported
from .code import BITS, FLOATS, REGISTER, UNSIGNED, Code, literal

Fail = Callable[[str], None]
Rule = Callable[[Code, str, list[str], Fail], str]
RULES: dict[str, Rule] = {}


def render(code: Code, e: Expr, args: list[str], fail: Fail) -> str:
    """The value of ``e`` for the values of its arguments. ``fail`` takes an ``i1`` that is true on failure."""
    if e.op == "cast":
        return cast(code, args[0], e.args[0].dtype, e.dtype)
    rule = RULES.get(e.op)
    if rule is None:
        raise Unsupported(f"no scalar code for {e.op}")
    dtype = e.args[1].dtype if e.op == "select" else e.args[0].dtype
    if dtype in ("f16", "bf16") and e.op not in ("select", "neg", "abs"):
        raise Unsupported(f"{e.op} in {dtype}")
    return rule(code, dtype, args, fail)


def supports(e: Expr) -> bool:
    """Whether ``render`` has code for a pointwise expression."""
    if e.op == "cast":
        return True
    half = any(x.dtype in ("f16", "bf16") for x in e.args)
    return e.op in RULES and not (half and e.op not in ("select", "neg", "abs"))


def cast(code: Code, x: str, source: str, target: str) -> str:
    """C's conversion between dtypes; to bool it is ``!= 0``."""
    if source == target:
        return x
    if target == "bool":
        return _compare(code, source, "ne", x, _zero(source))
    if "bf16" in (source, target):
        return _cast_bf16(code, x, source, target)
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
        bits = code.do(f"bitcast bfloat {x} to i16")
        wide = code.do(f"shl i32 {code.do(f'zext i16 {bits} to i32')}, 16")
        return cast(code, code.do(f"bitcast i32 {wide} to float"), "f32", target)
    x = cast(code, x, source, "f32")
    bits = code.do(f"bitcast float {x} to i32")
    odd = code.do(f"and i32 {code.do(f'lshr i32 {bits}, 16')}, 1")
    up = code.do(f"add i32 {code.do(f'add i32 {bits}, 32767')}, {odd}")
    quiet = code.do(f"or i32 {bits}, 4194304")
    nan = code.do(f"fcmp uno float {x}, {x}")
    kept = code.do(f"lshr i32 {code.do(f'select i1 {nan}, i32 {quiet}, i32 {up}')}, 16")
    return code.do(f"bitcast i16 {code.do(f'trunc i32 {kept} to i16')} to bfloat")


def _zero(dtype: str) -> str:
    return "0.0" if dtype in FLOATS else "false" if dtype == "bool" else "0"


def _compare(code: Code, dtype: str, name: str, a: str, b: str) -> str:
    if dtype in FLOATS:
        return code.do(f"fcmp {'une' if name == 'ne' else 'o' + name} {REGISTER[dtype]} {a}, {b}")
    sign = "" if name in ("eq", "ne") else "u" if dtype in UNSIGNED else "s"
    return code.do(f"icmp {sign}{name} {REGISTER[dtype]} {a}, {b}")


def rule(*names: str):
    """Register the code of ops."""

    def add(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return add


def _select(code: Code, dtype: str, c: str, a: str, b: str) -> str:
    kind = REGISTER[dtype]
    return code.do(f"select i1 {c}, {kind} {a}, {kind} {b}")


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
    RULES[_name] = lambda code, dtype, a, fail, n=_name: _compare(code, dtype, n, a[0], a[1])


@rule("neg")
def _neg(code, dtype, args, fail):
    if dtype in FLOATS:
        return code.do(f"fneg {REGISTER[dtype]} {args[0]}")
    return code.do(f"sub {REGISTER[dtype]} 0, {args[0]}")


@rule("abs")
def _abs(code, dtype, args, fail):
    if dtype in FLOATS:
        return code.intrinsic("fabs", dtype, args[0])
    if dtype in UNSIGNED:
        return args[0]
    return _select(code, dtype, _compare(code, dtype, "lt", args[0], "0"), _neg(code, dtype, args, fail), args[0])  # fmt: skip


@rule("not", "bitnot")
def _not(code, dtype, args, fail):
    return code.do(f"xor {REGISTER[dtype]} {args[0]}, {'true' if dtype == 'bool' else '-1'}")


@rule("isnan")
def _isnan(code, dtype, args, fail):
    return code.do(f"fcmp uno {REGISTER[dtype]} {args[0]}, {args[0]}")


@rule("select")
def _choose(code, dtype, args, fail):
    return _select(code, dtype, *args)


@rule("fma")
def _fma(code, dtype, args, fail):
    kind = REGISTER[dtype]
    if dtype not in FLOATS:
        return code.do(f"add {kind} {code.do(f'mul {kind} {args[0]}, {args[1]}')}, {args[2]}")
    if host().fma:
        return code.intrinsic("fma", dtype, *args)
    return code.do(f"fadd {kind} {code.do(f'fmul {kind} {args[0]}, {args[1]}')}, {args[2]}")


def _pick(name: str) -> Rule:
    def run(code: Code, dtype: str, args: list[str], fail: Fail) -> str:
        a, b = args
        word = "ge" if name == "max" else "le"  # of two zeros the first
        first = _compare(code, dtype, word, a, b)
        if dtype in FLOATS:
            first = code.do(f"or i1 {first}, {_isnan(code, dtype, [a], fail)}")
        return _select(code, dtype, first, a, b)

    return run


def _pick_number(name: str) -> Rule:
    """fmax and fmin: a NaN loses."""

    def run(code: Code, dtype: str, args: list[str], fail: Fail) -> str:
        a, b = args
        first = _compare(code, dtype, "gt" if name == "fmax" else "lt", a, b)
        if dtype in FLOATS:
            first = code.do(f"or i1 {first}, {_isnan(code, dtype, [b], fail)}")
        return _select(code, dtype, first, a, b)

    return run


RULES["max"], RULES["min"] = _pick("max"), _pick("min")
RULES["fmax"], RULES["fmin"] = _pick_number("fmax"), _pick_number("fmin")


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
    zero = _compare(code, dtype, "eq", b, "0")
    fail(zero)
    b = _select(code, dtype, zero, "1", b)
    if dtype in UNSIGNED:
        return b
    lowest = literal(1 << (BITS[dtype] - 1), dtype)
    over = code.do(f"and i1 {code.do(f'icmp eq {kind} {a}, {lowest}')}, {code.do(f'icmp eq {kind} {b}, -1')}")  # fmt: skip
    fail(over)
    return _select(code, dtype, over, "1", b)


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
    return code.do(f"add {kind} {rest}, {_select(code, dtype, _wrong_side(code, kind, rest, b), b, '0')}")  # fmt: skip


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
        by = _select(code, dtype, inside, args[1], str(width - 1))
        if name == "shr" and dtype != "u8":
            return code.do(f"ashr {kind} {args[0]}, {by}")
        if name == "shr":
            return _select(code, dtype, inside, code.do(f"lshr {kind} {args[0]}, {by}"), "0")
        return _select(code, dtype, inside, code.do(f"shl {kind} {args[0]}, {by}"), "0")

    return run


RULES["shl"], RULES["shr"] = _shifting("shl"), _shifting("shr")


@rule("sign")
def _sign(code, dtype, args, fail):
    above = code.do(f"zext i1 {_compare(code, dtype, 'gt', args[0], _zero(dtype))} to i32")
    below = code.do(f"zext i1 {_compare(code, dtype, 'lt', args[0], _zero(dtype))} to i32")
    return cast(code, code.do(f"sub i32 {above}, {below}"), "i32", dtype)


# ---- library functions


def _library(name: str) -> Rule:
    """A function of the C library, in the dtype of its argument."""
    return lambda code, dtype, args, fail: code.external(name + "f" * (dtype == "f32"), dtype, *args)  # fmt: skip


_LIBRARY = ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sinh", "cosh", "sin", "cos", "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc", "pow", "atan2", "hypot"]  # fmt: skip
for _name in _LIBRARY:
    RULES[_name] = _library(_name)


def calls_library(e: Expr) -> bool:
    """Whether an expression becomes a call of the C library, which LLVM cannot vectorise."""
    if e.op == "fmod":
        return e.dtype in FLOATS
    return e.op in _LIBRARY and not (e.op in ("exp", "tanh") and e.dtype == "f32")


class _Single:
    """f32 arithmetic with readable formulas."""

    def __init__(self, code: Code):
        self.code = code

    def const(self, x: float | str) -> str:
        return x if isinstance(x, str) else literal(x, "f32")

    def binary(self, word: str, a: float | str, b: float | str) -> str:
        return self.code.do(f"{word} float {self.const(a)}, {self.const(b)}")

    def add(self, a, b):
        return self.binary("fadd", a, b)

    def mul(self, a, b):
        return self.binary("fmul", a, b)

    def fma(self, a, b, c):
        return _fma(self.code, "f32", [self.const(a), self.const(b), self.const(c)], lambda _: None)

    def polynomial(self, x: str, coefficients: list[float]) -> str:
        """Horner's scheme, highest power first."""
        total: float | str = coefficients[0]
        for c in coefficients[1:]:
            total = self.fma(total, x, c)
        return self.const(total)

    def test(self, name: str, a, b) -> str:
        return self.code.do(f"fcmp {name} float {self.const(a)}, {self.const(b)}")

    def select(self, c, a, b) -> str:
        return _select(self.code, "f32", c, self.const(a), self.const(b))


_exp_library, _tanh_library, _erf_library = RULES["exp"], RULES["tanh"], RULES["erf"]


@rule("exp")
def _exp(code, dtype, args, fail):
    """``2**n * e**r`` with ``|r| <= log(2)/2``; the power of two in two factors, so that denormals round once."""
    if dtype != "f32":
        return _exp_library(code, dtype, args, fail)
    s, x = _Single(code), args[0]
    x = s.select(s.test("ogt", x, 88.8), 88.8, x)
    x = s.select(s.test("olt", x, -104.0), -104.0, x)
    n = code.intrinsic("rint", "f32", s.mul(x, 1.44269504088896341))
    r = s.fma(n, -0.693145751953125, x)
    r = s.fma(n, -1.42860682030941723212e-6, r)
    p = s.polynomial(r, [0.0013813161133883582, 0.00836941076224532, 0.041668455990543446, 0.1666651485918888, 0.49999993055373904])  # fmt: skip
    out = s.add(s.fma(s.mul(p, r), r, r), 1.0)
    k = code.do(f"freeze i32 {code.do(f'fptosi float {n} to i32')}")
    half = code.do(f"ashr i32 {k}, 1")
    for part in (half, code.do(f"sub i32 {k}, {half}")):
        bits = code.do(f"shl i32 {code.do(f'add i32 {part}, 127')}, 23")
        out = s.mul(out, code.do(f"bitcast i32 {bits} to float"))
    return out


@rule("tanh")
def _tanh(code, dtype, args, fail):
    """An odd polynomial near 0, else ``1 - 2 / (exp(2|x|) + 1)`` with the sign of x."""
    if dtype != "f32":
        return _tanh_library(code, dtype, args, fail)
    s, x = _Single(code), args[0]
    size, square = code.intrinsic("fabs", "f32", x), s.mul(x, x)
    p = s.polynomial(square, [-0.006096946638662365, 0.020997362067646214, -0.053850954825931135, 0.13332770098608743, -0.33333328948898544])  # fmt: skip
    small = s.fma(s.mul(x, square), p, x)
    e = _exp(code, "f32", [s.mul(2.0, size)], fail)
    large = s.binary("fsub", 1.0, s.binary("fdiv", 2.0, s.add(e, 1.0)))
    out = s.select(s.test("olt", size, 0.625), small, large)
    return code.intrinsic("copysign", "f32", out, x)
