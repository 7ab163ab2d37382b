"""How the points of a kernel are shared out among GPU programs.

A program computes ``points`` neighbouring outer points (linear, the last outer loop fastest). With a row it holds ``row``
points of the row at a time: all of them when ``whole``, so that every sweep works on registers and the row is read
once; else it walks over the row, once for each sweep. Block sizes are powers of two, which Triton requires; what
hangs over the end is masked.

A pointwise kernel that reads or writes some memory along another loop than the last one (a transpose, an outer product) has
blocks of two axes, ``across``: along one of them the last loop runs, along the other the loop of that memory. So every access
is contiguous along one axis of the block, and Triton exchanges them in shared memory.

``tiles(kernel)`` gives the candidates, the most promising first. Later ones hold less at a time: they are for kernels whose
first choice does not fit into the registers, and for tuning on a device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .loop_ir import COSTLY, ITEM_SIZES, Dim, Kernel
from .planning import lane_loop, number

WHOLE = 16384  # points of a row that a program may hold in registers, of 4 bytes
WALK = 4096  # points of a row at a time where it is walked
PER_THREAD = 8  # elements of 4 bytes
MOST_WARPS = 16
ALONE = 1024  # points of a kernel that is one program
SQUARE = 1 << 14  # points of a kernel from which on blocks have two axes
NARROW = 16  # the least size of a loop that is an axis


@dataclass(frozen=True)
class Tile:
    """``points``: outer points of a program; ``row``: row points at a time (1 where there is no row).

    ``across``: the loop that the other axis of the block is made of, in a kernel without a row.
    """

    points: int
    row: int = 1
    whole: bool = True
    warps: int = 4
    across: str = ""


def power_of_two(n: int) -> int:
    """The smallest power of two that is not below ``n``."""
    return 1 << max(n - 1, 0).bit_length()


def offset(size: Sequence[int], stride: Sequence[int]) -> str:
    """Where element number ``i`` of a tensor is."""
    terms, inner = [], 1
    for n, s in zip(reversed(size), reversed(stride)):
        if n > 1 and s:
            terms.append(f"i // {inner} % {n} * {s}")
        inner *= n
    return " + ".join(reversed(terms)) or "i * 0"


def product(dims: tuple[Dim, ...]) -> int:
    return math.prod(number(d.size) for d in dims)


def programs(kernel: Kernel, tile: Tile) -> int:
    """How many programs a launch has."""
    if tile.across:
        kernel = crossed(kernel, tile.across)
        return -(-product(kernel.outer) // tile.points) * -(-product(kernel.row) // tile.row)
    return -(-product(kernel.outer) // tile.points)


def crossed(kernel: Kernel, across: str) -> Kernel:
    """A pointwise kernel with its last loop as a row, and the loop ``across`` as the last of the others."""
    *rest, last = kernel.outer
    outer = sorted(rest, key=lambda d: d.name == across)
    return replace(kernel, outer=tuple(outer), row=(last,), _facts={})


def tiles(kernel: Kernel) -> list[Tile]:
    """Candidates, best first; every one is right."""
    first = _row(kernel) if kernel.row else _pointwise(kernel)
    found = [first]
    while len(found) < 4 and (smaller := _smaller(found[-1], kernel)) is not None:
        found.append(smaller)
    return found


def _size(kernel: Kernel) -> int:
    """Bytes of the widest value that is loaded or stored."""
    sizes = [ITEM_SIZES[b.dtype] for b in kernel.buffers]
    return max([4, *sizes])


def _warps(elements: int, most: int = MOST_WARPS) -> int:
    return min(max(power_of_two(elements // (32 * PER_THREAD)), 1), most)


def _across(kernel: Kernel) -> str:
    """The loop along which most accesses are contiguous that are not so along the last one; "" where there is none."""
    if len(kernel.outer) < 2:
        return ""
    *rest, last = kernel.outer
    loads = [e.address for e in kernel.body if e.op == "load" and e.address is not None]
    found: dict[str, int] = {}
    along = 0
    for address in (*loads, *(s.address for s in kernel.stores)):
        along += address.factor(last.name) == 1
        if address.factor(last.name) not in (0, 1):
            for d in rest:
                if address.factor(d.name) == 1 and number(d.size) >= NARROW:
                    found[d.name] = found.get(d.name, 0) + 1
    if not found or not along or number(last.size) < NARROW:
        return ""
    return max(found, key=lambda n: found[n])


def _pointwise(kernel: Kernel) -> Tile:
    points = product(kernel.outer)
    if points >= SQUARE and (across := _across(kernel)):
        side = 32 if _size(kernel) > 4 else 64
        return Tile(side, side, True, side * side // 512, across)
    if points <= ALONE:  # one program takes as long as several, and can be one kernel with others
        block = power_of_two(points)
        return Tile(block, warps=_warps(block))
    costly = sum(e.op in COSTLY for e in kernel.body)
    block = 1024 if points >= 1 << 17 and costly <= 8 else 256 if points >= 1 << 14 else 128
    block = max(block * 4 // _size(kernel), 64)
    block = min(block, power_of_two(points))
    return Tile(block, warps=min(_warps(block), 4))


def _row(kernel: Kernel) -> Tile:
    points, row = product(kernel.outer), product(kernel.row)
    whole = WHOLE * 4 // _size(kernel)
    _, along_row = lane_loop(kernel)
    if along_row or any(e.op == "scan" for e in kernel.body) or points == 1:
        if row <= whole:
            block = power_of_two(row)
            here = min(max(1024 // block, 1), power_of_two(points))
            return Tile(here, block, True, _warps(here * block))
        return Tile(1, WALK * 4 // _size(kernel), False, 8)
    here = min(64, power_of_two(points))
    block = min(power_of_two(row), max(2048 // here, 1))
    return Tile(here, block, block >= row, _warps(here * block, 8))


def _smaller(tile: Tile, kernel: Kernel) -> Tile | None:
    """The same shape with half as much in each thread."""
    if tile.across:
        return replace(tile, points=tile.points // 2, warps=max(tile.warps // 2, 1)) if tile.points > 16 else None  # fmt: skip
    if tile.warps < MOST_WARPS and tile.points * tile.row >= 64 * tile.warps and kernel.row:
        return Tile(tile.points, tile.row, tile.whole, tile.warps * 2)
    if tile.points > 1 and tile.points * tile.row > 64:
        return Tile(tile.points // 2, tile.row, tile.whole, tile.warps)
    if tile.row > 256:
        return Tile(tile.points, tile.row // 2, False, max(tile.warps // 2, 1))
    return None
