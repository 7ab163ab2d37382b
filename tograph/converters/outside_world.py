"""Functions of the standard library that ask the world outside of the program, or act on it: clocks, files, directories, processes, threads.

They do so while tracing, where their results are plain Python. So a trace in which one was called serves that call only: the next one traces, and
asks or acts, anew. In a staged branch or loop, which runs another number of times than it is traced, they are refused; so is a second
tracing in one call after one has acted. Clocks that give a number (``time.time``) are ops of the graph instead (``builtin.outside_numbers``), and
so are writes to files that are open before the call (``builtin.messages``).
"""

from __future__ import annotations

import contextvars
import io
import weakref
from typing import Any

from ..errors import StagingError
from ..runtime.guarding import reads, sources, unconverted
from ..runtime.guarding.watch import now_in
from ..runtime.library.staged_string import StagedString
from ..runtime.recording import opaque
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import is_tracing, user_location
from . import threads
from .registry import METHODS

_HOMES = {"posix": "os", "nt": "os", "genericpath": "os.path", "posixpath": "os.path", "ntpath": "os.path", "_io": "io", "_pickle": "pickle", "None": ""}  # fmt: skip
_ASKING = {
    "": "datetime.now datetime.utcnow datetime.today date.today",
    "uuid": "uuid1 uuid4",
    "os": "urandom getrandom getcwd listdir scandir walk stat lstat times access",
    "os.path": "exists isfile isdir islink lexists ismount getsize getmtime getatime getctime samefile",
    "secrets": "token_hex token_bytes token_urlsafe randbelow",
    "random": "SystemRandom.random SystemRandom.getrandbits",
    "glob": "glob iglob",
    "builtins": "input",
    "pathlib": "Path.exists Path.is_file Path.is_dir Path.stat Path.iterdir Path.glob Path.rglob Path.cwd Path.read_text Path.read_bytes",
    "numpy": "load loadtxt genfromtxt fromfile",
    "torch.serialization": "load",
}
_ACTING = {
    "os": "open write popen fdopen remove unlink rename replace mkdir makedirs rmdir removedirs chdir system symlink link truncate chmod utime kill putenv unsetenv",
    "shutil": "copy copy2 copyfile copytree move rmtree",
    "subprocess": "run call check_call check_output Popen",
    "tempfile": "mkdtemp mkstemp NamedTemporaryFile TemporaryFile TemporaryDirectory SpooledTemporaryFile",
    "gzip": "open",
    "bz2": "open",
    "lzma": "open",
    "zipfile": "ZipFile",
    "tarfile": "TarFile.open",
    "pathlib": "Path.write_text Path.write_bytes Path.mkdir Path.rmdir Path.unlink Path.rename Path.replace Path.touch",
    "threading": "Thread.start",
    "multiprocessing.process": "BaseProcess.start",
    "concurrent.futures.thread": "ThreadPoolExecutor.submit",
    "concurrent.futures.process": "ProcessPoolExecutor.submit",
    "concurrent.futures._base": "Executor.map",
    "asyncio.runners": "run",
    "numpy": "save savez savez_compressed savetxt",
    "torch.serialization": "save",
}
# Settings of the process. Outside of staged branches and loops they are made while tracing.
_SETTING = {
    "torch": "set_num_threads set_num_interop_threads use_deterministic_algorithms set_deterministic_debug_mode set_float32_matmul_precision "
    "set_flush_denormal set_default_device set_warn_always",
    "torch._tensor_str": "set_printoptions",
    "sys": "setrecursionlimit setswitchinterval",
    "numpy": "set_printoptions seterr",
    "logging": "Logger.setLevel Logger.addHandler Logger.removeHandler disable basicConfig",
    "locale": "setlocale",
    "signal": "signal",
    "_signal": "alarm",
    "atexit": "register",
}
# Functions of ``time`` that ask the clock where they are given fewer arguments than these.
_CLOCKS = {"localtime": 1, "gmtime": 1, "ctime": 1, "asctime": 1, "strftime": 2}


