"""What is picked, joined, written in part, moved or seen otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from .pointwise_shapes import unary
from .reduction_shapes import dims_of, is_empty
from .shapes import (
    SYMBOLS,
    Meta,
    broadcast,
    has_channels_last,
    in_its_order,
    is_packed,
    like,
    pointwise,
    result_type,
    rule,
    same_size,
)


@rule("select")
def _select(x, dim, index):
    """Only for an index that is known at run time; other views go to the meta kernel."""
    if not isinstance(index, SYMBOLS):
        return None
    if not x.rank:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = dims_of(x, dim)[0]
    return x._replace(
        size=x.size[:dim] + x.size[dim + 1 :], stride=x.stride[:dim] + x.stride[dim + 1 :]
    )


@rule("slice")
def _slice(x, dim=0, start=None, end=None, step=1):
    """Only for bounds that are known at run time: the size is unknown."""
    if not x.rank:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    dim = dims_of(x, dim)[0]
    if type(x.size[dim]) is int and not any(isinstance(v, SYMBOLS) for v in (start, end, step)):
        return None
    return like(x, size=(*x.size[:dim], None, *x.size[dim + 1 :]))


@rule("cat")
def _cat(xs, dim=0):
    for i, x in enumerate(xs):
        if not x.rank:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    dtype = result_type(*xs)  # what has no elements counts
    xs = [x for x in xs if x.rank != 1 or type(x.size[0]) is not int or x.size[0]] or list(xs)
    first = xs[0]
    if any(x.rank != first.rank for x in xs) or not first.rank:
        return None
    dim = dims_of(first, dim)[0]
    for x in xs:
        for i, (n, m) in enumerate(zip(first.size, x.size, strict=True)):
            if i != dim and type(n) is int and type(m) is int and n != m:
                return None  # the kernel has the words for it
    size = list(first.size)
    size[dim] = sum(x.size[dim] for x in xs[1:]) + size[dim]
    made = like(first, dtype, size)
    return in_its_order(made, first) if all(map(has_channels_last, xs)) else made


@rule("stack")
def _stack(xs, dim=0):
    first, rank = xs[0], xs[0].rank + 1
    for i, x in enumerate(xs):
        if first.static and x.static and tuple(x.size) != tuple(first.size):
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first.size)} at entry 0 and {list(x.size)} at entry {i}"
            )
    if any(x.rank != first.rank for x in xs) or not -rank <= dim < rank:
        return None
    size = [_common(sizes) for sizes in zip(*(x.size for x in xs), strict=True)]
    if None in size:
        return None
    size.insert(dim % rank, len(xs))
    if all(map(has_channels_last, xs)):
        return None
    return like(first, result_type(*xs), size)


def _common(sizes: Sequence) -> Any:
    """The one size that all of these have to be, or None; where only the graph's run tells, it compares them."""
    one = next((n for n in sizes if type(n) is int), sizes[0])
    others = [n for n in sizes if not same_size(n, one)]
    if any(type(n) is int or n.node.has_hint() for n in others):
        return None
    return one if type(one) is int or not others or not one.node.has_hint() else None


@rule("index_select")
def _index_select(x, dim, index):
    if index.rank > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if not x.rank:
        return None
    dim = dims_of(x, dim)[0]
    return like(x, size=(*x.size[:dim], index.size[0] if index.rank else 1, *x.size[dim + 1 :]))


@rule("gather")
def _gather(x, dim, index, *, sparse_grad=False):
    if not x.rank or x.rank != index.rank or is_empty(index):
        return None
    at = dims_of(x, dim)[0]
    beyond = any(_exceeds(n, m) for d, (n, m) in enumerate(zip(index.size, x.size)) if d != at)
    return None if beyond else like(x, size=index.size)


def _exceeds(n: Any, m: Any) -> bool:
    """Whether a size is known to be larger than another one."""
    return type(n) is int and type(m) is int and n > m


