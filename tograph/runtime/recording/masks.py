"""Masks beside other indices: ``log_p[mask, labels[mask]]``, and writes there.

torch takes such a mask as its places, one index for each of its dims; how many there are only the run knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten
_MASKS = (torch.bool, torch.uint8)
_INDEXED = frozenset([aten.index.Tensor, aten._unsafe_index.Tensor, aten.index_put.default, aten.index_put_.default, aten._unsafe_index_put.default,
                      aten._index_put_impl_.default])  # fmt: skip


def spelled(func: Any, args: tuple, record: Callable[..., Any]) -> tuple:
    """The arguments of an op, with masks beside other indices as their places; a mask that stands alone is one index."""
    if func not in _INDEXED:
        return args
    given = [i for i in args[1] if i is not None]
    if len(given) < 2 or not any(i.dtype in _MASKS for i in given):
        return args
    return args[0], _places(record, *args[:2]), *args[2:]


def _places(record: Callable[..., Any], x: Any, indices: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for i in indices:
        if i is None or i.dtype not in _MASKS:
            found.append(i)
            continue
        _check(x, i, len(found))
        places = record(aten.nonzero.default, (i,), {})
        found += [record(aten.select.int, (places, 1, k), {}, view=True) for k in range(i.dim())]
    return found


def _check(x: Any, mask: Any, d: int) -> None:
    """IndexError where a mask has another shape than the dims from ``d`` on, in torch's words."""
    for k, (n, m) in enumerate(zip(mask.shape, x.shape[d:])):
        if type(n) is int and type(m) is int and n != m:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {k} does not match the shape of the indexed tensor "
                f"{list(x.shape)} at index {d + k}"
            )
