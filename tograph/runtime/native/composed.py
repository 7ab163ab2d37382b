"""Ops that are a few others: pointwise, moves and folds, which go into loop nests where torch would be asked.

Each formula is that of torch's kernel for a CPU, in its order, so that infinities, NaN and results of equal sizes are the same. What a formula does not
cover (other dtypes, sizes that only the run knows, options that are seldom given) stays a call of torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..graph.ir import Graph, Node, Value
from .formulas import Formula, of_one_type, written


def _composed(op: str, *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the formula of ``op``, whose arguments get their ``names``; it gives the results, or None where it does not hold."""

    def register(formula: Callable[..., Any]) -> Callable[..., Any]:
        def write(node: Node, nodes: list[Node]) -> Sequence[Any] | None:
            found = dict(zip(names, node.args)) | node.kwargs
            if not found.keys() <= set(names):
                return None
            made = formula(Formula(node, node.inputs[0], nodes), **found)
            return made if made is None or isinstance(made, tuple) else (made,)

        FORMULAS[f"aten.{op}"] = write
        return formula

    return register


FORMULAS: dict[str, Any] = {}


def composed(graph: Graph) -> Graph:
    """``graph``, or a copy of it in which these ops are made of others."""
    return written(graph, FORMULAS, lambda node: node.op in _OTHERS or of_one_type(node))


# ---- pointwise


@_composed("sinc.default", "x")
def _sinc(f: Formula, x: Value) -> Value:
    product = f.do("mul.Tensor", x, math.pi)
    quotient = f.do("div.Tensor", f.do("sin.default", product), product)
    return f.chosen(f.truth("eq.Scalar", x, 0), 1.0, quotient)


@_composed("deg2rad.default", "x")
def _deg2rad(f: Formula, x: Value) -> Value:
    return f.do("mul.Tensor", x, math.pi / 180)


@_composed("rad2deg.default", "x")
def _rad2deg(f: Formula, x: Value) -> Value:
    return f.do("mul.Tensor", x, 180 / math.pi)


@_composed("angle.default", "x")
def _angle(f: Formula, x: Value) -> Value:
    angle = f.chosen(f.truth("lt.Scalar", x, 0), math.pi, f.do("zeros_like.default", x))
    return f.chosen(f.truth("ne.Tensor", x, x), x, angle)


@_composed("heaviside.default", "x", "at_zero")
def _heaviside(f: Formula, x: Value, at_zero: Value) -> Value:
    if x.type.shape != at_zero.type.shape and at_zero.type.shape:
        return None
    step = f.chosen(f.truth("gt.Scalar", x, 0), 1.0, f.do("zeros_like.default", x))
    return f.chosen(f.truth("eq.Scalar", x, 0), at_zero, step)


@_composed("rrelu_with_noise_functional.default", "x", "noise", "lower", "upper", "training", "generator")  # fmt: skip
def _rrelu(f: Formula, x: Value, noise: Value, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None) -> Any:  # fmt: skip
    return None if training else (f.do("leaky_relu.default", x, (lower + upper) / 2), noise)


@_composed("addr.default", "x", "a", "b", "beta", "alpha")
def _addr(f: Formula, x: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1) -> Value | None:  # fmt: skip
    (n,), (m,) = a.type.shape, b.type.shape
    if beta == 0:  # then torch does not look at what is added to
        return None
    column = f.do("mul.Tensor", f.view(a, n, 1), alpha) if alpha != 1 else f.view(a, n, 1)
    product = f.do("mul.Tensor", column, b, shape=(n, m))
    return f.do("add.Tensor", f.do("mul.Tensor", x, beta) if beta != 1 else x, product, shape=(n, m))  # fmt: skip


def _polynomial(f: Formula, z: Value, factors: Sequence[float]) -> Value:
    """Factors from that of the highest power on."""
    made = f.do("add.Tensor", f.do("mul.Tensor", z, factors[0]), factors[1])
    for a in factors[2:]:
        made = f.do("add.Tensor", f.do("mul.Tensor", made, z), a)
    return made


# Of rational approximations of the inverse error function, in the middle and outside (P. Acklam's form, as torch has them).
_MIDDLE = (-0.140543331, 0.914624893, -1.645349621, 0.886226899), (0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0)  # fmt: skip
_OUTSIDE = (1.641345311, 3.429567803, -1.624906493, -1.970840454), (1.637067800, 3.543889200, 1.0)


