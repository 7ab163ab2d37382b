"""Shape rules of pieces of tensors, of the derivatives of views, and of lists of tensors, where an op is done on each."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .reduction_shapes import reduced
from .shapes import RULES, SYMBOLS, Meta, contiguous, is_packed, like, rule


@rule("select_backward slice_backward diagonal_backward unfold_backward")
def _view_backward(grad, size, *args):
    return like(grad, size=size)


@rule("unsafe_split")
def _unsafe_split(x, length, dim=0):
    if (
        not x.rank
        or not -x.rank <= dim < x.rank
        or type(x.size[dim]) is not int
        or type(length) is not int
        or length < 1
    ):
        return None
    dim, count = dim % x.rank, max(x.size[dim], 1)
    return [
        x._replace(
            size=(*x.size[:dim], min(length, x.size[dim] - at), *x.size[dim + 1 :]),
            offset=x.offset + at * x.stride[dim],
        )
        for at in range(0, count, length)
    ]


@rule("_unsafe_view")
def _unsafe_view(x, size):
    if not x.static or any(isinstance(n, SYMBOLS) for n in size):
        return RULES["view"](x, size)
    return like(x, size=size) if is_packed(x) and _whole(x.size, size) else None


def _whole(a: Sequence, b: Sequence) -> bool:
    return (
        all(type(n) is int and n > 0 for n in (*a, *b))
        and torch.Size(a).numel() == torch.Size(b).numel()
    )


@rule("empty_strided")
def _empty_strided(size, stride, *, dtype=None, device=None, **kwargs):
    made = contiguous(dtype or torch.get_default_dtype(), size, torch.device(device or "cpu"))
    return made._replace(stride=tuple(stride))


@rule("new_empty_strided")
def _new_empty_strided(x, size, stride, *, dtype=None, device=None, **kwargs):
    return like(x, dtype, size)._replace(
        stride=tuple(stride), device=torch.device(device or x.device)
    )


@rule("repeat")
def _repeat(x, counts):
    if not x.static or len(counts) < x.rank or any(type(n) is not int or n < 0 for n in counts):
        return None
    size = (1,) * (len(counts) - x.rank) + x.size
    return like(x, size=[n * k for n, k in zip(size, counts, strict=True)])


@rule("var_mean std_mean")
def _var_mean(x, dim=None, *, correction=None, keepdim=False):
    if not x.dtype.is_floating_point or isinstance(dim, bool):
        return None
    return [reduced(x, dim, keepdim, x.dtype)] * 2


# ---- lists of tensors: the op on each


def _on_each(base: str):
    one = RULES[base]

    def each(xs, *args, **kwargs):
        if not isinstance(xs, (list, tuple)) or any(
            isinstance(a, (list, tuple)) and len(a) != len(xs) for a in args
        ):
            return None
        rows = [[a[i] if isinstance(a, (list, tuple)) else a for a in args] for i in range(len(xs))]
        outs = [one(x, *row, **kwargs) for x, row in zip(xs, rows, strict=True)]
        return outs if all(isinstance(o, Meta) for o in outs) else None

    return each


for _base in [
    "add",
    "sub",
    "mul",
    "div",
    "addcmul",
    "addcdiv",
    "lerp",
    "pow",
    "maximum",
    "minimum",
    "clamp_min",
    "clamp_max",
    "abs",
    "neg",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sign",
    "exp",
    "log",
    "log2",
    "log10",
    "log1p",
    "expm1",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sigmoid",
    "floor",
    "ceil",
    "round",
    "trunc",
    "frac",
    "erf",
    "copy",
    "zero",
    "norm",
    "max",
]:  # as the tables of shapes
    RULES[f"_foreach_{_base}"] = _on_each(_base)


@rule("_sample_dirichlet _standard_gamma poisson _dirichlet_grad _standard_gamma_grad")
def _sampled(x, *args, generator=None):
    return like(x)
