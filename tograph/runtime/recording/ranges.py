"""``torch.arange`` between numbers of the run that are a known number apart: the positions ``torch.arange(n, n + 1)`` of tokens behind a cache.

They are ``n + arange(1)``, of a size that is known to the code and the graph. Ends that are not, or that are floats, make a range of a size that only the run knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..symbols.funcgraph import current_graph
from ..symbols.proofs import Numbers
from ..values import facts
from .parts import depends, number

aten = torch.ops.aten


def counted(record: Callable[..., Any], func: Any) -> Callable[..., Any]:
    """``aten.arange`` with a start, recorded by ``record``."""

    def run(start: Any, stop: Any, step: Any = 1, **options: Any) -> Any:
        count = _count(start, stop, step)
        if count is None:
            return record(
                func, (start, stop) if func is aten.arange.start else (start, stop, step), options
            )
        places = {"device": options.get("device")}
        made = record(aten.arange.default, (count,), places | {"dtype": torch.int64})
        made = made if step == 1 else record(aten.mul.Tensor, (made, step), {})
        made = record(aten.add.Tensor, (made, start), {})
        dtype = options.get("dtype")
        return (
            made
            if dtype in (None, torch.int64)
            else record(aten._to_copy.default, (made,), {"dtype": dtype})
        )

    return run


def _count(start: Any, stop: Any, step: Any) -> int | None:
    """How many numbers the range has, where that is proved."""
    if (
        not any(isinstance(n, torch.SymInt) for n in (start, stop))
        or type(step) is not int
        or not step
    ):
        return None
    if not all(type(n) in (int, torch.SymInt) for n in (start, stop)):
        return None
    if torch._C._current_autograd_node() is not None:
        return None
    numbers = Numbers(current_graph(), facts.conditions())
    ends = [number(n) for n in (start, stop)]
    apart = numbers.sum(ends[1]) - numbers.sum(ends[0])
    if apart.terms:
        numbers.want(ends)
        return None
    if apart.constant * step < 0:
        return None
    depends(numbers)
    return len(range(0, apart.constant, step))