@_composed("erfinv.default", "y")
def _erfinv(f: Formula, y: Value) -> Value:
    square, size = f.do("mul.Tensor", y, y), f.do("abs.default", y)
    top, below = (_polynomial(f, square, p) for p in _MIDDLE)
    middle = f.do("div.Tensor", f.do("mul.Tensor", y, top), below)
    half = f.do("div.Tensor", f.do("rsub.Scalar", size, 1), 2)
    root = f.do("sqrt.default", f.do("neg.default", f.do("log.default", half)))
    top, below = (_polynomial(f, root, p) for p in _OUTSIDE)
    outside = f.do("div.Tensor", f.do("copysign.Tensor", top, y), below)
    x = f.chosen(f.truth("le.Scalar", size, 0.7), middle, outside)
    for _ in range(2):  # steps of Newton's method
        slope = f.do("mul.Tensor", f.do("exp.default", f.do("neg.default", f.do("mul.Tensor", x, x))), 2 / math.sqrt(math.pi))  # fmt: skip
        x = f.do("sub.Tensor", x, f.do("div.Tensor", f.do("sub.Tensor", f.do("erf.default", x), y), slope))  # fmt: skip
    return f.chosen(f.truth("eq.Scalar", size, 1), f.do("mul.Tensor", y, math.inf), x)


# ---- gated units and losses


def _halves(f: Formula, x: Value, dim: int) -> tuple[Value, Value]:
    n = x.type.shape[dim] // 2
    shape = (*x.type.shape[:dim], n, *x.type.shape[dim + 1 :])
    a, b = (f.do("slice.Tensor", x, dim, i * n, (i + 1) * n, shape=shape) for i in range(2))
    return a, b


@_composed("glu.default", "x", "dim")
def _glu(f: Formula, x: Value, dim: int = -1) -> Value:
    a, b = _halves(f, x, dim % len(x.type.shape))
    return f.do("mul.Tensor", a, f.do("sigmoid.default", b))


@_composed("glu_backward.default", "grad", "x", "dim")
def _glu_backward(f: Formula, grad: Value, x: Value, dim: int) -> Value:
    dim %= len(x.type.shape)
    a, b = _halves(f, x, dim)
    gate = f.do("sigmoid.default", b)
    first = f.do("mul.Tensor", gate, grad)
    slope = f.do("mul.Tensor", f.do("rsub.Scalar", gate, 1), gate)
    second = f.do("mul.Tensor", f.do("mul.Tensor", slope, grad), a)
    return f.do("cat.default", [first, second], dim, shape=x.type.shape)


_MEAN, _SUM = 1, 2


def _reduced(f: Formula, loss: Value, reduction: int) -> Value:
    if reduction == _MEAN:
        return f.do("mean.default", loss, shape=())
    return f.do("sum.default", loss, shape=()) if reduction == _SUM else loss


@_composed("binary_cross_entropy.default", "x", "target", "weight", "reduction")
def _bce(f: Formula, x: Value, target: Value, weight: Value | None = None, reduction: int = _MEAN) -> Value | None:  # fmt: skip
    if x.type.shape != target.type.shape or (weight and weight.type.shape != x.type.shape):
        return None
    inside = f.truth("logical_and.default", f.truth("ge.Scalar", x, 0), f.truth("le.Scalar", x, 1))
    f.check(inside, "RuntimeError", "all elements of input should be between 0 and 1")
    none, some = (f.do("clamp.default", y, -100) for y in (f.do("log1p.default", f.do("neg.default", x)), f.do("log.default", x)))  # fmt: skip
    loss = f.do("sub.Tensor", f.do("mul.Tensor", f.do("sub.Tensor", target, 1), none), f.do("mul.Tensor", target, some))  # fmt: skip
    return _reduced(f, loss if weight is None else f.do("mul.Tensor", loss, weight), reduction)


