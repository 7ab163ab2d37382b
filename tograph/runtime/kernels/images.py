"""Triton kernels started through the driver, from their machine code: for machines without a C compiler.

Triton's launcher is C code that it compiles at run time. Here a kernel is compiled ahead of time for the device, loaded as a
module, and started with its parameters packed as its signature says: pointers, 64-bit numbers, bytes for bools, and the
two pointers to scratch memory that every Triton kernel takes last, null where it needs none. Not yet seen on a GPU.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import torch

from . import driver, triton_jit
from .loop_ir import Unsupported
from .triton_text import Source

ALIGNMENT = 16  # bytes at which vector access may start
_NUMBERS = {"i64": ctypes.c_int64, "fp64": ctypes.c_double, "u1": ctypes.c_uint8}
_loaded: dict[Any, tuple[driver.Function, int]] = {}


def start(source: Source, arguments: dict[str, Any]) -> None:
    """Start a kernel on the current stream of the device of its tensors. ``Unsupported`` where it does not compile."""
    device = next(x.device for x in arguments.values() if isinstance(x, torch.Tensor))
    aligned = frozenset(n for n, kind in source.signature.items() if kind.startswith("*") and arguments[n].data_ptr() % ALIGNMENT == 0)  # fmt: skip
    key = (source.text, source.name, device.index, aligned)
    if key not in _loaded:
        _loaded[key] = _load(source, architecture(device.index or 0), aligned)
    function, warps = _loaded[key]
    stream = torch.cuda.current_stream(device).cuda_stream
    function.start(source.programs, 32 * warps, pack(source, arguments), stream)


@functools.cache
def architecture(index: int) -> str:
    """A device's, as "sm_90"."""
    major, minor = torch.cuda.get_device_capability(index)
    return f"sm_{major}{minor}"


def _load(source: Source, place: str, aligned: frozenset[str]) -> tuple[driver.Function, int]:
    binary = triton_jit.compiled(source, place, aligned)
    if any(binary.scratch):
        raise Unsupported("a kernel that needs scratch memory")
    return driver.Function(binary.asm["cubin"], source.name, binary.shared), binary.warps


def pack(source: Source, arguments: dict[str, Any]) -> list[Any]:
    """The values of a kernel's parameters as ctypes, in order."""
    packed = [
        ctypes.c_uint64(arguments[n].data_ptr())
        if kind.startswith("*")
        else _NUMBERS[kind](arguments[n])
        for n, kind in source.signature.items()
    ]
    return [*packed, ctypes.c_uint64(0), ctypes.c_uint64(0)]
