"""Ctrl-C while tracing.

Python raises KeyboardInterrupt at whatever instruction runs. When that is a check that torch's C++ makes through
Python, the exception is dropped there and an endless loop goes on. So while a trace runs in the main thread the
interrupt is also noted, and loops that unroll raise it again at their next iteration.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import Any

_pending = [False]


@contextmanager
def noted():
    """Note interrupts meanwhile; the handler that was there runs as before."""
    before: Any = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def handler(number: int, frame: Any) -> None:
        _pending[0] = True
        before(number, frame)

    _pending[0] = False
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _pending[0] = False


def check() -> None:
    """Raise an interrupt that was noted."""
    if _pending[0] and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt
