"""Compiled objects put into the memory of this process without LLVM, so that code of an earlier process starts without loading it.

``load(image, imports)``  the addresses of the functions of an ELF object for x86-64, by name; None where LLVM has to link it.

Model: the sections that a program has in memory lie behind each other in pages of their own, ``code`` (it may run, not be written),
``constants`` (neither), ``data``. What is called outside is up to 2**64 bytes away and calls reach 2**31: they go to a *stub* behind
the code, a jump by way of the table of addresses among the constants. Code is never freed.

Only what LLVM writes for position-independent code of the small model is known. All else is left to LLVM: other machines and formats,
thread-local data, initialisers, and names that this process does not have. Unwinding tables are left out: generated code throws nothing.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PAGE = mmap.PAGESIZE
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_ELF64 = b"\x7fELF\x02\x01\x01"
_RELOCATABLE, _X86_64 = 1, 62
_PROGRAM, _SYMBOLS, _RELOCATIONS, _NOTHING, _UNWINDING = 1, 2, 4, 8, 0x70000001  # kinds of sections
_WRITTEN, _IN_MEMORY, _RUNS = 1, 2, 4  # flags of sections
_KNOWN = _WRITTEN | _IN_MEMORY | _RUNS | 0x10 | 0x20  # and the two of sections that may be merged
_OUTSIDE, _RESERVED = 0, 0xFF00  # sections of symbols
_ADDRESS, _NEAR, _CALL, _DISTANCE = 1, 2, 4, 24  # kinds of relocations
_FROM_TABLE = (9, 41, 42)
_STUB = 8


class _Left(Exception):
    """An object that LLVM has to link."""


@dataclass
class _Section:
    """A section with its place in the image and, where it is part of the program, in memory."""

    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    at: int = -1

    @property
    def part(self) -> int | None:
        """Which part of the program it is: 0 code, 1 constants, 2 data."""
        if not self.flags & _IN_MEMORY or self.kind == _UNWINDING:
            return None
        return 0 if self.flags & _RUNS else 2 if self.flags & _WRITTEN else 1


def load(image: bytes, imports: Mapping[str, int]) -> dict[str, int] | None:
    """The addresses of what an object defines for others; None where it has to be linked by LLVM.

    ``imports``: addresses of what it does not define; other names are those of the process.
    """
    if not _fits():
        return None
    try:
        return _Image(image, imports).loaded()
    except (_Left, struct.error, OSError):
        return None


@functools.cache
def _fits() -> bool:
    return sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 2**32


@functools.cache
def _process() -> Any:
    return ctypes.CDLL(None)


class _Image:
    """One object on its way into memory."""

    def __init__(self, image: bytes, imports: Mapping[str, int]):
        self.image, self.imports = image, imports
        ident, kind, machine, _, _, _, start, _, _, _, _, size, count, _ = _HEADER.unpack_from(
            image
        )
        if not ident.startswith(_ELF64) or (kind, machine) != (_RELOCATABLE, _X86_64):
            raise _Left
        rows = [_SECTION.unpack_from(image, start + i * size) for i in range(count)]
        self.sections = [_Section(k, f, o, n, ln, i, a) for _, k, f, _, o, n, ln, i, a, _ in rows]
        for s in self.sections:
            if s.part is not None and (
                s.kind not in (_PROGRAM, _NOTHING) or s.flags & ~_KNOWN or s.align > PAGE
            ):
                raise _Left
        self.symbols = self._symbols()
        self.relocations = [
            (self.sections[s.info], offset, info & 0xFFFFFFFF, self.symbols[info >> 32], addend)
            for s in self.sections
            if s.kind == _RELOCATIONS and self.sections[s.info].part is not None
            for offset, info, addend in _RELOCATION.iter_unpack(self._content(s))
        ]

    def _content(self, s: _Section) -> bytes:
        return self.image[s.offset : s.offset + s.size]

    def _symbols(self) -> list[tuple[str, int, int, int]]:
        """The symbols: name, binding, section, value."""
        tables = [s for s in self.sections if s.kind == _SYMBOLS]
        if len(tables) != 1:
            raise _Left
        names = self._content(self.sections[tables[0].link])
        return [
            (names[n : names.index(b"\0", n)].decode(), info >> 4, section, value)
            for n, info, _, section, value, _ in _SYMBOL.iter_unpack(self._content(tables[0]))
        ]

    def loaded(self) -> dict[str, int]:
        """Lay the object out, fill it in, protect it; the addresses of its global symbols."""
        outside = dict.fromkeys(s[0] for *_, s, _ in self.relocations if s[2] == _OUTSIDE)
        table = dict.fromkeys(s for _, _, k, s, _ in self.relocations if s[2] == _OUTSIDE or k in _FROM_TABLE)  # fmt: skip
        found = {name: self._address_of(name) for name in outside}
        starts, stubs, entries, size = self._laid_out(len(table))
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for s in self.sections:
            if s.part is not None and s.kind == _PROGRAM:
                memory[s.at : s.at + s.size] = self._content(s)
        slots = {}
        for i, symbol in enumerate(table):
            slots[symbol] = stubs + i * _STUB, entries + i * 8
            address = found[symbol[0]] if symbol[2] == _OUTSIDE else base + self._at(symbol)
            self._add(memory, slots[symbol], address)
        for relocation in self.relocations:
            self._relocate(memory, base, slots, found, *relocation)
        _protect(base, starts)
        ctypes.pythonapi.Py_IncRef(
            ctypes.py_object(memory)
        )  # as the process ends, too: others call it
        return {s[0]: base + self._at(s) for s in self.symbols if s[1] == 1 and s[2] != _OUTSIDE}

    def _address_of(self, name: str) -> int:
        """The address of what the object does not define."""
        if name in self.imports:
            return self.imports[name]
        there = getattr(_process(), name, None) if name else None
        if there is None:
            raise _Left
        return ctypes.cast(there, ctypes.c_void_p).value or 0

    def _laid_out(self, entries: int) -> tuple[list[int], int, int, int]:
        """Give the sections their places; the ends of the parts, where the stubs and the table begin, and the size."""
        at, ends, after = 0, [], []
        for part in range(3):
            for s in self.sections:
                if s.part == part:
                    s.at = -(-at // max(s.align, 1)) * max(s.align, 1)
                    at = s.at + s.size
            after.append(-(-at // 16) * 16)
            at = after[-1] + entries * (_STUB, 8, 0)[part]
            at = -(-at // PAGE) * PAGE
            ends.append(at)
        return ends, after[0], after[1], max(at, PAGE)

    def _at(self, symbol: tuple[str, int, int, int]) -> int:
        """Where a symbol of the object lies."""
        _, _, section, value = symbol
        if section >= _RESERVED or self.sections[section].at < 0:
            raise _Left
        return self.sections[section].at + value

    @staticmethod
    def _add(memory: Any, slot: tuple[int, int], address: int) -> None:
        """An address in the table, and the jump to it."""
        stub, entry = slot
        memory[entry : entry + 8] = struct.pack("<Q", address)
        memory[stub : stub + 6] = b"\xff\x25" + struct.pack("<i", entry - stub - 6)

    def _relocate(
        self,
        memory: Any,
        base: int,
        slots: Mapping[Any, tuple[int, int]],
        found: Mapping[str, int],
        section: _Section,
        offset: int,
        kind: int,
        symbol: tuple[str, int, int, int],
        addend: int,
    ) -> None:
        """Write one place that depends on where things lie."""
        place, outside = section.at + offset, symbol[2] == _OUTSIDE
        if kind == _ADDRESS:
            target = found[symbol[0]] if outside else base + self._at(symbol)
            memory[place : place + 8] = struct.pack("<Q", (target + addend) & (2**64 - 1))
            return
        if kind in _FROM_TABLE:
            target = slots[symbol][1]
        elif kind == _CALL and outside:
            target = slots[symbol][0]
        elif kind in (_NEAR, _CALL, _DISTANCE) and not outside:
            target = self._at(symbol)
        else:
            raise _Left
        form = "<q" if kind == _DISTANCE else "<i"
        value = struct.pack(form, target + addend - place)
        memory[place : place + len(value)] = value


def _protect(base: int, ends: list[int]) -> None:
    """Let the code run, and neither it nor the constants be written."""
    protect = _process().mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for start, end, rights in ((0, ends[0], mmap.PROT_READ | mmap.PROT_EXEC), (ends[0], ends[1], mmap.PROT_READ)):  # fmt: skip
        if end > start and protect(base + start, end - start, rights):
            raise OSError("memory cannot be made to run")
