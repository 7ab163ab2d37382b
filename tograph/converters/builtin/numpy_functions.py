"""Functions of numpy on staged numbers, in f64 as numpy computes them: infinite or NaN where ``math`` raises; those of one argument also
on tensors, as they give a tensor for a tensor.

What they give is a number of Python, as of arithmetic with numbers of numpy. Where numpy gives a small integer, or what its version
says (``np.floor`` of an int), the call is refused as that of any other function of numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ...runtime.inference.shapes import SYMBOLS
from ...runtime.symbols.scalars import of_numpy
from .. import number_arrays
from ..left_alone import leave_alone
from .forms import unless_staged


def _kind(x: Any) -> type | None:
    """``int`` or ``float``; None for what is no number, or a bool."""
    kind = x.node.kind if isinstance(x, SYMBOLS) else type(x)
    return next((k for k in (int, float) if kind is k or (k is float and kind is np.float64)), None)


def _tensor(x: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.scalar_tensor(x, dtype=dtype, device="cpu")


def _is_array(x: Any) -> bool:
    """Whether functions of numpy take ``x`` as an array, and give a tensor of its type."""
    if not isinstance(x, torch.Tensor) or x.dtype not in (torch.float32, torch.float64):
        return False
    return x.device.type == "cpu" and not x.requires_grad


def _form(function: Any, of: Callable[..., torch.Tensor], kinds: tuple[type, ...], whole: bool) -> None:  # fmt: skip
    """``function`` of numbers of these ``kinds`` by ``of``; ``whole``: integers give integers."""

    def form(*args: Any, **options: Any) -> Any:
        if not options and len(args) == 1 and _is_array(args[0]):
            found = of(args[0].detach())
            return found.to(torch.uint8) if found.dtype == torch.bool else found
        given = [_kind(a) for a in args]
        if options or not given or not all(k in kinds for k in given):
            return leave_alone(function, args, options)
        dtype = torch.int64 if whole and float not in given else torch.float64
        return of_numpy(of(*(_tensor(a, dtype) for a in args)).item())

    unless_staged(function)(form)


OF_FLOATS = ("sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh",
              "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "deg2rad", "rad2deg", "arctan2", "hypot", "logaddexp", "isnan", "isinf", "isfinite")  # fmt: skip
for _name in OF_FLOATS:
    _form(getattr(np, _name), getattr(torch, _name), (int, float), whole=False)
for _name in ("floor", "ceil", "trunc", "copysign"):
    _form(getattr(np, _name), getattr(torch, _name), (float,), whole=False)
_form(np.rint, torch.round, (float,), whole=False)
_form(np.power, torch.pow, (float,), whole=False)
_form(np.fabs, torch.abs, (int, float), whole=False)
_form(np.sign, lambda x: torch.where(x == x, torch.sign(x), x), (int, float), whole=True)
for _name in ("abs", "square", "maximum", "minimum"):
    _form(getattr(np, _name), getattr(torch, _name), (int, float), whole=True)


def _truth(function: Any, of: Callable[..., torch.Tensor]) -> None:
    """``function`` of bools and numbers, each of which counts as whether it is not 0."""

    def form(*args: Any, **options: Any) -> Any:
        if options or not all(isinstance(a, (bool, np.bool_)) or _kind(a) or _is_bool(a) for a in args):  # fmt: skip
            return leave_alone(function, args, options)
        return of_numpy(of(*(_tensor(a != 0, torch.bool) for a in args)).item())

    unless_staged(function)(form)


def _is_bool(x: Any) -> bool:
    return isinstance(x, SYMBOLS) and x.node.kind is bool


for _name in ("and", "or", "xor", "not"):
    _truth(getattr(np, f"logical_{_name}"), getattr(torch, f"logical_{_name}"))


@unless_staged(np.clip)
def clip(a: Any, a_min: Any = None, a_max: Any = None, *rest: Any, **options: Any) -> Any:
    bounds = [b for b in (a_min, a_max) if b is not None]
    kinds = {_kind(v) for v in (a, *bounds)}
    if rest or options or None in kinds or not bounds:
        return leave_alone(np.clip, (a, a_min, a_max, *rest), options)
    dtype = torch.float64 if float in kinds else torch.int64
    made = _tensor(a, dtype)
    if a_min is not None:
        made = torch.maximum(made, _tensor(a_min, dtype))
    if a_max is not None:
        made = torch.minimum(made, _tensor(a_max, dtype))
    return made.item()


@unless_staged(np.arange)
def arange(*args: Any, **options: Any) -> Any:
    if options or len(args) > 3 or not all(map(_kind, args)):
        return leave_alone(np.arange, args, options)
    return number_arrays.arange(*args)
