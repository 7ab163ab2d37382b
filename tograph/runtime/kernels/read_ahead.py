"""LLVM's file, read from the disk and loaded before a first call asks for it.

It is larger than all else that is loaded, and in the first process after a machine or container has started it lies on the disk: a
first call would wait for it for longer than it takes altogether. ``import tograph`` has the system read it meanwhile.

To load it takes some milliseconds more. A function whose conversion is not on the disk will have no code there either: it is loaded
beside the conversion, by a thread that asks the system and needs no Python.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import sys
import threading

from ... import forks

PROBES = 16  # places of the file that tell whether it is in memory
_loading = forks.held(threading.Lock())


def read_ahead() -> None:
    """Have LLVM's file read beside what this thread does, unless it is in memory. Where nothing can be read ahead nothing happens."""
    path = library_file()
    if path is not None and not _in_memory(path):
        threading.Thread(target=_read, args=(path,), name="tograph read-ahead", daemon=True).start()


@functools.cache
def load_ahead() -> None:
    """Have LLVM loaded beside what this thread does, once in a process. Where that cannot be nothing happens."""
    path = library_file()
    if path is not None and len(os.sched_getaffinity(0)) > 1:
        threading.Thread(target=_load, args=(path,), name="tograph load-ahead", daemon=True).start()


def _load(path: str) -> None:
    """Load the library as ``ctypes.CDLL`` does, but leave Python to other threads: whoever asks for it later gets it at once."""
    system = ctypes.CDLL(None)
    with _loading:
        system.dlopen(path.encode(), ctypes.c_int(os.RTLD_NOW | os.RTLD_LOCAL))


def library_file() -> str | None:
    """The file that llvmlite will load, where its name and how to read it ahead are known."""
    if sys.platform != "linux" or not hasattr(os, "RWF_NOWAIT"):
        return None
    try:
        spec = importlib.util.find_spec("llvmlite")
    except ValueError:  # another module of this name
        return None
    folders = spec.submodule_search_locations if spec is not None else None
    paths = [os.path.join(f, "binding", "libllvmlite.so") for f in folders or ()]
    return next(filter(os.path.exists, paths), None)


def _in_memory(path: str) -> bool:
    """Whether the file is in memory, by some places of it; False where the file system does not tell."""
    try:
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            for i in range(PROBES):
                os.preadv(file.fileno(), [bytearray(1)], size * i // PROBES, os.RWF_NOWAIT)
    except OSError:  # EAGAIN among them
        return False
    return True


def _read(path: str) -> None:
    """Bring the file into memory, in calls that leave Python to other threads and copy nothing."""
    try:
        with open(path, "rb", buffering=0) as file, open(os.devnull, "wb", buffering=0) as nowhere:
            at = 0
            while count := os.sendfile(nowhere.fileno(), file.fileno(), at, 1 << 30):
                at += count
    except OSError:  # it is read when it is loaded
        return
