"""Which loop of a kernel becomes lanes, how many lanes, and what one unit of work is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from .loop_ir import COSTLY, FLOATS, ITEM_SIZES, Dim, Kernel, Unsupported

BLOCK = 4096  # points of the lane loop in one unit, where there is no row
USUAL = 64  # what a size that only the run knows is taken to be


@dataclass(frozen=True)
class Target:
    """What the machine has. ``has(name)``: whether a C function can be called; ``half``: f16 conversions."""

    vector_bytes: int
    fma: bool
    avx512: bool
    half: bool
    has: Callable[[str], bool]
    precise: bool = False


@dataclass(frozen=True)
class Plan:
    """How loops become code. ``lanes``: the loop that is vectorised; ``block``: its points in one unit, 0 for all of them.

    There are ``units`` of work times the sizes ``opened``, which only the run knows.
    """

    lanes: Dim | None
    in_row: bool
    wide: int
    narrow: int
    block: int
    units: int
    opened: tuple[str, ...] = ()


def number(size) -> int:
    if type(size) is not int:
        raise Unsupported("a size that is known only at run time")
    return size


def usual(size) -> int:
    """A size to plan with."""
    return size if type(size) is int else USUAL


def plan(kernel: Kernel, target: Target) -> Plan:
    """The loop that becomes lanes, the number of lanes, and the units of work."""
    lanes, in_row = lane_loop(kernel)
    units = [d.size for d in kernel.outer if in_row or d is not lanes]
    outside = prod(n for n in units if type(n) is int)
    opened = tuple(n for n in units if type(n) is str)
    if lanes is None:
        return Plan(None, False, 1, 1, 1, outside, opened)
    narrow = target.vector_bytes // 4
    n = usual(lanes.size)
    wide = _width(kernel, n, narrow)
    if in_row or type(lanes.size) is str:
        return Plan(lanes, in_row, wide, narrow, 0, outside, opened)
    block = min(n, wide if kernel.row else max(BLOCK, wide))
    block = max(block, min(n, wide))
    return Plan(lanes, False, wide, narrow, block, outside * -(-n // block), opened)


def lane_loop(kernel: Kernel) -> tuple[Dim | None, bool]:
    """The loop along which most accesses are contiguous; along the row where both are as good."""
    row = {d.name for d in kernel.row}
    points = math.prod(usual(d.size) for d in kernel.row)
    accesses = [(e.address, kernel.in_row(e), e.dtype) for e in kernel.body if e.op == "load" and e.address]  # fmt: skip
    accesses += [(s.address, bool(kernel.store_depends(s) & row), s.value.dtype) for s in kernel.stores]  # fmt: skip
    candidates = []
    if kernel.row and all(e.name == "sum" for e in kernel.body if e.op == "scan"):
        candidates.append((kernel.row[-1], True))
    if kernel.outer:
        candidates.append((kernel.outer[-1], False))

    def score(candidate: tuple[Dim, bool]) -> int:
        name, total = candidate[0].name, 0
        for address, in_row, dtype in accesses:
            factor = address.factor(name)
            shuffled = factor == -1 or (factor == 2 and ITEM_SIZES[dtype] >= 4)
            gain = 0 if factor == 0 else 2 if factor == 1 else 1 if shuffled else -3
            total += gain * points if in_row else gain
        return total

    best = max(candidates, key=score, default=(None, False))
    if best[0] is not None and (score(best) < 0 or usual(best[0].size) == 1):
        return None, False
    return best


def _width(kernel: Kernel, n: int, narrow: int) -> int:
    """Lanes in the main loop: several registers hide latency while the body is small."""
    ops = sum(e.op not in ("const", "load", "scalar", "index") for e in kernel.body)
    costly = sum(e.op in COSTLY for e in kernel.body)
    if any(e.op == "scan" for e in kernel.body):
        return narrow
    registers = 4 if ops <= 12 and costly <= 2 else 2 if ops <= 40 else 1
    if all(ITEM_SIZES[e.dtype] == 8 for e in kernel.body if e.dtype in FLOATS and e.op == "load"):
        registers = max(registers // 2, 1)
    while registers > 1 and narrow * registers > n:
        registers //= 2
    return narrow * registers
