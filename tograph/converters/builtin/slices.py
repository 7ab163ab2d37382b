"""``slice.indices`` of bounds or a length that only the run knows: the rules of Python's documentation."""

from __future__ import annotations

from typing import Any

from ..call_rules import DECIDING
from ..calls import call
from ..registry import METHODS
from ..staging import is_staged


def indices(self: slice, length: Any) -> tuple[Any, Any, Any]:
    bounds = (self.start, self.stop, self.step)
    if not any(map(is_staged, (*bounds, length))):
        return self.indices(length)
    return call(_indices, *bounds, length)


def _indices(start, stop, step, length):
    if length < 0:
        raise ValueError("length should not be negative")
    step = 1 if step is None else step
    if step == 0:
        raise ValueError("slice step cannot be zero")
    forward = step > 0
    least = 0 if forward else -1
    most = length if forward else length - 1
    if start is None:
        start = least if forward else most
    else:
        start = _within(start, length, least, most)
    if stop is None:
        stop = most if forward else least
    else:
        stop = _within(stop, length, least, most)
    return start, stop, step


def _within(bound, length, least, most):
    """A bound, of which a negative one counts from the end."""
    if bound < 0:
        return max(bound + length, least)
    return min(bound, most)


DECIDING.update((_indices, _within))
METHODS[slice, "indices"] = indices
