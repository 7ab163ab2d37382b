"""What a graph prints, each text once.

Native code prints while it runs. Where it declines the host runs the call again from the start: then the prints that were made already
are passed over (``passed_over``), and one that failed by the file of the program's raises the same again: what was written before it did is written once.
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
    failure: Exception | None = None  # what the one behind them raised


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


def is_standard(file: Any) -> bool:
    """Whether that is a standard stream, whose ``write`` raises nothing that a program waits for."""
    return file is None or file is _ERRORS or file in (sys.__stdout__, sys.__stderr__)


def show(*values: Any, sep: str | None = None, end: str | None = None, file: Any = None, flush: bool = False) -> None:  # fmt: skip
    """Print, unless the call has printed this already."""
    if _here.skipped:
        _here.skipped -= 1
        return
    failure, _here.failure = _here.failure, None
    if failure is not None:
        raise failure
    print(*values, sep=sep, end=end, file=sys.stdout if file is None else file, flush=flush)


def failed(error: Exception) -> None:
    """Note what a print of native code has raised."""
    _here.failure = error


def leave(count: int) -> None:
    """Note how many prints a call has made that the host is to run again."""
    _here.made = count


def left_over() -> tuple[int, Exception | None]:
    """The number last noted in this thread, and what the print behind these raised, once."""
    found = _here.made, _here.failure
    _here.made, _here.failure = 0, None
    return found


@contextlib.contextmanager
def passed_over(count: int, failure: Exception | None = None) -> Iterator[None]:
    """Inside, the first ``count`` prints are not made, and the next one raises ``failure`` if there is one."""
    before = _here.skipped, _here.failure
    _here.skipped, _here.failure = count, failure
    try:
        yield
    finally:
        _here.skipped, _here.failure = before


__all__ = ["failed", "is_standard", "leave", "left_over", "passed_over", "show"]