@rule("embedding")
def _embedding(weight, index, *args, **kwargs):
    if weight.rank != 2:
        raise RuntimeError("'weight' must be 2-D")
    return like(weight, size=(*index.size, weight.size[1]))


@rule("index")
def _index(x, indices):
    given = [i for i in indices if i is not None]
    if any(i.dtype in (torch.bool, torch.uint8) for i in given):
        return _masked(x, indices, given)
    if len(indices) > x.rank:
        return None
    places = [k for k, i in enumerate(indices) if i is not None]
    size = broadcast(*(i.size for i in given))
    together = places == list(range(places[0], places[-1] + 1))
    kept = [n for k, n in enumerate(x.size) if k not in places]
    at = places[0] if together else 0
    static = all(type(n) is int for n in (*size, *x.size))
    if static and not (together and is_packed(x)):  # its strides follow those of x
        return None
    return like(x, size=(*kept[:at], *size, *kept[at:]))


def _masked(x, indices, given):
    """One mask: as many rows as it has true elements, which is known at run time."""
    if len(given) != 1:
        return None
    at = next(k for k, i in enumerate(indices) if i is not None)
    return like(x, size=(*x.size[:at], None, *x.size[at + given[0].rank :]))


@rule("nonzero argwhere")
def _nonzero(x):
    return like(x, torch.int64, (None, x.rank))


@rule("_unique")
def _unique(x, sorted=True, return_inverse=False):
    return _unique2(x, sorted, return_inverse)[:2]


@rule("_unique2")
def _unique2(x, sorted=True, return_inverse=False, return_counts=False):
    found, some = like(x, size=(None,)), like(x, torch.int64, (None,))
    inverse = like(x, torch.int64) if return_inverse else like(x, torch.int64, (0,))
    return [found, inverse, some if return_counts else like(x, torch.int64, (0,))]


@rule("bincount")
def _bincount(x, weights=None, minlength=0):
    dtype = weights.dtype if weights is not None and weights.dtype == torch.float32 else torch.float64  # fmt: skip
    return like(x, torch.int64 if weights is None else dtype, (None,))


@rule("_ctc_loss")
def _ctc_loss(x, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    steps, batch, _ = x.size
    known = isinstance(target_lengths, (list, tuple)) and all(type(n) is int for n in target_lengths)  # fmt: skip
    longest = 2 * max(target_lengths) + 1 if known else None
    return [like(x, size=(batch,)), like(x, size=(batch, steps, longest))]


@rule("repeat_interleave")
def _repeat_interleave(repeats, output_size=None):
    return like(repeats, torch.int64, (output_size,))


@rule("masked_select")
def _masked_select(x, mask):
    if mask.dtype is not torch.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    if x.static and mask.static:
        broadcast(x.size, mask.size)
    return like(x, size=(None,))


@rule("fill")
def _fill(x, value):
    if isinstance(value, Meta) and value.rank:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.rank} dimensions."
        )
    return unary(x)


@rule("scatter scatter_add index_add index_copy scatter_reduce")
def _same(x, *args, **kwargs):
    return None if is_empty(x) else like(x)


@rule("index_put index_fill")
def _changed(x, *args, **kwargs):
    """A clone of ``x`` with other elements."""
    return None if is_empty(x) else pointwise((x,), x.dtype)


@rule("select_scatter")
def _select_scatter(x, source, dim, index):
    if not x.rank or is_empty(x):
        return None
    at = dims_of(x, dim)[0]
    return _with_part(x, source, x.size[:at] + x.size[at + 1 :])


@rule("slice_scatter")
def _slice_scatter(x, source, dim=0, start=None, end=None, step=1):
    if not x.rank or is_empty(x):
        return None
    at, bounds = dims_of(x, dim)[0], (start, end, step)
    told = type(x.size[at]) is int and all(b is None or type(b) is int for b in bounds)
    count = len(range(x.size[at])[slice(*bounds)]) if told else source.size[at]
    return _with_part(x, source, (*x.size[:at], count, *x.size[at + 1 :]))


