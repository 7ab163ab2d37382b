"""``narrow`` with a start, a length or a size that only the run knows.

torch's ``narrow`` is C++ that checks its arguments and then slices. Of sizes that are not known yet it takes the checks to hold, and a slice cuts off
what is out of range; so the checks are made here, when the graph runs.
"""

from __future__ import annotations

from typing import Any

import torch

from ..symbols.products import is_open
from ..symbols.required import require
from ..values import facts


def is_staged(input: Any, start: Any, length: Any) -> bool:
    """Whether only the run knows if the arguments of ``narrow`` are in range."""
    return is_open(input) or not (type(start) is int and type(length) is int)


def narrow(input: Any, dim: int, start: Any, length: Any) -> Any:
    """``torch.narrow``: a view of ``length`` elements along ``dim`` from ``start`` on, which counts from the end where it is negative.

    RuntimeError and IndexError, when the graph runs, for what is out of range.
    """
    if not input.dim():
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, torch.Tensor) and (start.dim() or not _is_whole(start.dtype)):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    start, length = (n.item() if isinstance(n, torch.Tensor) else n for n in (start, length))
    if any(isinstance(n, (float, torch.SymFloat)) for n in (start, length)):
        raise TypeError("narrow() takes a start and a length that are whole numbers, and got a float: write int(...) around it")  # fmt: skip
    size = input.shape[dim]
    _require(length >= 0, RuntimeError("narrow(): length must be non-negative."))
    error = IndexError("start out of range (expected to be from minus the dimension size to the dimension size)")  # fmt: skip
    _require(start >= -size, error)
    _require(start <= size, error)
    first = _from_the_front(start, size)
    _require(first + length <= size, RuntimeError("start + length exceeds dimension size"))
    return torch.ops.aten.slice.Tensor(input, dim, first, first + length)


def _is_whole(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)


def _require(holds: Any, error: Exception) -> None:
    require(holds, error)
    facts.learn(holds, True)


def _from_the_front(start: Any, size: Any) -> Any:
    """``start``, or what is as far from the end where it is negative."""
    negative = start < 0
    if isinstance(negative, bool):
        return start + size if negative else start
    return torch.SymInt(negative.node.sym_ite((start + size).node, start.node))
