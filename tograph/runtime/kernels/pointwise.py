"""The pointwise expression of each ATen op: one row per op.

A row is (``domain``, formula). The formula takes terms of the loop IR, with the op's other arguments as they stand in the
graph, and gives the term of the result. The domain says to which dtype the tensor and number arguments are cast first:

``promote``  the op's result dtype, as torch promotes; f16 and bf16 compute in f32 and round once at the end
``compare``  the dtype that torch promotes the arguments to; the result is bool
``exact``    as ``promote``, but not for f16 and bf16, where torch rounds each step of the op
``logic``    each argument becomes bool
``select``   a condition and two values; ``masked_fill``: a value, a condition, a value

An op without a row has no kernel expression, and is not fused. Formulas follow the definitions that torch documents; where
they could be written in more than one way they round in the order in which torch's CPU kernels do, so that arithmetic,
comparisons and selections give the same bits as eager PyTorch, and library functions differ by their own error only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .exprs import Term
from .loop_ir import Unsupported


@dataclass(frozen=True)
class Row:
    """``numbers``: how many leading arguments are tensors or numbers; the rest are parameters of the formula."""

    domain: str
    formula: Callable[..., Term]
    numbers: int


FACTORS = ("alpha", "value")  # keywords that may be numbers which only the run knows
ROWS: dict[str, Row] = {}


def rows(domain: str, numbers: int, table: dict[str, Callable[..., Any]]) -> None:
    for names, formula in table.items():
        for name in names.split():
            key = name if "." in name else f"{name}.default"
            ROWS[f"aten.{key}"] = Row(domain, formula, numbers)


def _direct(name: str) -> Callable[..., Term]:
    return lambda *xs: xs[0].op(name, *xs[1:])


SQRT_HALF, SQRT_2_OVER_PI, GELU_CUBE = math.sqrt(0.5), math.sqrt(2 / math.pi), 0.044715


def sigmoid(x: Term) -> Term:
    return 1 / (1 + (-x).exp())


def _gelu(x: Term, approximate: str = "none") -> Term:
    if approximate == "tanh":
        inner = SQRT_2_OVER_PI * (x + GELU_CUBE * (x * x * x))
        return 0.5 * x * (1 + inner.tanh())
    return x * 0.5 * (1 + (x * SQRT_HALF).erf())


def _gelu_backward(grad: Term, x: Term, approximate: str = "none") -> Term:
    if approximate == "tanh":
        inner = SQRT_2_OVER_PI * (x + GELU_CUBE * (x * x * x))
        t = inner.tanh()
        slope = SQRT_2_OVER_PI * (1 + 3 * GELU_CUBE * (x * x))
        return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)
    cdf = 0.5 * (1 + (x * SQRT_HALF).erf())
    pdf = (x * x * -0.5).exp() * (0.5 * SQRT_HALF * (2 / math.sqrt(math.pi)))
    return grad * (cdf + x * pdf)


def _silu_backward(grad: Term, x: Term) -> Term:
    s = sigmoid(x)
    return grad * s * x.fma(1 - s, 1)


def softplus(x: Term, beta=1, threshold=20) -> Term:
    scaled = x * beta
    return (scaled > threshold).where(x, scaled.exp().log1p() / beta)


def _softplus_backward(grad: Term, x: Term, beta=1, threshold=20) -> Term:
    z = (x * beta).exp()
    return (x * beta > threshold).where(grad, grad * z / (z + 1))


def elu(x: Term, alpha=1, scale=1, input_scale=1) -> Term:
    return (x < 0).where((x * input_scale).expm1() * (alpha * scale), x * scale)


def _clamp(x: Term, low: Any = None, high: Any = None) -> Term:
    out = x if low is None else x.max(low)
    return out if high is None else out.min(high)


def _hardtanh(x: Term, low=-1, high=1) -> Term:
    return x.max(low).min(high)


def _leaky_relu(x: Term, slope=0.01) -> Term:
    return (x > 0).where(x, x * slope)


def _leaky_relu_backward(grad: Term, x: Term, slope, is_result) -> Term:
    return (x > 0).where(grad, grad * slope)


def _threshold(x: Term, threshold, value) -> Term:
    return (x <= threshold).where(value, x)


def _threshold_backward(grad: Term, x: Term, threshold) -> Term:
    return (x <= threshold).where(0, grad)


def _hardtanh_backward(grad: Term, x: Term, low, high) -> Term:
    return ((x > low) & (x < high)).where(grad, 0)


def _add(x: Term, y: Term, alpha=1) -> Term:
    return x + y if _is_one(alpha) else _axpy(y, alpha, x)


def _is_one(factor: Any) -> bool:
    """Whether a factor, a number or a term, is the number 1."""
    return not isinstance(factor, Term) and factor == 1


def _sub(x: Term, y: Term, alpha=1) -> Term:
    return x - y if _is_one(alpha) else _axpy(y, -alpha, x)


def _axpy(y: Term, alpha: Any, x: Term) -> Term:
    return y.fma(alpha, x) if y.floating else x + y * alpha


def _rsub(x: Term, y: Term, alpha=1) -> Term:
    return _sub(y, x, alpha)


def _remainder(x: Term, y: Term) -> Term:
    """Python's ``%``: the sign of the divisor."""
    if not x.floating:
        return x.op("mod", y)
    m = x.fmod(y)
    return ((m != 0) & ((y < 0) ^ (m < 0))).where(m + y, m)