def _with_part(x: Meta, source: Meta, size: tuple) -> Meta:
    """``x`` with ``source`` in the place of a part of that size."""
    known = all(type(n) is int for n in (*size, *source.size))
    if known and tuple(size) != tuple(source.size):
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(source.size)}, slice size = {list(size)}"
        )
    return _of_its_strides(x)


@rule("diagonal_scatter as_strided_scatter")
def _with_some(x, *args, **kwargs):
    return None if is_empty(x) else _of_its_strides(x)


def _of_its_strides(x: Meta) -> Meta:
    """A copy of ``x`` of its own strides, also where these leave gaps, unless elements overlap."""
    if not x.laid_out or any(n > 1 and not s for n, s in zip(x.size, x.stride)):
        return like(x)
    return x._replace(offset=0)


@rule("roll")
def _roll(x, shifts, dims=()):
    inside = all(-x.rank <= d < x.rank for d in dims)
    each = len(shifts) == (len(dims) or 1)
    if not inside or not each or is_empty(x):
        return None
    if not dims or is_packed(x) or not x.laid_out:
        return like(x)
    if x.device.type != "cpu" or not all(type(n) is int for n in shifts):
        return None
    # Two parts are joined, of which one is empty where nothing moves.
    moves = all(n % x.size[d] for n, d in zip(shifts, dims))
    return in_its_order(like(x), x) if moves else like(x)


@rule("masked_fill masked_scatter")
def _masked_write(x, mask, value):
    return like(x, size=broadcast(x.size, mask.size))


@rule("tril triu")
def _triangle(x, diagonal=0):
    return like(x) if x.rank >= 2 else None


@rule("diag_embed")
def _diag_embed(x, offset=0, dim1=-2, dim2=-1):
    rank = x.rank + 1
    first, second = (d + rank if d < 0 else d for d in (dim1, dim2))
    if not x.rank or first == second or not (0 <= first < rank and 0 <= second < rank):
        return None
    size = list(x.size[:-1])
    for d in sorted((first, second)):
        size.insert(d, x.size[-1] + abs(offset))
    return like(x, size=tuple(size))


@rule("flip")
def _flip(x, dims):
    dims_of(x, dims)
    return pointwise((x,), x.dtype)


@rule("sort")
def _sort(x, dim=-1, descending=False, *, stable=None):
    dims_of(x, dim)
    return [pointwise((x,), dtype) for dtype in (x.dtype, torch.int64)]


@rule("topk")
def _topk(x, k, dim=-1, largest=True, sorted=True):
    if not x.rank:
        return None
    dim = dims_of(x, dim)[0]
    known = type(k) is int and type(x.size[dim]) is int
    if known and not 0 <= k <= x.size[dim]:
        return None
    size = (*x.size[:dim], k, *x.size[dim + 1 :])
    return [like(x, size=size), like(x, torch.int64, size)]


@rule("view")
def _symbolic_view(x, size):
    """Only for sizes that are known at run time; -1 is what the value itself tells, where it does not follow."""
    if isinstance(size, torch.dtype):
        return None
    if x.static and not any(isinstance(n, SYMBOLS) for n in size):
        return None
    return like(
        x, size=[_remaining(x.size, size) if type(n) is int and n == -1 else n for n in size]
    )


def _remaining(old: Sequence, new: Sequence) -> int | None:
    """What -1 stands for in a view whose sizes that only the run knows are sizes of the tensor; None otherwise."""
    left, known = list(old), 1
    for n in new:
        at = next((i for i, m in enumerate(left) if same_size(m, n)), None)
        if type(n) is int:
            known *= n if n != -1 else 1
        elif at is None:
            return None
        else:
            del left[at]
    if not all(type(n) is int for n in left) or not known or math.prod(left) % known:
        return None
    return math.prod(left) // known


@rule("expand")
def _expand(x, size, *, implicit=False):
    """Only for sizes that are known at run time."""
    own = (None,) * (len(size) - x.rank) + x.size
    return like(
        x, size=[m if type(n) is int and n == -1 else n for n, m in zip(size, own, strict=True)]
    )
