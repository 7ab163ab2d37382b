"""Ranges: how long one is, also where ``len`` does not take it, and ``range(n) == range(m)`` with staged bounds, whether both give the same numbers, as Python compares them."""

from __future__ import annotations

from typing import Any


def same_numbers(a: Any, b: Any) -> Any:
    """Whether two ranges have as many numbers, begin with the same one and go on by the same step, where they have a second."""
    if getattr(a, "tensors", False) or getattr(b, "tensors", False):
        return a is b
    count = _length(a)
    steps = (count == 1) | (a.step == b.step)
    return (count == _length(b)) & ((count == 0) | ((a.start == b.start) & steps))


def _length(x: Any) -> Any:
    return range_length(x) if isinstance(x, range) else x.length()


def range_length(x: range) -> int:
    """How many numbers a range has: as many as ever."""
    return max(0, -((x.start - x.stop) // x.step))