def _table(names: dict[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset((home, name) for home, found in names.items() for name in found.split())


_ASKS, _ACTS, _SETS = _table(_ASKING), _table(_ACTING), _table(_SETTING)
_OPENS = frozenset([("io", "open"), ("pathlib", "Path.open")])
_OPENED: weakref.WeakSet[Any] = weakref.WeakSet()


class _World:
    """What a trace that called such a function is of."""


_WORLD = _World()


def called(f: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """``f``, which is not converted, is about to be called; StagingError where it cannot be."""
    name = getattr(f, "__qualname__", None)
    if not isinstance(name, str) or not is_tracing():
        return
    home = str(getattr(f, "__module__", None))
    key = _HOMES.get(home, home.partition(".")[0] if home.startswith("pathlib") else home), name
    if key[0] == "time" and len(args) < _CLOCKS.get(name, 0):
        _note(f, acts=False)
    elif key in _OPENS:
        _note(f, acts=_writes(args[0 if key[0] == "pathlib" else 1 :], kwargs))
    elif key in _ASKS or key in _ACTS:
        _note(f, key in _ACTS)
        if name == "Thread.start":
            threads.starts(getattr(f, "__self__", None) or next(iter(args), None))
    elif key in _SETS and journal.is_nested():
        raise _refused(f, "acts on what is")


def _writes(args: tuple, kwargs: dict[str, Any]) -> bool:
    mode = args[0] if args else kwargs.get("mode", "r")
    return not isinstance(mode, str) or not set(mode).isdisjoint("wax+")


def _note(f: Any, acts: bool) -> None:
    watch, name = reads.current(), getattr(f, "__name__", type(f).__name__)
    if watch is None:
        return
    refused = _refused(f, "acts on what is" if acts else "asks for what is")
    if acts:
        journal.lasts(refused)
    elif journal.is_staged():
        raise refused
    watch.check(sources.object_(_WORLD, name), "once", "False", None, f"what {name}() tells")
    if acts:
        watch.acted = name


def _refused(f: Any, what: str) -> StagingError:
    name = getattr(f, "__name__", type(f).__name__)
    return StagingError(
        f"{name}() {what} outside of the program, while tracing: in a staged branch or loop it would do so another number of times than plain "
        "Python. Call it outside of the branch or loop, or by tg.py_function",
        user_location(),
    )


def _context(variable: contextvars.ContextVar[Any], *default: Any) -> Any:
    """``variable.get()``: what it holds is read like any other variable."""
    found, watch = unconverted.run(variable.get, default, {}), reads.current()
    if watch is not None:
        watch.context(variable, default[0] if default else None, found)
    return found


def _set_context(variable: contextvars.ContextVar[Any], value: Any) -> Any:
    """It is set while tracing. Where it stays so, every call traces."""
    watch = reads.current()
    if watch is not None:
        watch.entered.setdefault(id(variable), (variable, now_in(variable)))
        place = opaque.place(variable)
        if place is not None:
            journal.record(place)
    return unconverted.run(variable.set, (value,), {})


METHODS[contextvars.ContextVar, "get"] = _context
METHODS[contextvars.ContextVar, "set"] = _set_context


def opened(found: Any) -> None:
    """A file that is opened while tracing is written while tracing."""
    if isinstance(found, io.TextIOWrapper) and is_tracing() and not reads.is_outside(found):
        _OPENED.add(found)


def is_opened_here(file: Any) -> bool:
    return is_tracing() and isinstance(file, io.TextIOWrapper) and file in _OPENED


def plain_text(text: Any, staged: bool = False) -> Any:
    """What is written to such a file; StagingError for what only the run knows, and in a staged branch or loop."""
    refused = StagingError(
        "this file is opened in the function, while tracing, and is written while tracing: what is known only when the graph runs, and what a "
        "staged branch or loop writes, goes to a file that is open before the call, or by tg.py_function",
        user_location(),
    )
    if staged or isinstance(text, StagedString):
        raise refused
    journal.lasts(refused)
    return text
