"""Functions of the C library in scalar code; ``exp`` and ``tanh`` of f32 are polynomials, which LLVM turns into vector code."""

from __future__ import annotations

from ..kernels.loop_ir import Expr
from .code import FLOATS, Code, literal
from .scalar_parts import Fail, Rule, fma, select

_LIBRARY = ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sinh", "cosh", "sin", "cos", "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc", "pow", "atan2", "hypot"]  # fmt: skip


def _library(name: str) -> Rule:
    """A function of the C library, in the dtype of its argument."""
    return lambda code, dtype, args, fail: code.external(name + "f" * (dtype == "f32"), dtype, *args)  # fmt: skip


def calls_library(e: Expr) -> bool:
    """Whether an expression becomes a call of the C library, which LLVM cannot vectorise."""
    if e.op == "fmod":
        return e.dtype in FLOATS
    return e.op in RULES and not (e.op in ("exp", "tanh") and e.dtype == "f32")


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
        return fma(self.code, "f32", [self.const(a), self.const(b), self.const(c)])

    def polynomial(self, x: str, coefficients: list[float]) -> str:
        """Horner's scheme, highest power first."""
        total: float | str = coefficients[0]
        for c in coefficients[1:]:
            total = self.fma(total, x, c)
        return self.const(total)

    def test(self, name: str, a, b) -> str:
        return self.code.do(f"fcmp {name} float {self.const(a)}, {self.const(b)}")

    def select(self, c, a, b) -> str:
        return select(self.code, "f32", c, self.const(a), self.const(b))


def _exp(code: Code, dtype: str, args: list[str], fail: Fail) -> str:
    """``2**n * e**r`` with ``|r| <= log(2)/2``; the power of two in two factors, so that denormals round once.

    ``log(2)`` is taken away in two parts, the first one exact; the polynomial is ``(e**r - 1 - r) / r**2``.
    """
    if dtype != "f32":
        return _library("exp")(code, dtype, args, fail)
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


def _tanh(code: Code, dtype: str, args: list[str], fail: Fail) -> str:
    """An odd polynomial near 0, else ``1 - 2 / (exp(2|x|) + 1)`` with the sign of x."""
    if dtype != "f32":
        return _library("tanh")(code, dtype, args, fail)
    s, x = _Single(code), args[0]
    size, square = code.intrinsic("fabs", "f32", x), s.mul(x, x)
    p = s.polynomial(square, [-0.006096946638662365, 0.020997362067646214, -0.053850954825931135, 0.13332770098608743, -0.33333328948898544])  # fmt: skip
    small = s.fma(s.mul(x, square), p, x)
    e = _exp(code, "f32", [s.mul(2.0, size)], fail)
    large = s.binary("fsub", 1.0, s.binary("fdiv", 2.0, s.add(e, 1.0)))
    out = s.select(s.test("olt", size, 0.625), small, large)
    return code.intrinsic("copysign", "f32", out, x)


RULES: dict[str, Rule] = {**{name: _library(name) for name in _LIBRARY}, "exp": _exp, "tanh": _tanh}
