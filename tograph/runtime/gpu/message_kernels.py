"""The kernels of messages: one that writes a message into the ring, and one that says whether a loop goes on.

Both are one program of one warp. A message is written where the plan has not failed so far, since eager PyTorch would not have come
as far; one that there is no room for is an error of a code of its own (``FULL``), and the graph is planned again with a larger ring.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch

from ..graph.types import DTYPE_NAMES
from ..inference.shapes import Meta
from ..kernels.tiles import offset, power_of_two
from ..kernels.triton_loops import ACTIVE
from ..kernels.triton_ops import SIGNATURE
from ..kernels.triton_source import ERROR, HEADER, Source
from .ring import Ring
from .steps import Cell, Place, Run

FULL = 6  # the error code of a ring that has no room for a message


def message(name: str, site: int, values: Sequence[Meta], words: int) -> Source:
    """The kernel that writes message ``site``. Parameters: position, active, error, value0, value1, ..., memory (of ``words`` words)."""
    kinds = [SIGNATURE[DTYPE_NAMES[m.dtype]] for m in values]
    named = {f"value{k}": f"*{kind}" for k, kind in enumerate(kinds)}
    signature = {"position": "*i64", ACTIVE: "*i1", ERROR: "*i32", **named, "memory": "*i64"}
    size = length(values)
    lines = [
        "at = tl.load(position)",
        f"wanted = (tl.load({ACTIVE}) != 0) & (tl.load({ERROR}) == 0)",
        f"go = wanted & (at + {size} <= {words})",
        f"tl.store({ERROR}, {FULL}, wanted & (at + {size} > {words}))",
        f"tl.store(memory + at, {site}, go)",
    ]
    start = 1
    for k, meta in enumerate(values):
        lines += _value(k, meta, start)
        start += prod(meta.size)
    lines.append(f"tl.store(position, at + {size}, go)")
    return _source(name, signature, lines)


def length(values: Sequence[Meta]) -> int:
    """The words of a message."""
    return 1 + sum(prod(m.size) for m in values)


def _value(k: int, meta: Meta, start: int) -> list[str]:
    count = prod(meta.size)
    if not count:
        return []
    return [
        f"i = tl.arange(0, {power_of_two(count)})",
        f"value = tl.load(value{k} + {offset(meta.size, meta.stride)}, (i < {count}) & go, other=0)",
        f"tl.store(memory + at + {start} + i, {_word(meta.dtype)}, (i < {count}) & go)",
    ]


def _word(dtype: torch.dtype) -> str:
    """An element as 64 bits."""
    if not dtype.is_floating_point:
        return "value.to(tl.int64)"
    return f"value.to(tl.int{8 * dtype.itemsize}, bitcast=True).to(tl.int64)"


def pause(name: str, limit: int) -> Source:
    """The kernel of ``go = test``, false where the ring is more than half full, or has a message and the host asks for it.

    Parameters: position, test, go, asked.
    """
    lines = [
        "at = tl.load(position)",
        "asks = tl.load(asked, at > 0, other=0, volatile=True) != 0",
        f"tl.store(go, (tl.load(test) != 0) & (at <= {limit}) & (asks == 0))",
    ]
    return _source(name, {"position": "*i64", "test": "*i1", "go": "*i1", "asked": "*i64"}, lines)


def paused(ring: Ring, name: str, test: Place, go: Cell) -> Run:
    """The step of ``go = test``, false where a loop with messages is to come back."""
    given = {"position": ring.position, "test": test, "go": go, "asked": ring.asked}
    return Run(pause(name, ring.limit), given, None, frozenset(["go"]))


def _source(name: str, signature: dict[str, str], lines: Sequence[str]) -> Source:
    text = f"{HEADER}\n\n@triton.jit\ndef {name}({', '.join(signature)}):\n"
    return Source(name, text + "".join(f"    {line}\n" for line in lines), signature, {}, 1, 1)
