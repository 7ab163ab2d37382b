"""Writing LLVM IR text: functions, blocks, fresh names, and the LLVM types of dtypes.

dtypes are the names of ``types.DTYPE_NAMES``; a text is a number (``texts``). In registers a bool is ``i1``, in memory ``i8``; a bf16 is its bits, ``i16``, as LLVM
calls functions that no library here has where it selects between values of its own type on machines without instructions for them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

from ..kernels.llvm_text import rounded
from .values import Span

REGISTER = {"bool": "i1", "u8": "i8", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64",
            "f16": "half", "bf16": "i16", "f32": "float", "f64": "double", "text": "i64"}  # fmt: skip
FLOATS = frozenset(["f16", "bf16", "f32", "f64"])
UNSIGNED = frozenset(["bool", "u8"])
BITS = {"bool": 1, "u8": 8, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
SIZE = {"bool": 1, "u8": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "text": 8, "c64": 8, "c128": 16}  # fmt: skip


def memory(dtype: str) -> str:
    """The LLVM type of an element in memory."""
    return "i8" if dtype == "bool" else REGISTER[dtype]


def literal(value: Any, dtype: str) -> str:
    """A constant of a dtype as LLVM writes it; integers wrap, floats round."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype in ("f16", "bf16"):
        number = rounded(float(value), dtype)
        if dtype == "bf16":
            return str(int.from_bytes(struct.pack("<f", number)[2:], "little", signed=True))
        return f"0xH{int.from_bytes(struct.pack('<e', number), 'little'):04X}"
    if dtype in FLOATS:
        number = float(value)
        if dtype == "f32":
            number = _single(number)
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    bits = BITS[dtype]
    number = int(value) & ((1 << bits) - 1)
    return str(number - (1 << bits) if number >> (bits - 1) else number)


def _single(number: float) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


# Loops that LLVM is to unroll say so; it leaves the others alone, because unrolling multiplies its time. ``UNROLL[n]`` ends the
# branch back, n copies of the body or all of them; ``UNROLLING`` is the metadata of every module.
_WAYS = {2: "count", 4: "count", 8: "count", "full": "full"}
UNROLL = {n: f", !llvm.loop !{20 + 2 * i}" for i, n in enumerate(_WAYS)}
KEPT = ", !llvm.loop !0"  # and that of a loop that is neither unrolled nor made one over vectors
UNROLLING = "".join(
    f"!{20 + 2 * i} = distinct !{{!{20 + 2 * i}, !{21 + 2 * i}}}\n"
    f'!{21 + 2 * i} = !{{!"llvm.loop.unroll.{way}"{"" if n == way else f", i32 {n}"}}}\n'
    for i, (n, way) in enumerate(_WAYS.items())
)

# An address that is a constant number of elements behind another one.
_APART = re.compile(r"getelementptr (?:inbounds )?(\w+), ptr (%[\w.]+), i64 (-?\d+)")
_BYTES = {"i8": 1, "i16": 2, "half": 2, "i32": 4, "float": 4, "i64": 8, "double": 8, "ptr": 8}

# The attributes of a function that runs seldom, or once a call: LLVM translates it as it stands, in a third of the time.
RARE = "noinline optnone nounwind"


