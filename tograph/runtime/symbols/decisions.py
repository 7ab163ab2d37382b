"""What operators decided while a function was traced: staged, or left to Python, and why. For ``tograph explain``.

Nothing is recorded, at the cost of one test, unless a ``recorded()`` block is open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from ...errors import Location
from .funcgraph import user_location


class Decision(NamedTuple):
    """At ``location`` something was ``staged`` or left to Python, for a reason in words; ``state`` of the staged."""

    location: Location
    staged: bool
    why: str
    state: tuple[str, ...] = ()


_log: list[list[Decision]] = []


@contextmanager
def recorded() -> Iterator[list[Decision]]:
    """The decisions that are made inside."""
    found: list[Decision] = []
    _log.append(found)
    try:
        yield found
    finally:
        _log.remove(found)


def python(why: str, *values: Any) -> None:
    """The construct at the user's line runs as Python; ``why`` is formatted with ``values``."""
    if _log:
        _add(False, why.format(*map(_shown, values)))


def staged(construct: str, test: Any = None, places: Sequence[Any] = ()) -> None:
    """The construct at the user's line became part of the graph; ``test`` decides it, ``places`` are its state."""
    if _log:
        kind = "a tensor" if isinstance(test, torch.Tensor) else "a number that the graph computes"
        why = construct if test is None else f"{construct}: the condition is {kind}"
        _add(True, why, tuple(p.name for p in places if not p.scratch))


def _add(is_staged: bool, why: str, state: tuple[str, ...] = ()) -> None:
    location = user_location()
    if location is not None:
        for found in _log:
            found.append(Decision(location, is_staged, why, state))


def _shown(x: Any) -> str:
    text = repr(x) if x is None or isinstance(x, (bool, int, float, str)) else x.__class__.__name__
    return text if len(text) < 40 else text[:37] + "..."