@_composed("binary_cross_entropy_backward.default", "grad", "x", "target", "weight", "reduction")
def _bce_backward(f: Formula, grad: Value, x: Value, target: Value, weight: Value | None = None, reduction: int = _MEAN) -> Value | None:  # fmt: skip
    if x.type.shape != target.type.shape or (weight and weight.type.shape != x.type.shape):
        return None
    spread = f.do("mul.Tensor", f.do("rsub.Scalar", x, 1), x)
    made = f.do("mul.Tensor", grad, f.do("sub.Tensor", x, target))
    made = f.do("div.Tensor", made, f.do("clamp.default", spread, 1e-12))
    made = made if weight is None else f.do("mul.Tensor", made, weight)
    return f.do("div.Tensor", made, math.prod(x.type.shape)) if reduction == _MEAN else made


# ---- moves


def _blocks(f: Formula, x: Value, wide: Sequence[int], order: Sequence[int], shape: Sequence[int]) -> Value:  # fmt: skip
    """``x`` with dims that are split as ``wide`` says, put into another order and joined again."""
    turned = tuple(wide[d] for d in order)
    moved = f.do("permute.default", f.view(f.packed(x), *wide), list(order), shape=turned)
    made = f.do("clone.default", moved, shape=turned, memory_format=torch.contiguous_format)
    return f.arranged(f.view(made, *shape), x)


@_composed("pixel_shuffle.default", "x", "factor")
def _pixel_shuffle(f: Formula, x: Value, factor: int) -> Value | None:
    if len(x.type.shape) != 4:
        return None
    n, c, h, w = x.type.shape
    c //= factor * factor
    return _blocks(f, x, (n, c, factor, factor, h, w), (0, 1, 4, 2, 5, 3), (n, c, h * factor, w * factor))  # fmt: skip


@_composed("pixel_unshuffle.default", "x", "factor")
def _pixel_unshuffle(f: Formula, x: Value, factor: int) -> Value | None:
    if len(x.type.shape) != 4:
        return None
    n, c, h, w = x.type.shape
    h, w = h // factor, w // factor
    return _blocks(f, x, (n, c, h, factor, w, factor), (0, 1, 3, 5, 2, 4), (n, c * factor * factor, h, w))  # fmt: skip


@_composed("rot90.default", "x", "k", "dims")
def _rot90(f: Formula, x: Value, k: int = 1, dims: Sequence[int] = (0, 1)) -> Value | None:
    a, b = (d % len(x.type.shape) for d in dims)
    if k % 4 == 0:
        return None
    if k % 4 == 2:
        return f.do("flip.default", x, [a, b])
    made = f.do("flip.default", x, [b if k % 4 == 1 else a])
    shape = list(x.type.shape)
    shape[a], shape[b] = shape[b], shape[a]
    return f.do("transpose.int", made, a, b, shape=shape)


@_composed("linalg_cross.default", "a", "b", "dim")
def _cross(f: Formula, a: Value, b: Value, dim: int = -1) -> Value | None:
    shape = a.type.shape
    dim %= len(shape)
    if b.type.shape != shape:
        return None

    def part(x: Value, i: int) -> Value:
        return f.do("slice.Tensor", x, dim, i % 3, i % 3 + 1, shape=(*shape[:dim], 1, *shape[dim + 1 :]))  # fmt: skip

    parts = [
        f.do("sub.Tensor", f.do("mul.Tensor", part(a, i + 1), part(b, i + 2)), f.do("mul.Tensor", part(a, i + 2), part(b, i + 1)))
        for i in range(3)
    ]  # fmt: skip
    return f.do("cat.default", parts, dim, shape=shape)


# ---- folds


@_composed("trace.default", "x")
def _trace(f: Formula, x: Value) -> Value:
    diagonal = f.do("diagonal.default", x, shape=(min(x.type.shape),))
    return f.do("sum.default", diagonal, shape=())


def _dims(x: Value, dim: Any, keepdim: bool) -> tuple[list[int], tuple[int, ...]]:
    """The dims of a fold, and the shape of what it gives."""
    shape = x.type.shape
    dims = list(range(len(shape))) if dim in (None, []) else [d % max(len(shape), 1) for d in ([dim] if isinstance(dim, int) else dim)]  # fmt: skip
    return dims, tuple(1 if d in dims else n for d, n in enumerate(shape) if keepdim or d not in dims)  # fmt: skip


