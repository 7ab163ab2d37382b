"""Tensors over memory at an address that somebody else keeps.

One storage stands for all memory from ``_FIRST`` on, and a tensor is a view of it: a third of the time of a storage of its own by the buffer
protocol, which is the way where torch has no such storage. Nothing may ask a tensor of these for its whole storage. They are operands of ops.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import torch

_FIRST = 64  # no tensor lies there
_BYTES = 1 << 62


def over(
    address: int, dtype: torch.dtype, size: Sequence[int], stride: Sequence[int]
) -> torch.Tensor:
    """A tensor of one or more elements at an address, which is a multiple of the size of one, or of none."""
    if 0 in size:
        return torch.empty(size, dtype=dtype)
    base = _bases.get(dtype)
    if base is None:
        return _by_buffer(address, dtype, size, stride)
    offset, rest = divmod(address - _FIRST, dtype.itemsize)
    return _by_buffer(address, dtype, size, stride) if rest else base.as_strided(size, stride, offset)  # fmt: skip


def _by_buffer(address: int, dtype: torch.dtype, size: Sequence[int], stride: Sequence[int]) -> torch.Tensor:  # fmt: skip
    length = 1 + sum((n - 1) * s for n, s in zip(size, stride))
    memory = (ctypes.c_char * (length * dtype.itemsize)).from_address(address)
    return torch.frombuffer(memory, dtype=dtype).as_strided(size, stride)


def _everything(make: Callable[..., torch.UntypedStorage]) -> dict[torch.dtype, torch.Tensor]:
    """For each dtype the tensor of no elements whose views are all tensors; none where these are not what lies at an address."""
    storage = make(_FIRST, torch.device("cpu"), _BYTES)
    bases = {t: torch.empty(0, dtype=t).set_(storage, 0, (0,), (1,)) for t in _DTYPES}
    seen = torch.arange(6)
    view = bases[seen.dtype].as_strided((3, 2), (1, 3), (seen.data_ptr() - _FIRST) // 8)
    same = view.data_ptr() == seen.data_ptr() and torch.equal(view, seen.view(2, 3).t())
    return bases if same else {}


_DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128, torch.bool,
           torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]  # fmt: skip
_MAKE = getattr(torch._C, "_construct_storage_from_data_pointer", None)
try:
    _bases = _everything(_MAKE) if _MAKE is not None else {}
except (TypeError, RuntimeError):  # another torch's takes other arguments, or looks at sizes
    _bases = {}
