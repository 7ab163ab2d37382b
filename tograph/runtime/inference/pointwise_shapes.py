"""What ops on each element give."""

from __future__ import annotations

import torch

from .shapes import Meta, floating, like, pointwise, result_type, rule


@rule("add sub mul maximum minimum fmax fmin bitwise_and bitwise_or bitwise_xor remainder fmod floor_divide "
      "clamp_min clamp_max hypot nextafter __lshift__ __rshift__ __and__ __or__ __xor__ gcd lcm "
      "bitwise_left_shift bitwise_right_shift heaviside")  # fmt: skip
def binary(a, b, *rest, alpha=None):
    if not isinstance(a, Meta) and not isinstance(b, Meta):
        return None
    return pointwise((a, b), result_type(a, b))


@rule("pow")
def _pow(a, b):
    if not isinstance(a, Meta):  # ``pow.Scalar`` makes a contiguous output
        return like(b, result_type(a, b)) if isinstance(b, Meta) else None
    return pointwise((a, b), result_type(a, b))


@rule("rsub")
def _rsub(a, b, alpha=1):
    return pointwise((b, a), result_type(b, a))


@rule("div true_divide atan2 xlogy copysign")
def _divide(a, b, *, rounding_mode=None):
    if not isinstance(a, Meta) and not isinstance(b, Meta):
        return None  # of two numbers: torch has tensors of them
    dtype = result_type(a, b)
    return pointwise((a, b), dtype if rounding_mode else floating(dtype))


@rule("lt le gt ge eq ne logical_and logical_or logical_xor")
def _compare(a, b):
    return pointwise((a, b), torch.bool)


@rule("isnan isinf isfinite logical_not signbit isposinf isneginf")
def _test(x):
    return pointwise((x,), torch.bool)


@rule("sin cos tan exp exp2 expm1 log log2 log10 log1p tanh sinh cosh sigmoid sqrt rsqrt erf erfc erfinv asin acos "
      "atan asinh acosh atanh reciprocal digamma lgamma special_entr i0 sinc logit deg2rad rad2deg")  # fmt: skip
def _float_unary(x, eps=None):
    return pointwise((x,), floating(x.dtype))


@rule("relu sign sgn floor ceil round trunc frac silu gelu hardtanh leaky_relu elu softplus bitwise_not square "
      "positive mish hardswish hardsigmoid relu6 threshold celu selu nan_to_num hardshrink "
      "softshrink zero")  # fmt: skip
def unary(x, *args, **kwargs):
    if x.dtype.is_complex:
        return None
    return pointwise((x,), x.dtype)


@rule("abs")
def _abs(x):
    return pointwise((x,), x.dtype.to_real())


@rule("neg")
def _neg(x):
    return pointwise((x,), x.dtype)


@rule("clamp")
def _clamp(x, low=None, high=None):
    given = [v for v in (x, low, high) if v is not None]
    return pointwise([v for v in given if isinstance(v, Meta)], result_type(*given))


@rule("where")
def _where(c, a=None, b=None):
    if a is None or not isinstance(a, Meta) or not isinstance(b, Meta):
        return None
    return pointwise((c, a, b), result_type(a, b))


@rule("addcmul addcdiv lerp")
def _ternary(x, a, b, value=1):
    return pointwise((x, a, b), result_type(x, a, b))


@rule("sigmoid_backward tanh_backward gelu_backward silu_backward hardtanh_backward elu_backward softplus_backward")  # fmt: skip
def _pointwise_backward(g, x, *args, **kwargs):
    return pointwise((g, x), result_type(g, x))


@rule("threshold_backward leaky_relu_backward")
def _threshold_backward(g, x, *args, **kwargs):
    """These take the order of dims from what was given, not from the gradient."""
    return pointwise((x, g), result_type(x, g))
