"""The container of a saved file: named parts in a zip archive that is not compressed, under one checksum.

Any zip tool lists and extracts the parts. The archive's comment, the last bytes of the file, is
``tograph sha256:`` and the SHA-256 of all bytes before the digest, so every changed byte is noticed; zip keeps a
CRC-32 for each part, which tells the part that is damaged. The first part is always ``tograph.json``. The bytes
depend on the parts alone: no clock, no names of machines.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from typing import BinaryIO

from ...errors import CorruptFileError, ForeignFileError

MANIFEST = "tograph.json"
_MARK = b"tograph sha256:"
_DIGEST = 64  # hexadecimal digits
_HEAD = b"PK\x03\x04"
_NAME_AT = 30  # where a zip archive has the name of its first part
_BLOCK = 1 << 20


def write(path: str | os.PathLike, parts: Mapping[str, bytes]) -> None:
    """Write parts to a file in one step: another reader sees the old file or the new one. OSError as ``open`` raises it."""
    path = os.fspath(path)
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    try:
        handle, draft = tempfile.mkstemp(prefix=".tograph-", dir=os.path.dirname(os.path.abspath(path)))  # fmt: skip
    except OSError as error:  # of the draft: the file is the one that the user named
        raise type(error)(error.errno, error.strerror, path) from None
    try:
        with os.fdopen(handle, "w+b") as file:
            _write_zip(file, parts)
            file.seek(0, os.SEEK_END)
            end = file.tell() - _DIGEST
            digest = _digest(file, end)
            file.seek(end)
            file.write(digest)
        os.chmod(draft, 0o666 & ~_umask())
        os.replace(draft, path)
    except BaseException as error:
        os.unlink(draft)
        if isinstance(error, OSError) and error.filename in (None, draft):
            error.filename = path
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write_zip(file: BinaryIO, parts: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(parts, key=lambda n: (n != MANIFEST, n)):
            archive.writestr(zipfile.ZipInfo(name), parts[name])
        archive.comment = _MARK + b"0" * _DIGEST


def _digest(file: BinaryIO, end: int) -> bytes:
    """SHA-256 of the first ``end`` bytes, as hexadecimal digits."""
    total = hashlib.sha256()
    file.seek(0)
    while end > 0:
        block = file.read(min(end, _BLOCK))
        if not block:
            break
        total.update(block)
        end -= len(block)
    return total.hexdigest().encode()


def read(path: str | os.PathLike) -> dict[str, bytes]:
    """The parts of a file that ``write`` made; ForeignFileError or CorruptFileError for any other."""
    with open(path, "rb") as file:
        _check(file, os.fspath(path))
        with zipfile.ZipFile(file) as archive:
            return {name: archive.read(name) for name in archive.namelist()}


def _check(file: BinaryIO, path: str) -> None:
    head = file.read(_NAME_AT + len(MANIFEST))
    size = file.seek(0, os.SEEK_END)
    tail = _tail(file, size)
    starts = head.startswith(_HEAD) and head.endswith(MANIFEST.encode())
    if not starts and not tail.startswith(_MARK):
        raise ForeignFileError(f"{path} is not a file of tg.save")
    if not tail.startswith(_MARK):
        raise CorruptFileError(f"{path} ends too early, or its end was changed")
    if _digest(file, size - _DIGEST) != tail[-_DIGEST:]:
        raise CorruptFileError(f"{path} was changed after it was saved{_damaged(file)}")


def _tail(file: BinaryIO, size: int) -> bytes:
    file.seek(max(0, size - len(_MARK) - _DIGEST))
    return file.read()


def _damaged(file: BinaryIO) -> str:
    """Which part differs from what was written, where zip can tell."""
    try:
        with zipfile.ZipFile(file) as archive:
            name = archive.testzip()
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, RuntimeError, NotImplementedError, EOFError):  # fmt: skip
        return ""
    return f": its part {name} is damaged" if name else ""
