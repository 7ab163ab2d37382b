"""Activations of which a gradient is more than one op, and those gradients: rows of ``pointwise.ROWS`` and of ``gathers.GATHERS``.

The formulas are those of ATen's kernels on a CPU, with their comparisons: which side a bound belongs to decides a gradient there.
"""

from __future__ import annotations

import math

from ..graph.ir import Node
from .elements import Elements, accumulator
from .exprs import Term
from .gathers import row
from .pointwise import elu, rows, sigmoid, softplus
from .views import Index, broadcast

_SIXTH = 0.1666666716337204  # 1 / 6 in f32, for all dtypes


def _celu(x: Term, alpha: float = 1.0) -> Term:
    return elu(x, alpha, 1.0, 1.0 / alpha)


def _mish_backward(grad: Term, x: Term) -> Term:
    t = softplus(x).tanh()
    return grad * (t + x * sigmoid(x) * (1 - t * t))


def _hardswish_backward(grad: Term, x: Term) -> Term:
    return (x <= -3).where(0, (x >= 3).where(grad, grad * (x / 3 + 0.5)))


def _hardsigmoid_backward(grad: Term, x: Term) -> Term:
    return ((x > -3) & (x < 3)).where(grad * _SIXTH, 0)


def _shrink_backward(grad: Term, x: Term, limit: float = 0.5) -> Term:
    return ((x >= -limit) & (x <= limit)).where(0, grad)


def _logit(x: Term, eps: float | None = None) -> Term:
    if eps is not None:
        x = (x < eps).where(eps, (x > 1 - eps).where(1 - eps, x))
    return (x == 1).where(math.inf, (x / (1 - x)).log())


def _logit_backward(grad: Term, x: Term, eps: float | None = None) -> Term:
    low, high = (0.0, 1.0) if eps is None else (eps, 1.0 - eps)
    outside = (x < low) | (x > high)
    slope = ((x == 0) | (x == 1)).where(grad * math.inf, grad / (x * (1 - x)))
    return outside.where(math.nan if eps is None else 0.0, slope)


def _entropy(x: Term) -> Term:
    found = (x > 0).where(-x * x.log(), (x == 0).where(0, x.maker.const(-math.inf, x.dtype)))
    return x.isnan().where(x, found)


rows("promote", 1, {"celu": _celu})
rows("exact", 1, {"logit": _logit, "special_entr": _entropy})
rows("promote", 2, {
    "mish_backward": _mish_backward,
    "hardswish_backward": _hardswish_backward,
    "logit_backward": _logit_backward,
    "hardsigmoid_backward": _hardsigmoid_backward,
    "softshrink_backward hardshrink_backward": _shrink_backward,
    "_prelu_kernel": lambda x, weight: (x > 0).where(x, weight * x),
})  # fmt: skip


def _operands(b: Elements, node: Node, index: Index, *places: int) -> list[Term]:
    wide = accumulator(b, node)
    return [b.at(v, broadcast(index, b.size(v))).cast(wide) for v in (node.args[i] for i in places)]


@row("aten._prelu_kernel_backward.default")
def _prelu_backward(b: Elements, node: Node, which: int, index: Index) -> Term:
    grad, x, weight = _operands(b, node, index, 0, 1, 2)
    return (x > 0).where(0, x * grad) if which else (x > 0).where(grad, weight * grad)


@row("aten.elu_backward.default")
def _elu_backward(b: Elements, node: Node, which: int, index: Index) -> Term:
    """Of the argument, or of the result where that was written in its place."""
    grad, x = _operands(b, node, index, 0, 5)
    alpha, scale, input_scale, of_result = node.args[1:5]
    below = input_scale * (x + alpha * scale) if of_result else input_scale * (alpha * scale) * (x * input_scale).exp()  # fmt: skip
    return (x <= 0).where(grad * below, grad * scale)


@row("aten.log_sigmoid_forward.default")
def _log_sigmoid(b: Elements, node: Node, which: int, index: Index) -> Term:
    """The result, and ``exp(-abs(x))``, which its gradient reads on a CPU."""
    (x,) = _operands(b, node, index, 0)
    power = (-x.abs()).exp()
    return power if which else x.min(0) - power.log1p()


@row("aten.log_sigmoid_backward.default")
def _log_sigmoid_backward(b: Elements, node: Node, which: int, index: Index) -> Term:
    grad, x = _operands(b, node, index, 0, 1)
    power, negative = (-x.abs()).exp(), x < 0
    part = power / (1 + power)
    return (negative.where(1 - part, part)) * grad