@_composed("linalg_vector_norm.default", "x", "ord", "dim", "keepdim", "dtype")
def _norm(f: Formula, x: Value, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value | None:  # fmt: skip
    """The power of a sum of powers; others are folds of their own."""
    if dtype is not None or not isinstance(ord, (int, float)) or ord in (0, 1, 2) or math.isinf(ord):  # fmt: skip
        return None
    dims, shape = _dims(x, dim, keepdim)
    powers = f.do("pow.Tensor_Scalar", f.do("abs.default", x), ord)
    total = f.do("sum.dim_IntList", powers, dims, keepdim, shape=shape)
    return f.do("pow.Tensor_Scalar", total, 1.0 / ord, shape=shape)


@_composed("norm.ScalarOpt_dim", "x", "p", "dim", "keepdim")
def _old_norm(f: Formula, x: Value, p: float | None, dim: Any, keepdim: bool = False) -> Value | None:  # fmt: skip
    dims, shape = _dims(x, dim, keepdim)
    return f.do("linalg_vector_norm.default", x, 2 if p is None else p, dims, keepdim, shape=shape) if p in (None, 1, 2) else _norm(f, x, p, dims, keepdim)  # fmt: skip


@_composed("nansum.default", "x", "dim", "keepdim", "dtype")
def _nansum(f: Formula, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value | None:  # fmt: skip
    if dtype is not None:
        return None
    dims, shape = _dims(x, dim, keepdim)
    known = f.chosen(f.truth("ne.Tensor", x, x), 0.0, x)
    return f.do("sum.dim_IntList", known, dims, keepdim, shape=shape)


@_composed("count_nonzero.dim_IntList", "x", "dim")
@_composed("count_nonzero.default", "x", "dim")
def _count(f: Formula, x: Value, dim: Any = None) -> Value | None:
    if None in x.type.shape or 0 in x.type.shape or x.type.dtype.is_complex:
        return None
    dims, shape = _dims(x, dim, False)
    return f.fold("sum.dim_IntList", f.truth("ne.Scalar", x, 0), torch.int64, shape, dims)


@_composed("aminmax.default", "x", "dim", "keepdim")
def _aminmax(f: Formula, x: Value, dim: int | None = None, keepdim: bool = False) -> Any:
    dims, shape = _dims(x, dim, keepdim)
    return tuple(f.do(op, x, dims, keepdim, shape=shape) for op in ("amin.default", "amax.default"))


@_composed("_safe_softmax.default", "x", "dim", "dtype")
def _safe_softmax(f: Formula, x: Value, dim: int, dtype: Any = None) -> Value | None:
    if dtype not in (None, x.type.dtype):
        return None
    _, shape = _dims(x, dim, True)
    most = f.do("amax.default", x, [dim], True, shape=shape)
    return f.chosen(f.truth("eq.Scalar", most, -math.inf), 0.0, f.do("_softmax.default", x, dim, False))  # fmt: skip


@_composed("_adaptive_avg_pool2d.default", "x", "size")
def _adaptive(f: Formula, x: Value, size: Sequence[int]) -> Value | None:
    *_, h, w = x.type.shape
    if not all(isinstance(n, int) and n and m % n == 0 for n, m in zip(size, (h, w))):
        return None
    window = [m // n for n, m in zip(size, (h, w))]
    return f.do("avg_pool2d.default", x, window, shape=(*x.type.shape[:-2], *size))


# ---- positions


@_composed("embedding_dense_backward.default", "grad", "places", "count", "padding", "by_frequency")
def _embedding(f: Formula, grad: Value, places: Value, count: int, padding: int, by_frequency: bool) -> Value | None:  # fmt: skip
    kinds = grad.type, places.type
    if by_frequency or padding >= 0 or any(None in k.shape or 0 in k.shape for k in kinds) or f.kind.dtype not in _FLOATS:  # fmt: skip
        return None
    rows, width = math.prod(places.type.shape), grad.type.shape[-1]
    zeros = f.do("full.default", [count, width], 0.0, shape=(count, width), dtype=f.kind.dtype, device=torch.device("cpu"))  # fmt: skip
    flat = f.view(f.packed(places), rows)
    return f.do("index_add.default", zeros, 0, flat, f.view(f.packed(grad), rows, width), shape=(count, width))  # fmt: skip


_FLOATS = (torch.float32, torch.float64)
# Ops whose formulas look at types themselves.
_OTHERS = frozenset(f"aten.{n}" for n in ["embedding_dense_backward.default", "count_nonzero.default", "count_nonzero.dim_IntList"])  # fmt: skip
