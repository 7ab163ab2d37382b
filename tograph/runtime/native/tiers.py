"""The code of the call path: first as fast as LLVM makes it, then, once it has run often, as well as LLVM chooses instructions.

``compiled(text, functions, imports, method)``  the addresses of a module's functions; ``method``, what Python calls, is given the better code later.
``counting(text, start)``                       the module with a count of calls where a function starts.

Model: chosen fast the code takes a fifth of LLVM's time and a tenth longer a call, which is worth it from some hundred thousand calls on. Code
of the first kind counts down ``CALLS`` at each call; the one that meets zero starts a thread, which compiles all that waits and puts it in place
(a word of a ``PyMethodDef`` that Python reads at each call). Both kinds do the same and keep nothing of their own, so
that a call may run in one while the next one begins in the other. Better code on the disk is taken at once, and nothing counts then.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Mapping

from ..kernels import jit

CALLS = 50_000
THREAD = "tograph better calls"
FAST = (0, 0)  # the levels of optimisation and of the choice of instructions
WELL = (0, 3)
Addresses = dict[str, int]


class Method(ctypes.Structure):
    """A ``PyMethodDef``."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_left = ctypes.c_int64(CALLS)
_waiting: list[tuple[str, Mapping[str, int], Method]] = []

_COUNT = """  %counted = load i64, ptr @calls_left
  %fewer = sub i64 %counted, 1
  store i64 %fewer, ptr @calls_left
  %often = icmp eq i64 %fewer, 0
  br i1 %often, label %better, label %uncounted
better:
  %begun = call ptr @PyObject_CallNoArgs(ptr @begin_better)
  %interrupted = icmp eq ptr %begun, null
  br i1 %interrupted, label %failed, label %begins
begins:
  call void @Py_DecRef(ptr %begun)
  br label %uncounted
uncounted:
"""
DECLARES = "@calls_left = external global i64\n@begin_better = external global i8\n"


def counting(text: str, start: str) -> str:
    """``text`` where the code behind ``start``, the first lines of a function with a block ``failed`` that returns null, counts its calls."""
    assert text.count(start) == 1
    return DECLARES + text.replace(start, start + _COUNT)


def compiled(
    text: str, functions: list[str], imports: Mapping[str, int], method: Method, start: str = ""
) -> Addresses:
    """The addresses of ``functions`` of a module, of which ``call`` is what ``method`` does. ``start``: as for ``counting``, of code that counts."""
    known, levels, chosen = dict(imports), WELL, text
    if not jit.is_kept(text, *WELL):
        known |= {"calls_left": ctypes.addressof(_left), "begin_better": id(_begin)}
        levels, chosen = FAST, counting(text, start) if start else text
        _waiting.append((text, imports, method))
    found = jit.compile_module(chosen, functions, known, *levels)
    method.function = found["call"]
    return found


def _begin() -> None:
    """Compile what waits, beside the calls. At the end of a process no thread begins any more, nor is one of use."""
    with contextlib.suppress(RuntimeError):
        threading.Thread(target=_improve, name=THREAD).start()


def _improve() -> None:
    while _waiting:
        text, imports, method = _waiting.pop()
        method.function = jit.compile_module(text, ["call"], imports, *WELL)["call"]
