"""The tile of a matrix product's result that a micro-kernel keeps in vector registers.

Large enough that loads are few for each multiply-add, small enough for the registers, and such that little is left at the edges.
"""

from __future__ import annotations

from ..kernels.jit import host

ACCUMULATORS = 24  # vector registers for the tile, of 32
FEWER, FREE = 12, 14  # of 16, without AVX-512; and with a vector for each column of the tile
# Multiply-adds that start until a sum can be added to again, and that a step's loads cost.
LATENCY, STEP = 10, 4


def tile(rows: int, vectors: int, joint: bool) -> tuple[int, int]:
    """The rows and the vectors of columns of a tile of so large a result; ``joint``: the product runs together with others.

    A step of the shared dimension loads each of the tile's rows and vectors once for as many multiply-adds as it has places: of 32
    registers 8 x 3 does with less than one load for two. Of 16, 6 x 2 is best, but for what is left at the edges.
    """
    if rows == 1:
        room = ACCUMULATORS if host().avx512 else FEWER
        return 1, min(vectors, room // 4 if joint else room)
    if host().avx512:
        high = min(rows, 8)
        return high, min(vectors, ACCUMULATORS // high)
    shapes = [(high, min(vectors, FREE // (high + 1))) for high in range(min(rows, 6), 0, -1)]
    return min(shapes, key=lambda shape: _cost(rows, vectors, *shape))


def _cost(rows: int, vectors: int, high: int, wide: int) -> int:
    """What a step of the shared dimension costs in tiles of ``high`` rows and ``wide`` vectors, in multiply-adds (measured on Zen 3)."""
    total = 0
    for tall, blocks in ((high, rows // high), (rows % high, 1)):
        for broad, panels in ((wide, vectors // wide), (vectors % wide, 1)):
            total += blocks * panels * (max(tall * broad, LATENCY) + STEP) if tall and broad else 0
    return total
