"""One item of a tensor written in place, as a Triton kernel: ``x[..., n, ...] = row`` for a number that the device knows.

The number is in memory, or a constant. One out of range sets the error code and writes nothing; neither does a kernel whose
``ACTIVE`` cell is false: the body of a loop that has ended already.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..shapes import Meta
from ..types import DTYPE_NAMES
from .loop_ir import INDEX_OUT_OF_RANGE
from .tiles import power_of_two
from .triton_ops import SIGNATURE
from .triton_source import ERROR, HEADER, Source, parameters

ACTIVE = "active"
BLOCK = 1024


def render(
    name: str, x: Meta, row: Meta, dim: int, index: int | None = None, comment: str = ""
) -> Source:
    """The kernel for a contiguous ``x`` and a ``row`` of any strides. Parameters: x, row, at (without ``index``), error, active."""
    before, n, after = math.prod(x.size[:dim]), x.size[dim], math.prod(x.size[dim + 1 :])
    count = before * after
    kind = SIGNATURE[DTYPE_NAMES[x.dtype]]
    signature = {"x": f"*{kind}", "row": f"*{kind}", ACTIVE: "*i1"}
    if index is None:
        signature |= {"at": "*i64", ERROR: "*i32"}
    block = min(power_of_two(max(count, 1)), BLOCK)
    lines = [
        "i = tl.program_id(0).to(tl.int64) * XBLOCK + tl.arange(0, XBLOCK)",
        f"go = tl.load({ACTIVE}) != 0",
    ]
    if index is None:
        lines += [
            "n = tl.load(at)",
            f"n = tl.where(n < 0, n + {n}, n)",
            f"inside = (n >= 0) & (n < {n})",
            f"tl.store({ERROR}, {INDEX_OUT_OF_RANGE}, go & (inside == 0))",
            "go = go & inside",
        ]
    place = "n" if index is None else str(index % n)
    lines += [
        f"mask = (i < {count}) & go",
        f"value = tl.load(row + {_offset(row.size, row.stride)}, mask, other=0)",
        f"tl.store(x + (i // {after} * {n} + {place}) * {after} + i % {after}, value, mask)",
    ]
    head = f"\n\n{comment}@triton.jit\ndef {name}({parameters(signature, {'XBLOCK': block})}):\n"
    text = HEADER + head + "".join(f"    {line}\n" for line in lines)
    programs = -(-count // block)
    return Source(name, text, signature, {"XBLOCK": block}, programs, max(min(block // 128, 8), 1))


def _offset(size: Sequence[int], stride: Sequence[int]) -> str:
    """Where element number ``i`` of a tensor is."""
    terms, inner = [], 1
    for n, s in zip(reversed(size), reversed(stride)):
        if n > 1 and s:
            terms.append(f"i // {inner} % {n} * {s}")
        inner *= n
    return " + ".join(reversed(terms)) or "i * 0"
