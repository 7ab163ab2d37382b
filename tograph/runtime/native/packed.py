"""Products with a matrix on the right that is contiguous along its columns (``x @ w.t()``), a panel of which is turned where it is used.

Copied whole beforehand it goes out to a far cache and comes back, and other threads wait for the one that copies. A panel is as
many columns as a tile of the result has: turned in registers (``transposes``) it lies in the thread's own cache while all rows of a chunk
are multiplied by it. What that costs beside the product does not depend on its size, only on the rows.
"""

from __future__ import annotations

from .code import SIZE
from .lanes import loop
from .matrices import Place
from .micro_kernels import Writer
from .transposes import Lines, strip

ROWS = 64  # of a chunk, at least: a panel is turned once for each
PANELS = 8  # that threads share as they are
ROOM = 1 << 17  # bytes of a turned panel, on the stack


class Packed(Writer):
    """Writes the function of such a product."""

    parted = False

    def _shape(self, vectors: int, joint: bool) -> tuple[int, int]:
        """Panels are equally wide where some are nearly as wide as they may be, and fit on the stack."""
        high, wide = super()._shape(vectors, joint)
        line = self.width * SIZE[self.dtype] * self.b.rows
        wide = max(1, min(wide, ROOM // line))
        return high, next((n for n in (wide, wide - 1) if n and vectors % n == 0), wide)

    def _by_rows(self, fresh: bool) -> bool:
        return False

    def _even(self) -> int:
        """Rows of a chunk: all where the panels are enough for threads."""
        chunks = -(-min(self.shared, PANELS) // self.panels)
        blocks = max(-(-self.a.rows // (self.rows * chunks)), -(-ROWS // self.rows))
        return self.rows * blocks

    def _tiles(self, row: str, rows: int, first: str, columns: int, piece: tuple[str, str] | None = None) -> None:  # fmt: skip
        self._turn(first, columns)
        super()._tiles(row, rows, first, columns, piece)

    def _turn(self, first: str, columns: int) -> None:
        """Write the copy of a panel."""
        b, wide = self.b, self.columns * self.width
        self.room = self.room or self.code.cell(f"[{b.rows * wide} x {self.kind}]")
        begin = self.at("%B", (first, b.column_stride))

        def turn(j: str, lanes: int) -> None:
            source = Lines(self.at(begin, (j, b.column_stride)), b.column_stride)
            strip(self, source, Lines(self.at(self.room, (j, 1)), wide), b.rows, lanes)

        whole = columns - columns % self.width
        if whole > self.width:  # written once: it takes LLVM as long as a tile
            loop(self.code, "0", str(whole), self.width, lambda j: turn(j, self.width))
        elif whole:
            turn("0", self.width)
        if columns - whole:
            turn(str(whole), columns - whole)

    def _right(self, first: str, start: str) -> Place:
        return Place(self.room, self.columns * self.width)
