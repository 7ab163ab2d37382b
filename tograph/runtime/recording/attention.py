"""Attention on a GPU is recorded as its formula.

torch has kernels of their own for it there, and picks one while a call is traced. What they give is more than tensors (numbers, states of
generators), their gradients read that back, and which one runs follows from the device. The formula is products and a softmax, which a plan
knows, and their gradients; on a CPU torch's kernel stays, which gives tensors only. Not yet seen on a GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch
from torch.nn.attention import SDPBackend
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ..symbols import devices

_MATH = int(SDPBackend.MATH)  # type: ignore[call-overload]


@contextmanager
def by_formula() -> Iterator[None]:
    """Inside, ``scaled_dot_product_attention`` of tensors on a GPU is its formula."""
    there = torch.cuda.is_available()
    if not there and not torch.backends.cuda.is_built():
        yield
        return
    used = torch.cuda.is_initialized() or not there
    if used:
        _order_of_the_device()
    before = _formula_first()

    def begins() -> None:
        """A tensor of the device, by its description only: torch would ask for the order in the trace."""
        nonlocal before
        _set(*before)
        _order_of_the_device()
        before = _formula_first()

    if not used:  # tensors of a CPU do not begin to use the device
        devices.pending.append(begins)
    try:
        yield
    finally:
        devices.pending.clear()
        _set(*before)


def _formula_first() -> tuple[list[int], bool, bool]:
    """Put the formula first; what was set before."""
    c = torch._C
    # The switch of the flash kernel is the CPU's too: that one is put behind the formula instead.
    order = list(c._get_sdp_priority_order())
    switches = c._get_mem_efficient_sdp_enabled(), c._get_cudnn_sdp_enabled()
    _set([_MATH, *(k for k in order if k != _MATH)], False, False)
    return order, *switches


@functools.cache
def _order_of_the_device() -> None:
    """Have torch set its order of kernels now, if it has not yet.

    It does so where it is first asked for a kernel, and puts cuDNN's first on Hopper: in a trace the formula would no longer be the first one.
    """
    with suppress(RuntimeError), _disable_current_modes(), torch._C.DisableTorchFunction():
        _ask_for_a_kernel()


class _Outline(torch.Tensor):
    """A tensor without memory."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError(f"{func} of no memory")


class _Refusing(TorchDispatchMode):
    """What is done with tensors is an error, before torch looks at their classes: torch 2.11 imports ``torch.distributed.tensor`` for that."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise RuntimeError(f"{func} of no memory")


def _ask_for_a_kernel() -> None:
    """An error, behind the question."""
    q = torch.Tensor._make_wrapper_subclass(_Outline, (1, 1, 1, 8), dtype=torch.float16, device="cuda:0")  # fmt: skip
    with _Refusing():
        torch.nn.functional.scaled_dot_product_attention(q, q, q)


def _set(order: list[int], efficient: bool, cudnn: bool) -> None:
    torch._C._set_sdp_priority_order(order)
    torch._C._set_sdp_use_mem_efficient(efficient)
    torch._C._set_sdp_use_cudnn(cudnn)
