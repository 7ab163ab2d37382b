"""Gradients of what is broadcast along a dimension whose size only the run knows: ``x + b`` with 5 columns, and ``b`` of any size.

Torch's formula adds the gradient up along the dimensions in front that ``b`` does not have, and shows that in the size of ``b``. Whether the others are 1
and have to be added up, too, it asks while tracing, where it is not known. They are as long as those of the sum or 1, else the op had failed: so each is
split in two, the size and how often it is repeated, and the second is added up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from ..inference.shapes import same_size

aten = torch.ops.aten


def viewed(record: Callable[..., Any]) -> Callable[..., Any]:
    """The form of ``view`` that ``record`` records."""

    def form(x: Any, size: Sequence[Any]) -> Any:
        doubted = _doubted(x.shape, size) if torch._C._current_autograd_node() is not None else ()
        if not doubted:
            return record(aten.view.default, (x, size), {}, view=True)
        split, repeated = list[Any](), []
        for i, (n, m) in enumerate(zip(x.shape[len(x.shape) - len(size) :], size, strict=True)):
            split.append(m)
            if i in doubted:
                repeated.append(len(split))
                split.append(n // m)
        whole = record(aten.view.default, (x, split), {}, view=True)
        return record(aten.sum.dim_IntList, (whole, repeated), {})

    return form


def _doubted(have: Sequence[Any], want: Sequence[Any]) -> Collection[int]:
    """The dimensions of a view that drops some of one element in front, of which only the run knows whether they are 1 or those that there are."""
    front = len(have) - len(want)
    if front < 1 or any(type(n) is not int or n != 1 for n in have[:front]):
        return ()
    pairs = {i: (n, m) for i, (n, m) in enumerate(zip(have[front:], want)) if not same_size(n, m)}
    if not all(type(n) is int and n > 1 and isinstance(m, torch.SymInt) for n, m in pairs.values()):
        return ()
    return pairs
