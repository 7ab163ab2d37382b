"""``tg.range``: a 1-d tensor of whole numbers that a ``for`` goes over without making it."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import InvalidArgumentError, SignatureError
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.symbols.funcgraph import is_tracing, user_location
from ..runtime.symbols.symbolic import scalar_of
from .iterables import StagedRange

_KINDS = (bool, int, float, complex)  # of Python, which torch takes for dtypes


def _bound(x: Any) -> Any:
    if isinstance(x, torch.Tensor) and not x.is_complex() and x.numel() == 1:
        return scalar_of(x) if is_tracing() else x.item()
    if isinstance(x, (int, float, *SYMBOLS)):
        return x
    found = (
        f"a {x.dtype} tensor of shape {tuple(x.shape)}" if isinstance(x, torch.Tensor) else repr(x)
    )
    raise SignatureError(
        f"the bounds of tg.range must be numbers or 0-d tensors, not {found}", user_location()
    )


def range_(*args: Any, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """``tg.range(limit)``, ``tg.range(start, limit, delta=1)``: like ``range``, as a tensor.

    A ``for`` over it in a function is always one ``While``, whatever the bounds. Bounds are numbers or 0-d tensors.

    Example: ``for i in tg.range(n): s = s + i``
    """
    if not 1 <= len(args) <= 3:
        raise SignatureError(
            f"tg.range takes (limit), (start, limit) or (start, limit, delta), not {len(args)} arguments",
            user_location(),
        )
    if not (isinstance(dtype, torch.dtype) or dtype is None or any(dtype is k for k in _KINDS)):
        raise SignatureError(
            f"the dtype of tg.range must be a torch.dtype, such as torch.int64, not {dtype!r}",
            user_location(),
        )
    bounds = [_bound(x) for x in args]
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if type(step) in (int, float) and not step:
        raise InvalidArgumentError("the step of tg.range must not be zero", user_location())
    if any(map(_is_float, (start, stop, step))):
        return torch.arange(start, stop, step)
    made: Any = _whole(start, stop, step).to(dtype)
    if is_tracing():
        made.range_ = (start, stop, step)
    return made


range_.__name__ = range_.__qualname__ = "range"  # in messages about its arguments


def _is_float(x: Any) -> bool:
    return isinstance(x, float) or (isinstance(x, SYMBOLS) and x.node.kind is float)


def _whole(start: Any, stop: Any, step: Any) -> torch.Tensor:
    """``range(start, stop, step)`` as a tensor, also where it is empty."""
    if not any(isinstance(x, SYMBOLS) for x in (start, stop, step)):
        items = range(start, stop, step)
        return torch.arange(items.start, items.start + len(items) * items.step, items.step)
    first = type(start) is int and start == 0
    whole = torch.arange(StagedRange(start, stop, step).length())
    whole = whole if type(step) is int and step == 1 else whole * step
    return whole if first else whole + start
