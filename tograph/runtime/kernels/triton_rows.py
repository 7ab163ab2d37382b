"""One item of a tensor written in place, or read, as a Triton kernel: ``x[..., n, ...]`` for a number that the device knows.

The number is in memory, or a constant. One out of range sets the error code and writes nothing; neither does a kernel whose
``ACTIVE`` cell is false: the body of a loop that has ended already.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..graph.types import DTYPE_NAMES
from ..inference.shapes import Meta
from .loop_ir import INDEX_OUT_OF_RANGE
from .tiles import offset, power_of_two
from .triton_loops import ACTIVE
from .triton_ops import SIGNATURE
from .triton_text import ERROR, HEADER, Source, parameters

BLOCK = 1024


def part(x: Meta, path: Sequence[tuple[int, int]]) -> tuple[Meta, int]:
    """(the part of a tensor at a path of dims and indices, where it begins in the tensor's memory)."""
    start = 0
    for d, i in path:
        start += i * x.stride[d]
        x = x._replace(size=(*x.size[:d], *x.size[d + 1 :]), stride=(*x.stride[:d], *x.stride[d + 1 :]))  # fmt: skip
    return x, start


def render(
    name: str,
    x: Meta,
    row: Meta,
    dim: int,
    index: int | None = None,
    sure: bool = False,
    start: int = 0,
) -> Source:
    """The kernel for an ``x`` and a ``row`` of any strides. Parameters: x, row, at (without ``index``), error, active.

    ``sure``: the number is known to be in range. ``start``: where ``x`` begins in the memory that the kernel is given.
    """
    n, size = x.size[dim], [*x.size[:dim], *x.size[dim + 1 :]]
    stride = [*x.stride[:dim], *x.stride[dim + 1 :]]
    count = math.prod(size)
    kind = SIGNATURE[DTYPE_NAMES[x.dtype]]
    signature = {"x": f"*{kind}", "row": f"*{kind}", ACTIVE: "*i1"}
    if index is None:
        signature |= {"at": "*i64"} if sure else {"at": "*i64", ERROR: "*i32"}
    block = min(power_of_two(max(count, 1)), BLOCK)
    lines = [
        "i = tl.program_id(0).to(tl.int64) * XBLOCK + tl.arange(0, XBLOCK)",
        f"go = tl.load({ACTIVE}) != 0",
    ]
    if index is None:
        lines += ["n = tl.load(at)", f"n = tl.where(n < 0, n + {n}, n)"]
        lines += [] if sure else _guard(n, "go & ")
        lines += [] if sure else ["go = go & inside"]
    place = "n" if index is None else str(index % n)
    lines += [
        f"mask = (i < {count}) & go",
        f"value = tl.load(row + {offset(row.size, row.stride)}, mask, other=0)",
        f"tl.store(x + {start} + {place} * {x.stride[dim]} + {offset(size, stride)}, value, mask)",
    ]
    return _source(name, signature, lines, count, block)


def item(name: str, x: Meta, dim: int, sure: bool = False) -> Source:
    """The kernel of ``row = x[..., n, ...]`` for a number in memory. Parameters: x, at, error (unless ``sure``), row."""
    kind, n = SIGNATURE[DTYPE_NAMES[x.dtype]], x.size[dim]
    size, stride = [*x.size[:dim], *x.size[dim + 1 :]], [*x.stride[:dim], *x.stride[dim + 1 :]]
    count = math.prod(size)
    signature = {"x": f"*{kind}", "at": "*i64"} | ({} if sure else {ERROR: "*i32"}) | {"row": f"*{kind}"}  # fmt: skip
    block = min(power_of_two(max(count, 1)), BLOCK)
    lines = [
        "i = tl.program_id(0).to(tl.int64) * XBLOCK + tl.arange(0, XBLOCK)",
        "n = tl.load(at)",
        f"n = tl.where(n < 0, n + {n}, n)",
        *([] if sure else _guard(n)),
        f"mask = i < {count}" if sure else f"mask = (i < {count}) & inside",
        f"value = tl.load(x + n * {x.stride[dim]} + {offset(size, stride)}, mask, other=0)",
        f"tl.store(row + i, value, i < {count})",
    ]
    return _source(name, signature, lines, count, block)


def _guard(n: int, where: str = "") -> list[str]:
    """Lines that set the error code for a number out of range."""
    inside = f"inside = (n >= 0) & (n < {n})"
    return [inside, f"tl.store({ERROR}, {INDEX_OUT_OF_RANGE}, {where}(inside == 0))"]


def _source(name: str, signature: dict[str, str], lines: Sequence[str], count: int, block: int) -> Source:  # fmt: skip
    head = f"\n\n@triton.jit\ndef {name}({parameters(signature, {'XBLOCK': block})}):\n"
    text = HEADER + head + "".join(f"    {line}\n" for line in lines)
    warps = max(min(block // 128, 8), 1)
    return Source(name, text, signature, {"XBLOCK": block}, -(-count // block), warps)
