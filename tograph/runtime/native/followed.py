"""A loop nest and the scans of what it has made, as one task of the threads: see ``looks``.

Starting and joining threads costs more than a scan of some rows. So where the last thing that ran on all threads is a nest whose unit ``i`` makes row
``i`` of what is scanned, and no other, each thread scans the rows that it has made: its share of both is the same.

The nest's results lie in the arena, each at a place of its own that is a number of bytes from the arena's begin. What is scanned and begins elsewhere, or apart
from all results, is not made by the nest, so its rows may be read at any time. What a scan writes is not in the arena. Behind the call of the nest stand nothing but
addresses, some of them stored in cells that no nest reads: else the nest stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..kernels.loop_ir import Kernel, Open
from .code import SIZE, Code
from .values import Mem

if TYPE_CHECKING:
    from .lower import Lowering


class Rows(NamedTuple):
    """Rows of ``nbytes`` that begin ``stride`` bytes after each other."""

    pointer: str
    stride: int
    nbytes: int


@dataclass(frozen=True)
class Started:
    """The call of a nest on all threads, line ``line`` of ``code``, by which ``results`` are made."""

    code: Code
    line: int
    task: str
    block: str
    units: int
    grain: int
    results: tuple[Rows, ...]


def note(low: Lowering, kernel: Kernel, results: Sequence[Mem], task: str, block: str, units: int, grain: int) -> None:  # fmt: skip
    """Keep what the line just written starts, where each unit makes one row of each result."""
    low.started = None
    made = [_rows(kernel, f"o{i}", x) for i, x in enumerate(results)]
    if kernel.may_fail or kernel.sizes or not kernel.outer or kernel.outer[0].size != units:
        return
    rows = tuple(r for r in made if r is not None)
    if len(rows) == len(made):
        low.started = Started(low.code, len(low.code.lines) - 1, task, block, units, grain, rows)


def _rows(kernel: Kernel, name: str, x: Mem) -> Rows | None:
    """A result as rows by the outermost loop; None where it is not one row for each of its iterations."""
    if len(x.size) != 2 or x.size[0] != kernel.outer[0].size or x.stride[1] != 1:
        return None
    if any(isinstance(n, Open) or not isinstance(n, int) for n in (*x.size, *x.stride)):
        return None
    stores = [s.address for s in kernel.stores if s.buffer == name]
    by_row = all(not a.gathers and a.factor(kernel.outer[0].name) == x.stride[0] for a in stores)
    size = SIZE[x.dtype]
    return Rows(x.pointer, x.stride[0] * size, x.size[1] * size) if stores and by_row else None


def taken(low: Lowering, scans: Sequence[tuple[Sequence[Rows] | None, int]]) -> Started | None:
    """The nest that was started last, its call taken out of the code, where scans may be parts of its task.

    ``scans``: what each reads, None where it has to stand alone, and how many rows.
    """
    nest, low.started = low.started, None
    if nest is None or nest.code is not low.code or not _only_addresses(low.code, nest.line + 1):
        return None
    for scanned, count in scans:
        if scanned is None or count != nest.units or not all(_fits(low, nest, r) for r in scanned):
            return None
    low.code.lines[nest.line] = ""
    return nest


def _only_addresses(code: Code, first: int) -> bool:
    """Whether the code from a line on does nothing but to compute addresses and to put them, or constants, into cells."""
    for line in code.lines[first:]:
        if line.startswith("  store "):
            if not code.origin(line.rpartition("ptr ")[2].partition(",")[0])[0].startswith("%cell"):
                return False
        elif line and " = getelementptr " not in line:
            return False
    return True


def _fits(low: Lowering, nest: Started, scanned: Rows) -> bool:
    """Whether a row that is scanned was made by the unit of its number, if the nest has made it."""
    base, first = low.code.origin(scanned.pointer)
    for made in nest.results:
        root, begin = low.code.origin(made.pointer)
        if root != low.base:
            return False
        apart = begin - first
        ends = -made.nbytes - (nest.units - 1) * made.stride, scanned.stride * nest.units
        if base != root or not ends[0] < apart < ends[1]:
            continue
        if made.stride != scanned.stride or apart < 0 or apart + made.nbytes > made.stride:
            return False
    return True
