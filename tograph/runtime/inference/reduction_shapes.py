"""What reductions, and scans along a dim, give."""

from __future__ import annotations

import torch

from .pointwise_shapes import binary
from .shapes import Meta, like, rule


def dims_of(x: Meta, dim) -> tuple[int, ...]:
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return tuple(range(x.rank))
    dims = dim if isinstance(dim, (list, tuple)) else (dim,)
    rank = max(x.rank, 1)
    for d in dims:
        if not -rank <= d < rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {d})"
            )
    found = tuple(d % rank for d in dims)
    for d in found:
        if found.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return found


def is_empty(x: Meta) -> bool:
    """Whether there is nothing to choose from: the kernel knows where this is an error, and has the words."""
    return any(type(n) is int and n == 0 for n in x.size)


def reduced(x: Meta, dim, keepdim: bool, dtype: torch.dtype) -> Meta:
    dims = dims_of(x, dim)
    if keepdim:
        size = [1 if i in dims else n for i, n in enumerate(x.size)]
    else:
        size = [n for i, n in enumerate(x.size) if i not in dims]
    return like(x, dtype, size)


@rule("sum prod nansum")
def _sum(x, dim=None, keepdim=False, *, dtype=None):
    whole = not x.dtype.is_floating_point and not x.dtype.is_complex
    return reduced(x, dim, keepdim, dtype or (torch.int64 if whole else x.dtype))


@rule("mean")
def _mean(x, dim=None, keepdim=False, *, dtype=None):
    dtype = dtype or x.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {str(x.dtype).removeprefix('torch.').capitalize()}"
        )
    return reduced(x, dim, keepdim, dtype)


@rule("amax amin")
def _extreme(x, dim=(), keepdim=False):
    if is_empty(x) or not x.rank or (not isinstance(dim, int) and not dim):
        return None
    return reduced(x, dim, keepdim, x.dtype)


@rule("any all")
def _any(x, dim=None, keepdim=False):
    if isinstance(dim, (list, tuple)) and not dim:
        return None
    return reduced(x, dim, keepdim, torch.uint8 if x.dtype == torch.uint8 else torch.bool)


@rule("argmax argmin")
def _argmax(x, dim=None, keepdim=False):
    if is_empty(x):
        return None
    return reduced(x, dim, keepdim, torch.int64)


@rule("max min median")
def _max(x, dim=None, keepdim=False):
    if isinstance(dim, Meta):
        return binary(x, dim)
    if is_empty(x):
        return None
    if dim is None:
        return reduced(x, None, False, x.dtype)
    return [reduced(x, dim, keepdim, x.dtype), reduced(x, dim, keepdim, torch.int64)]


@rule("var std")
def _var(x, dim=None, *args, correction=None, keepdim=False, unbiased=True):
    if isinstance(dim, bool) or args or not x.dtype.is_floating_point:
        return None
    return reduced(x, dim, keepdim, x.dtype)


@rule("norm linalg_vector_norm")
def _norm(x, p=2, dim=None, keepdim=False, *, dtype=None):
    if not x.dtype.is_floating_point or is_empty(x):
        return None
    return reduced(x, dim, keepdim, dtype or x.dtype)


@rule("cumsum cumprod")
def _cumsum(x, dim, *, dtype=None):
    dims_of(x, dim)
    return like(
        x, dtype or (x.dtype if x.dtype.is_floating_point or x.dtype.is_complex else torch.int64)
    )


@rule("_softmax _log_softmax")
def _softmax(x, dim, half):
    dims_of(x, dim)
    return like(x) if not half else None


@rule("_softmax_backward_data _log_softmax_backward_data")
def _softmax_backward(g, y, dim, dtype):
    return like(g)
