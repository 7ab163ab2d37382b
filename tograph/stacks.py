"""How large the C stack of the calling thread is. ``threading.stack_size`` tells that of threads that start later, and asking it resets it.

The system says where it is (``pthread_getattr_np``), which takes 4 us, and 2 ms in the main thread.
"""

from __future__ import annotations

import ctypes
import functools

RESERVE = (
    1 << 16
)  # bytes that are left to what is called at the deepest place, at most half of the stack
ATTRIBUTES = 256  # bytes of a pthread_attr_t, at most
USUAL = 1 << 20  # of a stack, where the system does not tell; that of threads under Windows


def room() -> int:
    """How many bytes of this thread's stack calls may take that nest."""
    size = _size() or USUAL
    return size - min(RESERVE, size // 2)


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
