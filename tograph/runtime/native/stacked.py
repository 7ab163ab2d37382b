"""The products of a stack of matrices, as one task: threads take whole matrices, and parts of one only where they would not have the same to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import threading
from .code import Code
from .lanes import loop

if TYPE_CHECKING:
    from .lower import Lowering


def task(low: Lowering, function: str, pointers: Sequence[str], steps: Sequence[int], units: int) -> tuple[str, str]:  # fmt: skip
    """(task, block): a task whose units are those of all products, so many of each, which ``function`` does.

    ``pointers``: what the first product is given; ``steps``: the bytes from there to the next one.
    """
    code = Code("t")
    given = [code.do(f"load ptr, ptr {code.element('i64', '%block', str(i))}") for i in range(len(pointers))]  # fmt: skip

    def unit(i: str) -> None:
        matrix, part = (code.do(f"{op} i64 {i}, {units}") for op in ("udiv", "urem"))
        places = [code.do(f"getelementptr i8, ptr {p}, i64 {code.multiply(matrix, n)}") if n else p for p, n in zip(given, steps, strict=True)]  # fmt: skip
        taken = ", ".join(f"ptr {p}" for p in places)
        code.line(f"call void @{function}({taken}, i64 {part}, i64 {code.add(part, '1')})")

    loop(code, "%begin", "%end", 1, unit)
    code.line("ret void")
    text = "\n".join(line for line in code.lines if line)
    name = low.function(f"{function}_stack", f"(i64 %begin, i64 %end, ptr %block) #0 {{\n{text}\n}}\n")  # fmt: skip
    return name, threading.block(low, pointers)
