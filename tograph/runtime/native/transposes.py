"""Copies of a matrix, or of several, whose rows become columns: squares of vectors are turned in registers.

A square is as many rows as a vector has elements. ``log2`` of that many times each row is merged with another one: the stage of distance
``d`` exchanges, between rows ``i`` and ``i + d``, the elements whose column has and has not the bit ``d`` (the usual transposition by
blocks, from the largest to the smallest). At the edges rows are left out and vectors are masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from ..graph.ir import Node
from ..kernels.parts import FINISHED
from . import threading
from .code import SIZE, Code
from .groups import CLONE
from .lanes import Lanes, choice, loop
from .values import Mem, numel, strides

if TYPE_CHECKING:
    from .lower import Lowering

LARGE = 1 << 18  # elements from which on a copy uses torch's threads
SMALLEST = 1 << 8  # elements below which a loop of single elements does as well


def fits(source: Mem, target: Mem) -> bool:
    """Whether a copy is that of matrices with contiguous columns to ones with contiguous rows: the last two dims of both."""
    if source.open or len(source.size) < 2 or SIZE[source.dtype] not in (4, 8):
        return False
    size = source.size[-2:]
    turned = source.stride[-2] == 1 and target.stride[-1] == 1 and min(size) > 1 and numel(size) >= SMALLEST  # fmt: skip
    return turned and None not in (_apart(source), _apart(target))


def _apart(x: Mem) -> int | None:
    """The elements from one matrix to the next; None where that is not the same for all."""
    size, stride = x.size[:-2], x.stride[:-2]
    if not size:
        return 0
    even = all(stride[i] == stride[i + 1] * size[i + 1] for i in range(len(size) - 1))
    return stride[-1] if even else None


def copy(low: Lowering, source: Mem, target: Mem) -> None:
    """Write the copy of ``source`` to ``target``, for which ``fits`` holds."""
    *lead, rows, columns = target.size
    code, count = low.code, numel(tuple(lead))
    writer = _Writer(low, source.dtype, rows, columns, source.stride[-1], target.stride[-2])
    name, total = low.function("transpose", writer.function()), count * rows * columns
    low.work += 0.1 * total
    parallel = total >= LARGE and threading.available()
    if count == 1 and not parallel:
        code.line(f"call void @{name}(ptr {source.pointer}, ptr {target.pointer}, i64 0, i64 {writer.units})")  # fmt: skip
        return
    block = code.cell("[2 x ptr]")
    for i, p in enumerate((source.pointer, target.pointer)):
        code.line(f"store ptr {p}, ptr {code.do(f'getelementptr ptr, ptr {block}, i64 {i}')}")
    apart = [(_apart(x) or 0) * SIZE[x.dtype] for x in (source, target)]
    task, units = low.function(f"{name}_chunk", _task(name, writer.units, apart)), count * writer.units  # fmt: skip
    if parallel:
        threading.call(low, f"{name}_{len(low.globals)}", task, block, units, 1)
    else:
        code.line(f"call void @{task}(i64 0, i64 {units}, ptr {block})")


def _task(name: str, strips: int, apart: Sequence[int]) -> str:
    """The text of a task, from the parameters on, whose units are the strips of all matrices, so many of each; ``apart``: bytes from one to the next."""
    code = Code("t")
    given = [code.do(f"load ptr, ptr {code.element('i64', '%block', str(i))}") for i in range(2)]

    def strip(unit: str) -> None:
        matrix, first = (code.do(f"{op} i64 {unit}, {strips}") for op in ("udiv", "urem"))
        places = [code.do(f"getelementptr i8, ptr {p}, i64 {code.multiply(matrix, n)}") for p, n in zip(given, apart, strict=True)]  # fmt: skip
        code.line(f"call void @{name}(ptr {places[0]}, ptr {places[1]}, i64 {first}, i64 {code.add(first, '1')})")  # fmt: skip

    loop(code, "%begin", "%end", 1, strip)
    code.line("ret void")
    text = "\n".join(line for line in code.lines if line)
    return f"(i64 %begin, i64 %end, ptr %block) #0 {{\n{text}\n}}\n"


def clone(low: Lowering, node: Node) -> bool:
    """Write a contiguous clone that is such a copy; whether it is one."""
    if node.op != CLONE or node.kwargs.get("memory_format") is not torch.contiguous_format:
        return False
    source, out = low.operand(node.args[0]), node.outputs[0]
    if not isinstance(source, Mem) or not fits(source, replace(source, stride=strides(source.size))):  # fmt: skip
        return False
    target = low.target(out)
    copy(low, source, target)
    low.bind(out, target)
    return True


class _Writer(Lanes):
    """Writes the function of one copy: it writes the strips ``begin`` to ``end``, each some columns of the target."""

    def __init__(self, low: Lowering, dtype: str, rows: int, columns: int, across: int, down: int):
        super().__init__(low, dtype)
        # element (r, c) is at across * c + r in the source, at down * r + c in the target
        self.rows, self.columns, self.across, self.down = rows, columns, across, down
        self.units = -(-columns // self.width)

    def function(self) -> str:
        """The text, from the parameters on."""
        code = self.code
        full, rest = divmod(self.columns, self.width)

        def strip(unit: str) -> None:
            first = code.multiply(unit, self.width)
            if not rest or not full:
                self._strip(first, rest or self.width)
            else:
                choice(code, f"icmp slt i64 {unit}, {full}", lambda: self._strip(first, self.width), lambda: self._strip(first, rest))  # fmt: skip

        loop(code, "%begin", "%end", 1, strip)
        code.line("ret void")
        text = "\n".join(line for line in code.lines if line)
        head = f"(ptr noalias %A, ptr noalias %C, i64 %begin, i64 %end) noinline {FINISHED} #0"
        return f"{head} {{\n{text}\n}}\n"

    def _strip(self, first: str, columns: int) -> None:
        source = Lines(self.at("%A", (first, self.across)), self.across)
        strip(self, source, Lines(self.at("%C", (first, 1)), self.down), self.rows, columns)


@dataclass(frozen=True)
class Lines:
    """Where a strip begins, and the elements from one line to the next: columns of the source, rows of the target."""

    start: str
    apart: int


def strip(w: Lanes, source: Lines, target: Lines, rows: int, columns: int) -> None:
    """Write the copy of some columns, a vector at most, to rows."""
    whole = rows - rows % w.width
    if whole:
        loop(w.code, "0", str(whole), w.width, lambda r: _square(w, source, target, r, w.width, columns))  # fmt: skip
    if rows - whole:
        _square(w, source, target, str(whole), rows - whole, columns)


def _square(w: Lanes, source: Lines, target: Lines, row: str, rows: int, columns: int) -> None:
    base = w.at(source.start, (row, 1))
    lines = [
        w.load(w.at(base, (str(j), source.apart)), rows) if j < columns else "poison"
        for j in range(w.width)
    ]
    to = w.at(target.start, (row, target.apart))
    for i, line in enumerate(_turned(w, lines)[:rows]):
        w.store(line, w.at(to, (str(i), target.apart)), columns)


def _turned(w: Lanes, lines: list[str]) -> list[str]:
    distance = w.width // 2
    while distance:
        out = list(lines)
        for i in range(w.width):
            if not i & distance:
                a, b = lines[i], lines[i + distance]
                out[i] = _merged(w, a, b, [j if not j & distance else w.width + j - distance for j in range(w.width)])  # fmt: skip
                out[i + distance] = _merged(w, a, b, [j + distance if not j & distance else w.width + j for j in range(w.width)])  # fmt: skip
        lines, distance = out, distance // 2
    return lines


def _merged(w: Lanes, a: str, b: str, places: list[int]) -> str:
    mask = ", ".join(f"i32 {p}" for p in places)
    return w.code.do(f"shufflevector {w.vector} {a}, {w.vector} {b}, <{w.width} x i32> <{mask}>")
