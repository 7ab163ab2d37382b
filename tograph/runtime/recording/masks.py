"""Masks beside other indices: ``log_p[mask, labels[mask]]``.

torch takes such a mask as its places, one index for each of its dims; how many there are only the run knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten
_MASKS = (torch.bool, torch.uint8)


def index(record: Callable[..., Any], x: Any, indices: Sequence[Any]) -> Any:
    """``aten.index.Tensor``: a mask that stands alone is one index."""
    given = [i for i in indices if i is not None]
    if len(given) > 1 and any(i.dtype in _MASKS for i in given):
        indices = _places(record, x, indices)
    return record(aten.index.Tensor, (x, list(indices)), {})


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
