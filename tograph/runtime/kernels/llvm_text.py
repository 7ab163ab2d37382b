"""LLVM IR text of one function: lines, fresh names, declarations, literals, and the types of loop IR dtypes.

A register holds a value of a loop IR dtype: ``bool`` as i1, integers as they are, ``f16`` and ``bf16`` as float that is
exactly representable, so that a cast to f32 is free and a cast from f32 rounds. In memory they have torch's layout.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from .loop_ir import ITEM_SIZES, rounded

REGISTER = {"bool": "i1", "u8": "i8", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64",
            "f16": "float", "bf16": "float", "f32": "float", "f64": "double"}  # fmt: skip
MEMORY = {**REGISTER, "bool": "i8", "f16": "half", "bf16": "i16"}
UNSIGNED = ("bool", "u8")
SUFFIX = {"i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64",
          "float": "f32", "double": "f64", "half": "f16"}  # fmt: skip


class Text:
    """One function's text. ``imports`` are C functions that it calls, with their declarations."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.declarations: dict[str, str] = {}
        self.imports: dict[str, None] = {}
        self.block = "entry"
        self._count = 0

    def fresh(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def label(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def set(self, text: str) -> str:
        """``%fresh = text``."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def alloca(self, kind: str, align: int = 64) -> str:
        """A stack slot, made in the entry block so that it becomes a register."""
        name = self.fresh()
        self.entry.append(f"  {name} = alloca {kind}, align {align}")
        return name

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    @contextmanager
    def loop(self, start: str, stop: str, step: int) -> Iterator[str]:
        """A counted loop; gives the register of its variable."""
        head, body, latch, done = (self.label(s) for s in ("head", "body", "latch", "done"))
        before, i, following = self.block, self.fresh(), self.fresh()
        self.line(f"br label %{head}")
        self.start(head)
        self.line(f"{i} = phi i64 [ {start}, %{before} ], [ {following}, %{latch} ]")
        more = self.set(f"icmp slt i64 {i}, {stop}")
        self.line(f"br i1 {more}, label %{body}, label %{done}")
        self.start(body)
        yield i
        self.line(f"br label %{latch}")
        self.start(latch)
        self.line(f"{following} = add nsw i64 {i}, {step}")
        self.line(f"br label %{head}, !llvm.loop !0")
        self.start(done)


def float_literal(value: float, dtype: str) -> str:
    """A floating point constant as LLVM's hexadecimal double, rounded to ``dtype``."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded(value, dtype)))[0]:016X}"


def integer_literal(value: int, dtype: str) -> str:
    if dtype == "bool":
        return "true" if value else "false"
    bits = 8 * ITEM_SIZES[dtype]
    value &= (1 << bits) - 1
    return str(value - (1 << bits) if value >> bits - 1 else value)