def _floor_divide(x: Term, y: Term) -> Term:
    """Python's ``//``; for floats as CPython's float_floor_div defines it, x / 0 aside."""
    if not x.floating:
        return x.op("floordiv", y)
    m = x.fmod(y)
    beyond = ((x / y).abs() == math.inf) & (x.abs() != math.inf)
    quotient = beyond.where(x, x - m) / y
    quotient = ((m != 0) & ((y < 0) ^ (m < 0))).where(quotient - 1, quotient)
    floor = quotient.floor()
    floor = (quotient - floor > 0.5).where(floor + 1, floor)
    whole = (quotient != 0).where(floor, (x / y * 0).copysign(x / y))
    return (y == 0).where(x / y, whole)


def _divide_mode(x: Term, y: Term, rounding_mode: str | None = None) -> Term:
    if rounding_mode == "floor":
        return _floor_divide(x, y)
    if rounding_mode == "trunc":
        return (x / y).trunc() if x.floating else x.op("truncdiv", y)
    return x / y


def _pow_number(x: Term, exponent: Any) -> Term:
    if isinstance(exponent, bool) or not isinstance(exponent, (int, float)):
        raise Unsupported("an exponent that is known only at run time")
    if x.floating:
        return _pow_float(x, exponent)
    if exponent != int(exponent) or exponent < 0:
        raise Unsupported("a negative power of an integer")
    return _pow_integer(x, int(exponent))


def _pow_float(x: Term, exponent: float) -> Term:
    """The exponents that torch computes without the power function, in its way; else the power function."""
    special: dict[float, Callable[[], Term]] = {
        1: lambda: x,
        2: lambda: x * x,
        3: lambda: x * x * x,
        -2: lambda: 1 / (x * x),
        0.5: x.sqrt,
        -0.5: lambda: 1 / x.sqrt(),
        -1: lambda: 1 / x,
    }
    return special[exponent]() if exponent in special else x.pow(exponent)


def _pow_integer(x: Term, exponent: int) -> Term:
    out, square = None, x
    while exponent:
        if exponent & 1:
            out = square if out is None else out * square
        square, exponent = square * square, exponent >> 1
    return x * 0 + 1 if out is None else out


def _pow_tensor(x: Term, y: Term) -> Term:
    if not x.floating:
        raise Unsupported("an integer power by a tensor")
    return x.pow(y)


def _sign(x: Term) -> Term:
    """-1, 0 or 1; 0 for NaN, as torch's."""
    if x.dtype == "bool":
        return x
    return (
        (x > 0).where(1, x * 0).op("add", (x < 0).where(-1, x * 0))
        if not x.floating
        else _float_sign(x)
    )


