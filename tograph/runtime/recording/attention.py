"""Attention on a GPU is recorded as its formula.

torch has kernels of their own for it there, and picks one while a call is traced. What they give is more than tensors (numbers, states of
generators), their gradients read that back, and which one runs follows from the device. The formula is products and a softmax, which a plan
knows, and their gradients; on a CPU torch's kernel stays, which gives tensors only. Not yet seen on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.attention import SDPBackend

_MATH = int(SDPBackend.MATH)  # type: ignore[call-overload]


@contextmanager
def by_formula() -> Iterator[None]:
    """Inside, ``scaled_dot_product_attention`` of tensors on a GPU is its formula."""
    if not torch.cuda.is_available():
        yield
        return
    c = torch._C
    # The switch of the flash kernel is the CPU's too: that one is put behind the formula instead.
    order = list(c._get_sdp_priority_order())
    switches = c._get_mem_efficient_sdp_enabled(), c._get_cudnn_sdp_enabled()
    _set([_MATH, *(k for k in order if k != _MATH)], False, False)
    try:
        yield
    finally:
        _set(order, *switches)


def _set(order: list[int], efficient: bool, cudnn: bool) -> None:
    torch._C._set_sdp_priority_order(order)
    torch._C._set_sdp_use_mem_efficient(efficient)
    torch._C._set_sdp_use_cudnn(cudnn)
