"""What later processes find again: machine code and converted functions, in files of one folder.

A file is named by a digest of all that its content depends on, so one of another version is never found, and it carries
a digest of its name and content, so a damaged one, or one that lies under another's name, is none. A folder that cannot be read or written costs time, and one warning says so.

The folder stays near ``MOST`` bytes: after one in ``SELDOM`` files that are stored, the process looks as it ends, and removes those of its
own files that were not read for longest. The time of a file is that of its last use, to the day. What somebody else has put there stays.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import re
import tempfile
import time
import warnings
from pathlib import Path

from . import settings

MOST = 1 << 29  # bytes in the folder
SELDOM = 64  # files that are stored for one look
DAY = 86_400.0  # seconds: the grain of the time of last use
_MAGIC = b"tograph-object-"
_FORMAT = _MAGIC + b"2\n"  # what follows: the digest, the content
_NAME = re.compile(r"[0-9a-f]{32,}\.\w+")  # of the files: a digest, and what is in them
_warned: set[str] = set()


def warn_once(text: str) -> None:
    """A warning for what is lost, once in a process."""
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def cache_dir() -> Path:
    """The folder: TOGRAPH_CACHE_DIR, else one of the user's cache directory."""
    if settings.CACHE_DIR:
        return Path(settings.CACHE_DIR)
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(base) / "tograph"


def version_of(*modules: str) -> str | None:
    """The state of all source files beside those of some modules, as text; None where they are no files."""
    try:
        folders = sorted({os.path.dirname(os.path.abspath(module)) for module in modules})
        files = [e for folder in folders for e in os.scandir(folder) if e.name.endswith(".py")]
        return repr(sorted((e.path, e.stat().st_mtime_ns, e.stat().st_size) for e in files))
    except OSError:
        return None


def load(name: str) -> bytes | None:
    """The content that was stored under a name."""
    path = cache_dir() / name
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        warn_once(f"tograph: the cache of compiled code cannot be read ({error.strerror}): every process compiles")  # fmt: skip
        return None
    digest, content = data[len(_FORMAT) :][:32], data[len(_FORMAT) + 32 :]
    if data.startswith(_FORMAT) and _digest(name, content) == digest:
        _used(path)
        return content
    if data.startswith(_MAGIC) and not data.startswith(_FORMAT):
        return None
    warn_once("tograph: a file in the cache of compiled code is damaged: it is compiled again")
    return None


def store(name: str, content: bytes) -> None:
    """Write a file so that a reader sees all of it or none."""
    folder = cache_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(dir=folder, suffix=".tmp")
    except OSError as error:
        warn_once(f"tograph: compiled code cannot be kept in {folder} ({error.strerror}): every process compiles")  # fmt: skip
        return
    try:
        with os.fdopen(handle, "wb") as file:
            digest = _digest(name, content)
            file.write(_FORMAT + digest + content)
        os.replace(path, folder / name)
        if digest[0] % SELDOM == 0:
            _look_at_exit(folder)
    except OSError as error:
        warn_once(f"tograph: compiled code cannot be kept in {folder} ({error.strerror}): every process compiles")  # fmt: skip
        with contextlib.suppress(OSError):
            os.unlink(path)


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + content).digest()


def _used(path: Path) -> None:
    """Note that a file was read."""
    with contextlib.suppress(OSError):  # it belongs to somebody else, or is gone
        if time.time() - path.stat().st_mtime > DAY:
            os.utime(path)


@functools.cache
def _look_at_exit(folder: Path) -> None:
    """Have this process look at the size of the folder as it ends."""
    atexit.register(sweep, folder.absolute())


def sweep(folder: Path, most: int = MOST) -> None:
    """Remove the files of ours in ``folder`` that were not used for longest, until half of ``most`` bytes are left, where there are more than that.

    What other processes remove, or forbid to remove, is passed over.
    """
    found = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):
                if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    state = entry.stat()
                    found.append((state.st_mtime, entry.path, state.st_size))
    total = sum(size for *_, size in found)
    if total <= most:
        return
    for _, path, size in sorted(found):
        if total <= most // 2:
            return
        with contextlib.suppress(OSError):
            if _ours(path):
                os.unlink(path)
            total -= size


def _ours(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC
