"""``torch.broadcast_shapes`` of sizes that only the run knows: the common size of each dimension, and torch's error for two that do not fit.

torch's own asks for each pair of sizes whether they are equal, or 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...runtime.inference.shapes import SYMBOLS, same_size
from ..call_rules import DECIDING
from ..calls import call
from ..left_alone import leave_alone
from ..registry import handles
from ..staging import is_staged
from ..tensor_index import as_place


@handles(torch.broadcast_shapes)
def broadcast_shapes(*shapes):
    whole = [(s,) if isinstance(s, (int, *SYMBOLS)) else s for s in shapes if s is not None]
    known = all(isinstance(s, Sequence) and not is_staged(s) for s in whole)
    sizes = [n for s in whole for n in s] if known else []
    odd = any(not isinstance(n, SYMBOLS) and (type(n) is not int or n < 0) for n in sizes)
    if odd or not any(isinstance(n, SYMBOLS) for n in sizes):
        return leave_alone(torch.broadcast_shapes, shapes, {})
    common: list[Any] = [1] * max(map(len, whole))
    for place, shape in enumerate(whole):
        for d in range(-1, -1 - len(shape), -1):
            common[d] = _common(common[d], shape[d], common, shape, d, place)
    return torch.Size(common)


def _common(old: Any, n: Any, common: list[Any], shape: Sequence[Any], d: int, place: int) -> Any:
    if same_size(old, n) or (type(n) is int and n == 1):
        return old
    if type(old) is int and old == 1:
        return n
    return as_place(call(_decided, old, n, common, shape, d, place))


def _decided(old, n, common, shape, d, place):
    if old != n and old != 1 and n != 1:
        raise RuntimeError(
            f"Attempting to broadcast a dimension of length {n} at {d}! "
            f"Mismatching argument at index {place} had {shape}; but expected shape should be broadcastable to {common}"
        )
    return n if old == 1 else old


DECIDING.add(_decided)
