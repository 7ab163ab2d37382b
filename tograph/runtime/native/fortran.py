"""Calls of the Fortran routines in torch's libraries, BLAS and LAPACK: all arguments go by address.

A routine is one letter for the dtype, its name and an underscore. Where a build of torch has them under other names ``routines`` finds none, and the
caller has to know another way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..kernels import jit
from . import threading
from .code import REGISTER
from .values import Span

if TYPE_CHECKING:
    from .lower import Lowering

LETTERS = {"f32": "s", "f64": "d"}


def routines(dtype: str, *names: str) -> list[str] | None:
    """The full names of routines; None where one is missing."""
    found = [f"{LETTERS[dtype]}{name}_" for name in names]
    return None if jit.symbols(*found) is None else found


class Calls:
    """Writes calls, and the cells that arguments are in."""

    def __init__(self, low: Lowering):
        self.low, self.code = low, low.code

    def integer(self, text: str) -> str:
        """The address of an int."""
        cell = self.code.cell("i32")
        small = text if not text.startswith("%") else self.code.do(f"trunc i64 {text} to i32")
        self.code.line(f"store i32 {small}, ptr {cell}")
        return cell

    def letter(self, text: str) -> str:
        """The address of a character."""
        cell = self.code.cell("i8")
        self.code.line(f"store i8 {ord(text)}, ptr {cell}")
        return cell

    def number(self, dtype: str, text: str) -> str:
        """The address of a number of a matrix's dtype."""
        cell = self.code.cell("i64")
        self.code.line(f"store {REGISTER[dtype]} {text}, ptr {cell}")
        return cell

    def distance(self, stride: int) -> str:
        """The address of a stride."""
        return self.integer(self.code.spans(stride) if isinstance(stride, Span) else str(stride))

    def run(self, name: str, *arguments: str) -> None:
        """Write the call."""
        self._declare(name, len(arguments))
        self.code.line(f"call void @{name}({', '.join(f'ptr {a}' for a in arguments)})")

    def share(self, name: str, units: str, *arguments: str) -> None:
        """Write the call of a routine that has threads of its own. ``units``: how much it does."""
        self._declare(name, len(arguments))
        task, block = threading.packed(self.low, name, arguments)
        threading.whole(self.low, f"{task}_{len(self.low.globals)}", task, block, units)

    def _declare(self, name: str, count: int) -> None:
        self.code.declare(name, f"void {{}}({', '.join(['ptr'] * count)}) nounwind")
