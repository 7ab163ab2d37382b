"""Triton kernels started through the driver, from their machine code: for machines without a C compiler.

Triton's launcher is C code that it compiles at run time. Here a kernel is compiled ahead of time for the device, loaded as a
module, and started with its parameters packed as its signature says: pointers, 64-bit numbers, bytes for bools, and the
two pointers to scratch memory that every Triton kernel takes last, null where it needs none. Not yet seen on a GPU.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

import torch

from . import driver, triton_jit
from .loop_ir import Unsupported
from .triton_text import Source

ALIGNMENT = 16  # bytes at which vector access may start
SCRATCH = [0, 0]  # the addresses that every kernel of Triton takes last
_WORD = (1 << 64) - 1
_loaded: dict[Any, tuple[driver.Function, int]] = {}


def start(source: Source, arguments: dict[str, Any]) -> None:
    """Start a kernel on the current stream of the device of its tensors. ``Unsupported`` where it does not compile."""
    values, odd, place = [], 0, None  # odd: a bit for each pointer that is not aligned
    for k, (name, kind) in enumerate(source.signature.items()):
        x = arguments[name]
        if kind[0] != "*":
            values.append(_number(kind, x))
            continue
        values.append(x.data_ptr())
        if values[-1] % ALIGNMENT:
            odd |= 1 << k
        if place is None and x.device.index is not None:  # memory of the host has none
            place = x.device
    index = 0 if place is None else place.index
    found = _loaded.get((source.text, source.name, index, odd))
    if found is None:
        found = _loaded[source.text, source.name, index, odd] = _load(source, architecture(index), _aligned(source, odd))  # fmt: skip
    function, warps = found
    function.start(source.programs, 32 * warps, values + SCRATCH, driver.current_stream(place))


def _aligned(source: Source, odd: int) -> frozenset[str]:
    return frozenset(n for k, (n, kind) in enumerate(source.signature.items()) if kind[0] == "*" and not odd >> k & 1)  # fmt: skip


@functools.cache
def architecture(index: int) -> str:
    """A device's, as "sm_90"."""
    major, minor = torch.cuda.get_device_capability(index)
    return f"sm_{major}{minor}"


def _load(source: Source, place: str, aligned: frozenset[str]) -> tuple[driver.Function, int]:
    binary = triton_jit.compiled(source, place, aligned)
    if any(binary.scratch):
        raise Unsupported("a kernel that needs scratch memory")
    made = driver.Function(binary.asm["cubin"], source.name, binary.shared)
    made.expect(sizes(source))
    return made, binary.warps


def sizes(source: Source) -> list[int]:
    """Those of a kernel's parameters in bytes: what a signature says, and two pointers to scratch memory."""
    return [*(1 if kind == "u1" else 8 for kind in source.signature.values()), 8, 8]


def pack(source: Source, arguments: dict[str, Any]) -> list[int]:
    """The values of a kernel's parameters, in order, each as the bits of a 64-bit word."""
    found = (arguments[n].data_ptr() if kind[0] == "*" else _number(kind, arguments[n]) for n, kind in source.signature.items())  # fmt: skip
    return [*found, *SCRATCH]


def _number(kind: str, x: Any) -> int:
    """The bits of a number; a parameter of fewer takes the first ones."""
    if kind == "fp64":
        return int.from_bytes(struct.pack("<d", x), "little")
    return int(x) & _WORD
