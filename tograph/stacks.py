"""How deep calls may nest: how large the C stack of the calling thread is, and Python's limit while something needs a higher one. ``threading.stack_size`` tells that of threads that start later, and asking it resets it.

The system says where it is (``pthread_getattr_np``), which takes 4 us, and 2 ms in the main thread.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

RESERVE = (
    1 << 16
)  # bytes that are left to what is called at the deepest place, at most half of the stack
ATTRIBUTES = 256  # bytes of a pthread_attr_t, at most
BYTES = 640  # of the stack that a call in Python takes, at most
USUAL_LEVELS = 40  # of branches in each other, which need no more than the user's limit
FRAMES = 25  # of Python for a branch in a branch
USUAL = 1 << 20  # of a stack, where the system does not tell; that of threads under Windows


def room() -> int:
    """How many bytes of this thread's stack calls may take that nest."""
    size = _size() or USUAL
    return size - min(RESERVE, size // 2)


class Limit:
    """Python's recursion limit where calls nest deeper than the user's do: it is one for all threads, the highest that someone wishes.

    ``plain``: the user's, while there are ``wishes``, each of a number of frames.
    """

    def __init__(self) -> None:
        self.lock, self.plain = threading.Lock(), 0
        self.wishes: list[list[int]] = []
        self.open = _Open()

    def now(self) -> int:
        """The user's limit."""
        return self.plain if self.wishes else sys.getrecursionlimit()

    @contextmanager
    def raised(self, times: int = 1, frames: int = 0) -> Iterator[list[int]]:
        """So many times the user's limit, and ``frames`` at least."""
        wish = [frames]
        with self.lock:
            if not self.wishes:
                self.plain = sys.getrecursionlimit()
            wish[0] = max(frames, self.plain * times)
            self.wishes.append(wish)
            self._set()
        try:
            yield wish
        finally:
            with self.lock:
                del self.wishes[next(i for i, w in enumerate(self.wishes) if w is wish)]
                self._set()

    @contextmanager
    def growing(self) -> Iterator[None]:
        """The user's limit, and as many frames more as are said in this thread to be needed."""
        if self.open.wish is not None:
            yield
            return
        with self.raised() as self.open.wish:
            try:
                yield
            finally:
                self.open.wish = None

    def need(self, levels: int) -> None:
        """Inside of ``growing``: code runs whose branches and bodies are so many deep in each other."""
        wish = self.open.wish
        if wish is None or levels <= USUAL_LEVELS:
            return
        more = _frames(levels)
        with self.lock:
            wish[0] = max(wish[0], self.plain + more)
            self._set()

    def deep(self, levels: int) -> AbstractContextManager[Any]:
        """The user's limit, and as many frames more as what goes down so many levels of regions takes."""
        if levels <= USUAL_LEVELS:
            return nullcontext()
        return self.raised(frames=self.now() + _frames(levels))

    def _set(self) -> None:
        sys.setrecursionlimit(max((w[0] for w in self.wishes), default=self.plain))


def _frames(levels: int) -> int:
    """How many frames so many levels take; as many as this thread has room for, at most."""
    return min(levels * FRAMES, room() // BYTES)


class _Open(threading.local):
    wish: list[int] | None = None


LIMIT = Limit()


def tells() -> bool:
    """Whether the system tells where the stack of a thread is."""
    return _process() is not None and hasattr(_process(), "pthread_getattr_np")


@functools.cache
def _process() -> ctypes.CDLL | None:
    try:
        made = ctypes.CDLL(None)
    except TypeError:  # Windows
        return None
    if not hasattr(made, "pthread_self"):
        return None
    made.pthread_self.restype = ctypes.c_void_p
    return made


def _size() -> int:
    """The bytes of this thread's stack; 0 where the system does not tell."""
    process = _process()
    if process is None:
        return 0
    this = ctypes.c_void_p(process.pthread_self())
    if hasattr(process, "pthread_get_stacksize_np"):  # macOS
        process.pthread_get_stacksize_np.restype = ctypes.c_size_t
        return process.pthread_get_stacksize_np(this)
    attributes, base, size = (ctypes.c_char * ATTRIBUTES)(), ctypes.c_void_p(), ctypes.c_size_t()
    if not tells() or process.pthread_getattr_np(this, attributes):
        return 0
    process.pthread_attr_getstack(attributes, ctypes.byref(base), ctypes.byref(size))
    process.pthread_attr_destroy(attributes)
    return size.value
