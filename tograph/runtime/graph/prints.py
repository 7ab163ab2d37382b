"""What a graph prints, each text once.

Native code prints while it runs. Where it declines the host runs the call again from the start: then the prints that were made already
are passed over (``passed_over``).
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any


class _Here(threading.local):
    skipped = 0  # how many prints are still to be passed over in this thread
    made = 0  # how many prints the call that was just left to the host has made


_here = _Here()


class _Errors:
    """``sys.stderr`` as a print finds it."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


_ERRORS = _Errors()


def stream(file: Any, kept: bool) -> Any:
    """The file of a print for every call: one of the standard streams is the one that the call finds, None that of ``print``.

    ``kept``: something outside of the function but ``sys`` holds this stream, where the program may have found it.
    """
    if kept:
        return file
    if file is sys.stdout:
        return None
    return _ERRORS if file is sys.stderr else file


def show(*values: Any, sep: str | None = None, end: str | None = None, file: Any = None, flush: bool = False) -> None:  # fmt: skip
    """Print, unless the call has printed this already."""
    if _here.skipped:
        _here.skipped -= 1
        return
    print(*values, sep=sep, end=end, file=sys.stdout if file is None else file, flush=flush)


def leave(count: int) -> None:
    """Note how many prints a call has made that the host is to run again."""
    _here.made = count


def left_over() -> int:
    """The number last noted in this thread, once."""
    count, _here.made = _here.made, 0
    return count


@contextlib.contextmanager
def passed_over(count: int) -> Iterator[None]:
    """Inside, the first ``count`` prints are not made."""
    before, _here.skipped = _here.skipped, count
    try:
        yield
    finally:
        _here.skipped = before


__all__ = ["leave", "left_over", "passed_over", "show"]
