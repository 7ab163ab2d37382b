"""Gradients of the ``losses``: rows of ``gathers.GATHERS`` that need no more than an element of each tensor."""

from __future__ import annotations

from ..graph.ir import Node, Value
from .elements import Elements, accumulator
from .exprs import Term
from .gathers import row
from .loop_ir import Open, Unsupported
from .losses import number_of
from .views import Index, broadcast


@row("aten.mse_loss_backward.default")
@row("aten.smooth_l1_loss_backward.default")
@row("aten.huber_loss_backward.default")
def _backward(b: Elements, node: Node, which: int, index: Index) -> Term:
    x, reduction = node.args[1], node.args[3]
    scale, (g, y, z) = _scale(b, x, reduction), _operands(b, node, index)
    return _SLOPES[node.op.split(".")[1]](y - z, scale, number_of(node, 4), g)


@row("aten.soft_margin_loss_backward.default")
def _margin(b: Elements, node: Node, which: int, index: Index) -> Term:
    scale, wide = _scale(b, node.args[1], node.args[3]), accumulator(b, node)
    g, x, y = (p.cast(wide) for p in _operands(b, node, index))
    z = (-y * x).exp()
    return y * z * -scale / (z + 1) * g


def _scale(b: Elements, x: Value, reduction: int) -> float:
    """What the gradient of a mean is multiplied by, which is 1 of a sum."""
    scale = 1.0
    if reduction == 1:
        for n in b.size(x):
            if isinstance(n, Open):
                raise Unsupported("a mean over a size that only the run knows")
            scale /= max(n, 1)
    return scale


def _operands(b: Elements, node: Node, index: Index) -> list[Term]:
    dtype = b.dtype(node.outputs[0])
    return [b.at(v, broadcast(index, b.size(v))).cast(dtype) for v in node.args[:3]]


def _square_slope(d: Term, scale: float, number: float, g: Term) -> Term:
    return 2 * scale * d * g


def _smooth_slope(d: Term, scale: float, beta: float, g: Term) -> Term:
    within = scale * d * g / beta if beta else d * 0
    return (d <= -beta).where(-scale * g, (d >= beta).where(scale * g, within))


def _huber_slope(d: Term, scale: float, delta: float, g: Term) -> Term:
    outside = scale * g * delta
    return (d < -delta).where(-outside, (d > delta).where(outside, scale * d * g))


_SLOPES = {
    "mse_loss_backward": _square_slope,
    "smooth_l1_loss_backward": _smooth_slope,
    "huber_loss_backward": _huber_slope,
}
