"""Sources that no file has: of ``python -c`` and ``python < file``, and of text that code has given to ``exec``; and files that may have changed.

Text is searched for where a program would have it: in the command line, and in the variables and constants of the functions
that are running. What is found is the source only where it compiles to the function's own code, so that a wrong one is never taken.
"""

from __future__ import annotations

import importlib.machinery
import os
import stat
import sys
import time
import types
import weakref
from collections.abc import Iterator

from .recompiling import FUTURE, codes_in

_HERE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_LONGEST = 1_000_000  # characters of a text that is looked at


def _begun() -> float:
    """When this process began, or (where the system does not tell) when this module was imported."""
    try:
        with open("/proc/self/stat") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        with open("/proc/uptime") as file:
            up = float(file.read().split()[0])
        return time.time() - up + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return time.time()


_BEGUN = _begun() - 2  # clocks of files are coarse


def may_have_changed(function: types.FunctionType, file: str) -> bool:
    """Whether a file may be another one than was compiled: it was written since the process began, and no tool rewrites it on import."""
    try:
        if os.stat(file).st_mtime < _BEGUN:
            return False
    except OSError:
        return False
    loader = function.__globals__.get("__loader__")
    return loader is None or type(loader) is importlib.machinery.SourceFileLoader


_found: weakref.WeakKeyDictionary[types.CodeType, list[str]] = weakref.WeakKeyDictionary()


def remember(function: object) -> None:
    """Find the text of a function without a file now: where it is decorated, the text is more often at hand than where it is called."""
    code = getattr(function, "__code__", None)
    if isinstance(code, types.CodeType) and code.co_filename in ("<string>", "<stdin>"):
        lines = _search(code)
        if lines:
            _found[code] = lines


def lines_of(function: types.FunctionType) -> list[str]:
    """The lines of the text that a function without a file was compiled from, or none."""
    code = function.__code__
    if not code.co_filename.startswith("<"):
        return []
    if code not in _found:
        _found[code] = _search(code)
    return _found[code]


def _search(code: types.CodeType) -> list[str]:
    for text in _texts():
        if _gives(text, code):
            return text.splitlines(keepends=True)
    return []


def _texts() -> Iterator[str]:
    """Texts that may be programs, each once, nearest first."""
    seen = set()
    for text in _values():
        if isinstance(text, str) and len(text) < _LONGEST and text not in seen:
            seen.add(text)
            yield text


def _values() -> Iterator[object]:
    if "-c" in sys.orig_argv[1:-1]:
        yield sys.orig_argv[sys.orig_argv.index("-c", 1) + 1]
    yield _standard_input()
    frame: types.FrameType | None = sys._getframe()
    seen: set[int] = set()
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_HERE):
            yield from frame.f_code.co_consts
            for names in (frame.f_locals, frame.f_globals):
                if id(names) not in seen:
                    yield from list(names.values())
            seen.add(id(frame.f_globals))
        frame = frame.f_back


def _standard_input() -> str:
    """The program of ``python < file.py``."""
    try:
        if stat.S_ISREG(os.fstat(0).st_mode):
            return os.pread(0, _LONGEST, 0).decode(errors="replace")
    except OSError:
        pass
    return ""


def _gives(text: str, code: types.CodeType) -> bool:
    """Whether a program has a function of this very code."""
    if ("lambda" if code.co_name == "<lambda>" else f"def {code.co_name}") not in text:
        return False
    try:
        made = compile(text, code.co_filename, "exec", code.co_flags & FUTURE, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(found == code for found in codes_in(made.co_consts))
