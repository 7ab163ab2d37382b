"""``tg.range``: a 1-d tensor of whole numbers that a ``for`` goes over without making it."""

from __future__ import annotations

from typing import Any

import torch

from ..runtime.funcgraph import is_tracing
from ..runtime.shapes import SYMBOLS
from ..runtime.symbolic import scalar_of


def _bound(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return scalar_of(x) if is_tracing() else x.item()
    return x


def range_(*args: Any, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """``tg.range(limit)``, ``tg.range(start, limit, delta=1)``: like ``range``, as a tensor.

    A ``for`` over it in a function is always one ``While``, whatever the bounds. Bounds are numbers or 0-d tensors.

    Example: ``for i in tg.range(n): s = s + i``
    """
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    start, stop, step = _bound(start), _bound(stop), _bound(step)
    if any(isinstance(x, float) for x in (start, stop, step)):
        return torch.arange(start, stop, step)
    made = torch.arange(start, stop, step, dtype=dtype)
    if is_tracing() and not any(
        isinstance(x, float) or (isinstance(x, SYMBOLS) and x.node.kind is float)
        for x in (start, stop, step)
    ):
        made.range_ = (start, stop, step)
    return made
