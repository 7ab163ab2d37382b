"""Bytes beside a number that only the run knows: whether it is one of them is asked (``sequence_index`` has the one at a place), bytes made of it are refused."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import StagingError
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.symbols.funcgraph import user_location
from ..runtime.symbols.required import require
from ..runtime.symbols.scalars import to_python
from ..runtime.symbols.symbolic import scalar_of
from ..runtime.traces.shown import shows_staged
from .logical import or_


def within(x: Any, items: bytes | bytearray) -> Any:
    """``x in items``"""
    if isinstance(x, torch.Tensor):
        x = scalar_of(x)
    if isinstance(x, torch.SymBool):
        x = to_python(x, "int")
    if not isinstance(x, torch.SymInt):
        kind = x.node.kind.__name__ if isinstance(x, SYMBOLS) else type(x).__name__
        raise TypeError(f"a bytes-like object is required, not '{kind}'")
    require((x >= 0) & (x < 256), ValueError("byte must be in range(0, 256)"))
    found: Any = False
    for item in dict.fromkeys(items):
        found = or_(found, lambda item=item: x == item)
    return found


def refuse(what: str, *values: Any) -> None:
    """StagingError for bytes that are made of values of the run."""
    if any(map(shows_staged, values)):
        raise StagingError(
            f"{what} takes what Python knows, and was given a value that is known only when the graph runs: use a list or tensor of "
            "numbers, or a str, or make the bytes outside of the function",
            user_location(),
        )
