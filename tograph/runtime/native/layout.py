"""Where torch keeps what in its objects: found out at run time, by looking.

A call path in machine code reads a tensor's type, sizes, strides and dispatch keys straight from memory. No offset is written
down here: each is found by making tensors that differ in one thing and searching for the difference, and then checked on
other tensors. Where anything is not as expected ``layout()`` is None and calls take the Python path.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Any

import torch

MAX_RANK = 4  # sizes of up to five dims are inside the object; one less is checked
_WORDS = 24
SAMPLES = 16  # tensors that are looked at together: padding holds anything, but not the same in all of them
DTYPES = {torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5,
          torch.float32: 6, torch.float64: 7, torch.complex64: 9, torch.complex128: 10, torch.bool: 11, torch.bfloat16: 15}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """Byte offsets: of the C++ tensor in the Python object, and of its fields in the C++ tensor."""

    tensor: int
    keys: int
    plain: int  # the dispatch keys of a plain CPU tensor
    sizes: int
    strides: int
    dtype: int


def _words(address: int) -> list[int]:
    return list((ctypes.c_uint64 * _WORDS).from_address(address))


def _find(tensors: list[list[int]], pattern: list[int]) -> int:
    """The only byte offset at which all tensors have these consecutive words; LookupError unless there is exactly one."""
    n = len(pattern)
    found = [i for i in range(_WORDS - n + 1) if all(words[i : i + n] == pattern for words in tensors)]  # fmt: skip
    if len(found) != 1:
        raise LookupError("a field of a tensor was not found")
    return 8 * found[0]


def _tensor_offset(x: torch.Tensor) -> int:
    found = [k for k in range(0, 64, 8) if ctypes.c_uint64.from_address(id(x) + k).value == x._cdata]  # fmt: skip
    if not found:
        raise LookupError("the C++ tensor was not found")
    return found[0]


def _dtype_offset() -> int:
    """The two bytes that differ as the dtypes do."""
    made = {d: torch.empty(3, dtype=d) for d in DTYPES}
    for at in range(0, 8 * _WORDS, 2):
        if all(ctypes.c_uint16.from_address(x._cdata + at).value == DTYPES[d] for d, x in made.items()):  # fmt: skip
            return at
    raise LookupError("the dtype was not found")


@functools.cache
def layout() -> Layout | None:
    """The layout of this torch, or None."""
    try:
        with torch.inference_mode(False):  # tensors made there have other keys
            return _checked(_probe())
    except (LookupError, AttributeError):
        return None


def _probe() -> Layout:
    made = [torch.empty(11, 13, 17) for _ in range(SAMPLES)]
    x, words = made[0], [_words(x._cdata) for x in made]
    plain = torch._C._dispatch_keys(x).raw_repr()
    return Layout(
        _tensor_offset(x),
        _find(words, [plain]),
        plain,
        _find(words, [3, 11, 13, 17]) + 8,
        _find(words, [221, 17, 1]),
        _dtype_offset(),
    )


def _checked(found: Layout) -> Layout:
    """``found``, if it holds for other tensors too."""
    for x in (torch.zeros(2, 3, dtype=torch.int64), torch.zeros(4, 7).t(), torch.zeros(())):
        words = _words(x._cdata)
        at = found.sizes // 8
        sizes, strides = words[at : at + x.dim()], words[found.strides // 8 :][: x.dim()]
        if sizes != list(x.shape) or strides != list(x.stride()) or words[at - 1] != x.dim():
            raise LookupError("sizes or strides are elsewhere")
        if words[found.keys // 8] != found.plain:
            raise LookupError("keys are elsewhere")
    others: list[Any] = [torch.zeros(2, device="meta"), torch.zeros(2, dtype=torch.complex64).conj()]  # fmt: skip
    if any(_words(x._cdata)[found.keys // 8] == found.plain for x in others):
        raise LookupError("other tensors have the keys of plain ones")
    return found
