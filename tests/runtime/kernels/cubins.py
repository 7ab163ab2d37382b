"""What a cubin says of its kernels' parameters, read from the ELF file: by the section ``.nv.info.NAME`` of each kernel.

An entry is a format, an attribute and 16 bits, which are the value itself or, in format 4, the length of what follows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

INFO = ".nv.info."
VALUE, PARAMETER = (
    4,
    0x17,
)  # the format of entries with a value behind them; the attribute that tells of a parameter


def parameter_sizes(image: bytes, name: str) -> list[int]:
    """The sizes of a kernel's parameters in bytes, in order."""
    (info,) = (content for section, content in _sections(image) if section == INFO + name)
    found = {}
    for attribute, value in _entries(info):
        if attribute == PARAMETER:
            _, number, _, _, size = struct.unpack("<IHHHH", value)
            found[number] = size >> 2
    return [found[i] for i in range(len(found))]


def _sections(image: bytes) -> Iterator[tuple[str, bytes]]:
    (table,) = struct.unpack_from("<Q", image, 0x28)
    size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", image, table + i * size) for i in range(count)]
    for at, _, _, _, start, length in headers:
        begin = headers[names][4] + at
        yield image[begin : image.index(b"\0", begin)].decode(), image[start : start + length]


def _entries(info: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(info):
        kind, attribute, length = struct.unpack_from("<BBH", info, at)
        at += 4
        if kind == VALUE:
            yield attribute, info[at : at + length]
            at += length
