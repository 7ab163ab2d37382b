"""Normalisations whose ``eps`` is a number that only the run knows: torch's take a plain one in C++.

They are written with ops that take any number; who calls them has let torch check the other arguments. ``FORMS`` has them by torch's function; each takes all arguments of that, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from ...runtime.recording.tracing import suspended
from ..call_rules import DECIDING
from ..calls import call

HALVES = (torch.float16, torch.bfloat16)


def wide(x: torch.Tensor) -> torch.Tensor:
    """``x`` as torch computes with it: half precision in single."""
    return x.float() if x.dtype in HALVES else x


def standardized(x: torch.Tensor, dims: tuple[int, ...], eps: Any) -> torch.Tensor:
    """``x``, which is ``wide``, with mean 0 and variance 1 over ``dims``."""
    centred = x - x.mean(dims, keepdim=True)
    return centred * (centred.square().mean(dims, keepdim=True) + eps).rsqrt()


def _by_channel(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """``values``, one for each channel, beside ``x``."""
    return values.reshape([-1] + [1] * (x.dim() - 2))


def _scaled(found: torch.Tensor, x: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
    found = found if weight is None else found * _by_channel(x, weight)
    return (found if bias is None else found + _by_channel(x, bias)).to(x.dtype)


def _group_norm(x, num_groups, weight, bias, eps):
    groups = wide(x).reshape(x.shape[0], num_groups, -1)
    return _scaled(standardized(groups, (2,), eps).reshape(x.shape), x, weight, bias)


def _batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps):
    """``F.batch_norm``; statistics are followed by who calls it."""
    call(_check_eps, eps, *(_refusal(bad, training) for bad in (-1.0, 0.0)))
    if training:
        dims = tuple(d for d in range(x.dim()) if d != 1)
        return _scaled(standardized(wide(x), dims, eps), x, weight, bias)
    centred = wide(x) - _by_channel(x, wide(running_mean))
    return _scaled(centred * (_by_channel(x, wide(running_var)) + eps).rsqrt(), x, weight, bias)


def _refusal(eps: float, training: bool) -> str | None:
    """What torch says of an ``eps``, without the number at the end; None where it takes it, which differs between releases."""
    with suspended():
        try:
            F.batch_norm(torch.zeros(2, 1), torch.zeros(1), torch.ones(1), training=training, eps=eps)  # fmt: skip
        except ValueError as error:
            return str(error).removesuffix(str(eps))
    return None


def _check_eps(eps, below, zero):
    if below is not None and eps < 0:
        raise ValueError(f"{below}{eps}")
    if zero is not None and eps == 0:
        raise ValueError(f"{zero}{eps}")


DECIDING.add(_check_eps)


def _instance_norm(x, running_mean, running_var, weight, bias, use_input_stats, momentum, eps):
    if not use_input_stats:
        return _batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    return _scaled(standardized(wide(x), tuple(range(2, x.dim())), eps), x, weight, bias)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """``F.rms_norm``"""
    F.rms_norm(input, normalized_shape, weight)  # torch's errors
    dims = tuple(range(-len(normalized_shape), 0))
    x = wide(input)
    found = x * (x.square().mean(dims, keepdim=True) + eps).rsqrt()
    return (found if weight is None else found * weight).to(input.dtype)


FORMS: dict[Any, Callable[..., Any]] = {
    F.group_norm: _group_norm,
    F.batch_norm: _batch_norm,
    F.instance_norm: _instance_norm,
}
