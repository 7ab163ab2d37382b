"""Numbers that only the run knows and that fill tensors of small integers: the graph checks, as torch does, that the type can hold them.

Compiled code would wrap them. What is added or multiplied wraps in eager PyTorch too.
"""

from __future__ import annotations

from typing import Any

import torch

from ..inference.shapes import SYMBOLS
from ..symbols.required import require

aten = torch.ops.aten

_NUMBER: dict[Any, int | str] = {
    aten.full.default: 1,
    aten.full_like.default: 1,
    aten.new_full.default: 2,
    aten.fill.Scalar: 1,
    aten.masked_fill.Scalar: 2,
    aten.scalar_tensor.default: 0,
    aten.constant_pad_nd.default: 2,
    aten.add.Tensor: "alpha",
    aten.sub.Tensor: "alpha",
    aten.addcmul.default: "value",
}
_NAMES = {torch.uint8: "uint8_t", torch.int8: "int8_t", torch.int16: "int16_t", torch.int32: "int"}  # fmt: skip


def check(func: Any, args: tuple, kwargs: dict, dtype: torch.dtype) -> None:
    """Have the graph raise torch's error for the number of an op that ``dtype``, the type of its result, cannot hold."""
    where = _NUMBER[func]
    n = kwargs.get(where) if isinstance(where, str) else args[where] if where < len(args) else None
    name = _NAMES.get(dtype)
    if name is None or not isinstance(n, SYMBOLS) or isinstance(n, torch.SymBool):
        return
    bounds = torch.iinfo(dtype)
    whole = isinstance(n, torch.SymInt)
    least = -bounds.max if whole and dtype is torch.uint8 else bounds.min  # negative ones wrap
    error = RuntimeError(f"value cannot be converted to type {name} without overflow")
    require(n >= least, error)
    require(n <= bounds.max, error)


def is_checked(func: Any) -> bool:
    """Whether an op takes a number that the type of its result has to hold."""
    return func in _NUMBER
