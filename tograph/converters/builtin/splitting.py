"""``split``, ``chunk``, ``tensor_split`` and ``unbind`` into a number of tensors that only the run knows: a tuple of the graph.

Each has its meaning written in plain Python, which is converted like a user's function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...runtime.inference.shapes import SYMBOLS
from ...runtime.symbols.symbolic import SymTensor
from ...runtime.values.structure import is_growing
from ..call_rules import DECIDING
from ..calls import call
from ..left_alone import leave_alone
from ..registry import TENSOR_METHODS, handles
from .forms import as_number
from .new_lists import tolist


def _split(x, size, dim):
    parts, count = [], x.shape[dim]
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    if size == 0 and count > 0:
        raise RuntimeError(
            f"split_size can only be 0 if dimension size is 0, but got dimension size of {count}"
        )
    step = max(size, 1)
    for i in range((max(count, 1) + step - 1) // step):
        parts.append(x.narrow(dim, i * step, min(step, count - i * step)))
    return tuple(parts)


def _split_as(x, sizes, dim):
    parts, at = [], 0
    for size in sizes:
        if size < 0:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes}"
            )
    if sum(sizes) != x.shape[dim]:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {x.shape[dim]} (input tensor's size at dimension {dim}), but got split_sizes={sizes}"
        )
    for size in sizes:
        parts.append(x.narrow(dim, at, size))
        at = at + size
    return tuple(parts)


def _chunk(x, chunks, dim):
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    parts, count = [], x.shape[dim]
    if count == 0:
        for _ in range(chunks):
            parts.append(x)
    else:
        size = (count + chunks - 1) // chunks
        for i in range((count + size - 1) // size):
            parts.append(x.narrow(dim, i * size, min(size, count - i * size)))
    return tuple(parts)


def _sections(x, sections, dim):
    if sections <= 0:
        raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
    parts, size, more, at = [], x.shape[dim] // sections, x.shape[dim] % sections, 0
    for i in range(sections):
        count = size + 1 if i < more else size
        parts.append(x.narrow(dim, at, count))
        at = at + count
    return tuple(parts)


def _between(x, indices, dim):
    parts, start, rows = [], 0, x.movedim(dim, 0)
    for end in indices:
        parts.append(rows[start:end].movedim(0, dim))
        start = end
    parts.append(rows[start:].movedim(0, dim))
    return tuple(parts)


def _unbind(x, dim):
    rows = []
    for i in range(x.shape[dim]):
        rows.append(x.select(dim, i))
    return tuple(rows)


DECIDING.update((_split, _split_as, _chunk, _sections, _between, _unbind))


def _staged(x: Any, count: Any, dim: Any) -> bool:
    """Whether only the run knows how many parts there are."""
    if not isinstance(x, torch.Tensor) or type(dim) is not int or not -x.dim() <= dim < x.dim():
        return False
    if isinstance(count, (list, tuple)):
        return False
    return isinstance(count, (*SYMBOLS, SymTensor)) or isinstance(x.shape[dim], SYMBOLS)


def _splits(*functions: Callable[..., Any]) -> None:
    for function in functions:

        @handles(function)
        def split(tensor, split_size_or_sections=None, dim=0, *, split_size=None, _plain=function):
            size = split_size if split_size_or_sections is None else split_size_or_sections
            if is_growing(size):
                return split_with_sizes(tensor, size, dim)
            if not _staged(tensor, size, dim):
                return leave_alone(_plain, (tensor, size), {"dim": dim})
            return call(_split, tensor, as_number(size), dim)


def split_with_sizes(input, split_sizes, dim=0):
    """``Tensor.split_with_sizes``"""
    if not is_growing(split_sizes):
        return leave_alone(torch.split_with_sizes, (input, split_sizes, dim), {})
    return call(_split_as, input, split_sizes, dim if dim >= 0 else dim + input.dim())


def chunk(input, chunks, dim=0):
    """``Tensor.chunk``"""
    if not _staged(input, chunks, dim):
        return leave_alone(torch.chunk, (input, chunks, dim), {})
    return call(_chunk, input, as_number(chunks), dim)


def tensor_split(input, split=None, dim=0, **named):
    """``Tensor.tensor_split``, by a number, by indices, or by a tensor of either."""
    names = {"indices", "sections", "tensor_indices_or_sections"} & named.keys()
    given = named[names.pop()] if split is None and len(named) == len(names) == 1 else split
    tensor = isinstance(given, SymTensor)
    if tensor and given.ndim == 1 and given.dtype is torch.int64:
        return call(_between, input, tolist(given), dim)
    if is_growing(given):
        return call(_between, input, given, dim)
    wrong = tensor and (given.ndim or given.dtype is not torch.int64)
    if wrong or not _staged(input, given, dim):
        args = (input,) if split is None else (input, split)
        return leave_alone(torch.tensor_split, args, {**named, "dim": dim})
    return call(_sections, input, as_number(given), dim)


def unbind(input, dim=0):
    """``Tensor.unbind``"""
    if not _staged(input, None, dim):
        return leave_alone(torch.unbind, (input, dim), {})
    return call(_unbind, input, dim)


_splits(torch.split, torch.Tensor.split)
handles(torch.chunk)(chunk)
handles(torch.unbind)(unbind)
handles(torch.split_with_sizes)(split_with_sizes)
TENSOR_METHODS["split_with_sizes"] = split_with_sizes
handles(torch.tensor_split)(tensor_split)
for _form in (chunk, unbind, tensor_split):
    TENSOR_METHODS[_form.__name__] = _form
