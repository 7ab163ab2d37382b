"""Formulas of ops which torch's CPU kernels compute in another way for f16 than for other dtypes (``pointwise``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .exprs import Term
from .pointwise import ROWS

_power = ROWS["aten.pow.Tensor_Scalar"].formula


def _pow(x: Term, exponent: Any) -> Term:
    """Torch has the power function also for square roots: of -inf that is inf, of -0.0 it is 0.0."""
    if exponent not in (0.5, -0.5):
        return _power(x, exponent)
    root, endless = (x + 0.0).sqrt(), x.op("eq", -math.inf)
    return endless.where(math.inf, root) if exponent > 0 else endless.where(0.0, 1 / root)


F16_ON_CPU: dict[str, Callable[..., Term]] = {"aten.pow.Tensor_Scalar": _pow}
