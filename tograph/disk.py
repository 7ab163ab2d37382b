"""What later processes find again: machine code and converted functions, in files of one folder.

A file is named by a digest of all that its content depends on, so one of another version is never found, and it carries
a digest of itself, so a damaged one is none. A folder that cannot be read or written costs time, and one warning says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import warnings
from pathlib import Path

from . import settings

_MAGIC = b"tograph-object-1\n"
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
    try:
        data = (cache_dir() / name).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        warn_once(f"tograph: the cache of compiled code cannot be read ({error.strerror}): every process compiles")  # fmt: skip
        return None
    digest, content = data[len(_MAGIC) :][:32], data[len(_MAGIC) + 32 :]
    if data.startswith(_MAGIC) and hashlib.sha256(content).digest() == digest:
        return content
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
            file.write(_MAGIC + hashlib.sha256(content).digest() + content)
        os.replace(path, folder / name)
    except OSError as error:
        warn_once(f"tograph: compiled code cannot be kept in {folder} ({error.strerror}): every process compiles")  # fmt: skip
        with contextlib.suppress(OSError):
            os.unlink(path)