def _float_sign(x: Term) -> Term:
    zero = x.maker.const(0, x.dtype)
    return (x > 0).where(1, (x < 0).where(-1, zero))


def _lerp(x: Term, end: Term, weight: Term) -> Term:
    """torch's two forms, each exact at its own end."""
    near = weight.abs() < 0.5
    return near.where(weight, weight - 1).fma(end - x, near.where(x, end))


def _nan_to_num(x: Term, nan=None, posinf=None, neginf=None) -> Term:
    if not x.floating:
        return x
    low, high = LIMITS[x.dtype]
    out = x.isnan().where(nan or 0.0, x)
    out = (x == math.inf).where(high if posinf is None else posinf, out)
    return (x == -math.inf).where(low if neginf is None else neginf, out)


LIMITS = {"f32": (-3.4028234663852886e38, 3.4028234663852886e38),
          "f64": (-1.7976931348623157e308, 1.7976931348623157e308)}  # fmt: skip


def _isnan(x: Term) -> Term:
    return x.isnan() if x.floating else x.maker.const(False, "bool")


def _isinf(x: Term) -> Term:
    return x.abs() == math.inf if x.floating else x.maker.const(False, "bool")


def _isposinf(x: Term) -> Term:
    return x == math.inf if x.floating else x.maker.const(False, "bool")


def _isneginf(x: Term) -> Term:
    return x == -math.inf if x.floating else x.maker.const(False, "bool")


def _isfinite(x: Term) -> Term:
    return x.abs() < math.inf if x.floating else x.maker.const(True, "bool")


def _xlogy(x: Term, y: Term) -> Term:
    product = (x == 0).where(0, x * y.log())
    return y.isnan().where(y, product)


def _logaddexp(x: Term, y: Term) -> Term:
    """Two infinities of one sign are that infinity."""
    found = x.max(y) + (-(x - y).abs()).exp().log1p()
    return ((x.abs() == math.inf) & (x == y)).where(x, found)


def _softshrink(x: Term, limit=0.5) -> Term:
    inside = (x >= -limit) & (x <= limit)
    return inside.where(x * 0, (x > 0).where(x - limit, x + limit))  # a zero of its sign


def _hardshrink(x: Term, limit=0.5) -> Term:
    return ((x >= -limit) & (x <= limit)).where(0, x)


def _abs(x: Term) -> Term:
    return x if x.dtype in ("bool", "u8") else x.abs()


def _whole(name: str) -> Callable[[Term], Term]:
    return lambda x: x.op(name) if x.floating else x


def _identity(x: Term, *args: Any, **kwargs: Any) -> Term:
    return x


rows("promote", 1, {
    **{n: _direct(n) for n in ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sinh", "cosh", "sin", "cos", "tan", "asin", "acos", "atan", "atanh", "erf", "erfc", "sqrt", "lgamma"]},
    **{n: _whole(n) for n in ("floor", "ceil", "trunc", "round")},
    "neg": lambda x: -x,
    "abs": _abs,
    "sign sgn": _sign,
    "frac": lambda x: x - x.trunc(),
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / x.sqrt(),
    "sigmoid": sigmoid,
    "silu": lambda x: x / (1 + (-x).exp()),
    "relu": lambda x: ((x >= 0) | x.isnan()).where(x, 0) if x.floating else x.max(0),  # -0.0 stays
    "relu6": lambda x: x.max(0).min(6),
    "gelu": _gelu,
    "softplus": softplus,
    "mish": lambda x: x * softplus(x).tanh(),
    "elu": elu,
    "leaky_relu": _leaky_relu,
    "threshold": _threshold,
    "hardtanh": _hardtanh,
    "hardswish": lambda x: x * (x + 3).max(0).min(6) / 6,
    "hardsigmoid": lambda x: (x + 3).max(0).min(6) / 6,
    "softshrink": _softshrink,
    "hardshrink": _hardshrink,
    "bitwise_not": lambda x: ~x,
    "clamp": _clamp,
    "pow.Tensor_Scalar": _pow_number,
    "positive clone alias detach lift_fresh lift_fresh_copy _to_copy contiguous": _identity,
})  # fmt: skip
rows("promote", 2, {
    "add.Tensor add.Scalar": _add,
    "sub.Tensor sub.Scalar": _sub,
    "rsub.Tensor rsub.Scalar": _rsub,
    "mul.Tensor mul.Scalar": lambda x, y: x * y,
    "div.Tensor div.Scalar": lambda x, y: x / y,
    "remainder.Tensor remainder.Scalar": _remainder,
    "fmod.Tensor fmod.Scalar": _direct("fmod"),
    "maximum": lambda x, y: x.max(y),
    "minimum": lambda x, y: x.min(y),
    "fmax": _direct("fmax"),
    "fmin": _direct("fmin"),
    "clamp_min.default clamp_min.Tensor": lambda x, y: x.max(y),
    "clamp_max.default clamp_max.Tensor": lambda x, y: x.min(y),
    "atan2": _direct("atan2"),
    "logaddexp": _logaddexp,
    "hypot": _direct("hypot"),
    "copysign.Tensor copysign.Scalar": _direct("copysign"),
    "pow.Tensor_Tensor": _pow_tensor,
    "bitwise_and.Tensor bitwise_and.Scalar __and__.Tensor": lambda x, y: x & y,
    "bitwise_or.Tensor bitwise_or.Scalar __or__.Tensor": lambda x, y: x | y,
    "bitwise_xor.Tensor bitwise_xor.Scalar __xor__.Tensor": lambda x, y: x ^ y,
    "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar __lshift__.Scalar __lshift__.Tensor": _direct("shl"),
    "bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar __rshift__.Scalar __rshift__.Tensor": _direct("shr"),
    "sigmoid_backward": lambda g, y: g * (1 - y) * y,
    "tanh_backward": lambda g, y: g * (-y).fma(y, 1),
    "threshold_backward": _threshold_backward,
    "gelu_backward": _gelu_backward,
    "silu_backward": _silu_backward,
    "hardtanh_backward": _hardtanh_backward,
    "leaky_relu_backward": _leaky_relu_backward,
    "softplus_backward": _softplus_backward,
})  # fmt: skip
rows("exact", 1, {"nan_to_num": _nan_to_num})
rows("exact", 2, {
    "xlogy.Tensor": _xlogy,
    "div.Tensor_mode div.Scalar_mode": _divide_mode,
    "floor_divide.default floor_divide.Scalar": _floor_divide,
})  # fmt: skip
rows("promote", 3, {
    "lerp.Tensor lerp.Scalar": _lerp,
    "addcmul": lambda x, a, b, value=1: (a if _is_one(value) else value * a).fma(b, x),
    "addcdiv": lambda x, a, b, value=1: x + a / b if _is_one(value) else x + value * a / b,
    "clamp.Tensor": _clamp,
})  # fmt: skip
rows("compare", 2, {
    "eq.Tensor eq.Scalar": lambda x, y: x == y,
    "ne.Tensor ne.Scalar": lambda x, y: x != y,
    "lt.Tensor lt.Scalar": lambda x, y: x < y,
    "le.Tensor le.Scalar": lambda x, y: x <= y,
    "gt.Tensor gt.Scalar": lambda x, y: x > y,
    "ge.Tensor ge.Scalar": lambda x, y: x >= y,
})  # fmt: skip
rows("compare", 1, {"isnan": _isnan, "isinf": _isinf, "isfinite": _isfinite, "isposinf": _isposinf, "isneginf": _isneginf})  # fmt: skip
rows("logic", 1, {"logical_not": lambda x: ~x})
rows("logic", 2, {
    "logical_and": lambda x, y: x & y,
    "logical_or": lambda x, y: x | y,
    "logical_xor": lambda x, y: x ^ y,
})  # fmt: skip
rows("select", 3, {"where.self": lambda c, x, y: c.where(x, y),
                   "where.ScalarOther where.ScalarSelf where.Scalar": lambda c, x, y: c.where(x, y)})  # fmt: skip
rows("masked_fill", 3, {"masked_fill.Scalar masked_fill.Tensor": lambda x, c, y: c.where(y, x)})
