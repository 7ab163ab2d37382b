"""Numbers from outside of a graph, which Python's random generators draw and clocks show, each asked for once.

Native code asks while it runs. Where it declines, the host runs the call again from the start: then it is given the numbers that were there
already, in their order (``again``), and asks for those that follow.
"""

from __future__ import annotations

import contextlib
import threading
from array import array
from collections.abc import Callable, Iterator
from typing import Any


class Raised:
    """An exception in the place of a number."""

    def __init__(self, error: Exception):
        self.error = error


class Numbers:
    """Numbers in the order in which they came, in few bytes: a call may ask for millions."""

    def __init__(self) -> None:
        self._kinds = bytearray()
        self._of_kind: tuple[Any, ...] = (array("d"), array("q"), bytearray(), [])

    def add(self, x: Any) -> None:
        kind = _KINDS.get(type(x), 3)
        if kind == 1 and not -_WORD <= x < _WORD:
            kind = 3
        self._kinds.append(kind)
        self._of_kind[kind].append(x)

    def __iter__(self) -> Iterator[Any]:
        rest = tuple(map(iter, self._of_kind))
        for kind in self._kinds:
            x = next(rest[kind])
            yield bool(x) if kind == 2 else x


_KINDS, _WORD = {float: 0, int: 1, bool: 2}, 1 << 63


class _Here(threading.local):
    given: Iterator[Any] | None = None  # the numbers that are still to be given in this thread
    left: Numbers | None = None  # those of a call that was just left to the host


_here = _Here()
_NONE = object()


def ask(function: Callable[..., Any], *args: Any) -> Any:
    """The next number: what ``function`` gives, unless the call has asked already."""
    if _here.given is not None:
        found = next(_here.given, _NONE)
        if type(found) is Raised:
            raise found.error
        if found is not _NONE:
            return found
        _here.given = None
    return function(*args)


def leave(numbers: Numbers) -> None:
    """Keep what a call has been given that the host is to run again."""
    _here.left = numbers


def left_over() -> Numbers | None:
    """The numbers last left in this thread, once."""
    found, _here.left = _here.left, None
    return found


@contextlib.contextmanager
def again(numbers: Numbers | None) -> Iterator[None]:
    """Inside, these numbers are given first."""
    before, _here.given = _here.given, iter(numbers or ())
    try:
        yield
    finally:
        _here.given = before


__all__ = ["Numbers", "Raised", "again", "ask", "leave", "left_over"]