class Code:
    """The body of one function. ``block`` is the label of the block that is being written."""

    def __init__(self, prefix: str = "t") -> None:
        self.lines: list[str] = []
        self.block = "entry"
        self.declares: dict[str, str] = {}
        self._prefix, self._count = prefix, 0
        self.spans: Callable[[Span], str]  # the register with such a stride
        self._apart: dict[str, tuple[str, int]] = {}  # what is some bytes behind a pointer
        self.lines.append("entry:")
        self._cells = self.later()

    def cell(self, kind: str) -> str:
        """Stack memory for one value of an LLVM type, or ``[n x type]``."""
        name = "%" + self.fresh("cell")
        old = self.lines[self._cells]
        self.lines[self._cells] = f"{old}\n  {name} = alloca {kind}, align 16".lstrip("\n")
        return name

    def fresh(self, label: str = "") -> str:
        self._count += 1
        return f"{label or self._prefix}{self._count}"

    def do(self, text: str) -> str:
        """Write an instruction that gives a value; the value's name."""
        name = "%" + self.fresh()
        self.lines.append(f"  {name} = {text}")
        if (found := _APART.fullmatch(text)) is not None:
            kind, pointer, count = found.groups()
            self._apart[name] = pointer, _BYTES[kind] * int(count)
        return name

    def origin(self, pointer: str) -> tuple[str, int]:
        """The pointer that one was computed from by constants alone, and how many bytes behind that it is."""
        nbytes = 0
        while pointer in self._apart:
            pointer, more = self._apart[pointer]
            nbytes += more
        return pointer, nbytes

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def label(self, name: str) -> None:
        """Begin a block; the one before must have ended with a branch."""
        self.lines.append(f"{name}:")
        self.block = name

    def jump(self, name: str) -> None:
        """End this block and begin ``name``."""
        self.line(f"br label %{name}")
        self.label(name)

    def branch(self, condition: str, then: str, orelse: str) -> None:
        self.line(f"br i1 {condition}, label %{then}, label %{orelse}")

    def later(self) -> int:
        """A place for an instruction that is known only later: fill it with ``fill``."""
        self.lines.append("")
        return len(self.lines) - 1

    def fill(self, place: int, text: str) -> None:
        self.lines[place] = "  " + text

    def declare(self, name: str, signature: str) -> str:
        """Note a function of other code: ``signature`` has ``{}`` in the place of its name."""
        self.declares[name] = "declare " + signature.format("@" + name)
        return "@" + name

    def intrinsic(self, name: str, dtype: str, *args: str) -> str:
        """Call ``llvm.name`` on values of one dtype."""
        kind = REGISTER[dtype]
        suffix = {"float": "f32", "double": "f64"}.get(kind, kind)
        full = f"llvm.{name}.{suffix}"
        self.declare(full, f"{kind} {{}}({', '.join([kind] * len(args))})")
        return self.do(f"call {kind} @{full}({', '.join(f'{kind} {a}' for a in args)})")

    def external(self, name: str, dtype: str, *args: str) -> str:
        """Call a C function on values of one dtype; it may not be moved or merged less than pure.

        LLVM takes ``fmod`` of what is not infinite, by what is not zero, never to be NaN, also where
        an operand is NaN: that result is undefined. So it is not told which function this is.
        """
        kind = REGISTER[dtype]
        self.declare(name, f"{kind} {{}}({', '.join([kind] * len(args))}) nounwind willreturn memory(none)")  # fmt: skip
        unknown = " nobuiltin" if name.startswith("fmod") else ""
        return self.do(f"call {kind} @{name}({', '.join(f'{kind} {a}' for a in args)}){unknown}")

    def phi(self, kind: str, *incoming: tuple[str, str]) -> str:
        return self.do(f"phi {kind} " + ", ".join(f"[{v}, %{b}]" for v, b in incoming))

    def element(self, dtype: str, pointer: str, index: str) -> str:
        """The address of an element."""
        if index == "0":
            return pointer
        kind = (
            memory(dtype) if dtype in REGISTER else f"[{SIZE[dtype]} x i8]"
        )  # complex ones are only moved
        return self.do(f"getelementptr inbounds {kind}, ptr {pointer}, i64 {index}")

    def load(self, dtype: str, pointer: str, index: str = "0") -> str:
        place = self.element(dtype, pointer, index)
        got = self.do(f"load {memory(dtype)}, ptr {place}, align {SIZE[dtype]}")
        return self.do(f"icmp ne i8 {got}, 0") if dtype == "bool" else got

    def store(self, dtype: str, value: str, pointer: str, index: str = "0") -> None:
        place = self.element(dtype, pointer, index)
        if dtype == "bool":
            value = self.do(f"zext i1 {value} to i8")
        self.line(f"store {memory(dtype)} {value}, ptr {place}, align {SIZE[dtype]}")

    def multiply(self, a: str, b: int) -> str:
        """``a * b`` of an i64 and a constant, or a stride that is known only at run time."""
        if a == "0" or b == 0:
            return "0"
        if isinstance(b, Span):
            return self.do(f"mul nsw i64 {a}, {self.spans(b)}")
        if a.lstrip("-").isdigit():
            return str(int(a) * b)
        return a if b == 1 else self.do(f"mul nsw i64 {a}, {b}")

    def add(self, a: str, b: str) -> str:
        if a == "0" or b == "0":
            return b if a == "0" else a
        if a.lstrip("-").isdigit() and b.lstrip("-").isdigit():
            return str(int(a) + int(b))
        return self.do(f"add nsw i64 {a}, {b}")
