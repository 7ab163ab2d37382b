"""Shape rules, continued: ops whose result's size depends on data, and views of tensors with sizes known at run time.

A size of None is what the value itself tells when the graph runs: it becomes a staged number.
"""

from __future__ import annotations

from typing import Any

import torch

from ...errors import GraphBoolError, UnknownSizeError
from .reduction_shapes import dims_of
from .shapes import Meta, like, rule


@rule("unique_consecutive")
def _unique_consecutive(x, return_inverse=False, return_counts=False, dim=None):
    if dim is not None:
        return _unique_dim(x, dim, True, return_inverse, return_counts)
    return _unique_outputs(x, (None,), x.size, return_inverse, return_counts)


@rule("unique_dim")
def _unique_dim(x, dim, sorted=True, return_inverse=False, return_counts=False):
    dim = dims_of(x, dim)[0]
    size = (*x.size[:dim], None, *x.size[dim + 1 :])
    # The kernels for one dimension give inverse and counts whether or not they are wanted.
    return _unique_outputs(x, size, x.size[dim : dim + 1], True, True)


@rule("unique_dim_consecutive")
def _unique_dim_consecutive(x, dim, return_inverse=False, return_counts=False):
    return _unique_dim(x, dim)


def _unique_outputs(x: Meta, size: Any, inverse: Any, with_inverse: bool, with_counts: bool):
    """Values, where each element went, and how often each occurs; what is not wanted is empty."""
    return [
        like(x, size=size),
        like(x, torch.int64, inverse if with_inverse else (0,)),
        like(x, torch.int64, (None,) if with_counts else (0,)),
    ]


# ---- views of a tensor whose size is known at run time


@rule("squeeze")
def _squeeze(x, dim=None):
    """A dimension of unknown size may be 1 when the graph runs: then the rank would be another one."""
    dims = range(x.rank) if dim is None else dim if isinstance(dim, (list, tuple)) else (dim,)
    places = {d % max(x.rank, 1) for d in dims} if x.rank else set()
    if any(type(x.size[d]) is not int and x.size[d].node.has_hint() for d in places):
        return None
    return _without(x, {d for d in sorted(places) if _is_one(x.size[d], d)})


def _is_one(n: Any, d: int) -> bool:
    """Whether a size is 1; of one that is known only when the graph runs, as it usually is."""
    if type(n) is int:
        return n == 1
    try:
        return (n == 1).node.guard_bool(__file__, 0)  # as torch's own code asks
    except GraphBoolError:
        raise UnknownSizeError(
            f"squeeze of dimension {d}, whose size is known only when the graph runs: the rank of the result is not "
            "known. Name the dimensions to squeeze, or use reshape."
        ) from None


def _without(x: Meta, dropped: set[int]) -> Meta:
    keep = [i for i in range(x.rank) if i not in dropped]
    return x._replace(size=tuple(x.size[i] for i in keep), stride=tuple(x.stride[i] for i in keep))


@rule("unbind")
def _unbind(x, dim=0):
    dim = dim % x.rank
    count = _known(x.size[dim], "unbind")
    return [_without(x, {dim}) for _ in range(count)]


@rule("split unsafe_split")
def _split(x, size, dim=0):
    if isinstance(size, (list, tuple)):
        return _split_with_sizes(x, size, dim)
    count = _known(x.size[dim % x.rank], "split")
    size = _known(size, "split")
    if size <= 0:
        return None
    return _split_with_sizes(x, [min(size, count - i) for i in range(0, count, size)] or [0], dim)


@rule("split_with_sizes")
def _split_with_sizes(x, sizes, dim=0):
    dim = dim % x.rank
    return [x._replace(size=(*x.size[:dim], n, *x.size[dim + 1 :])) for n in sizes]


def _known(n: Any, what: str) -> int:
    """A count of outputs; a staged one with a hint becomes a guard."""
    if type(n) is int:
        return n
    if n.node.has_hint():
        return int(n)
    raise UnknownSizeError(
        f"{what} into a number of tensors that is known only when the graph runs. Use a `for` loop over the tensor, or reshape."
    )
