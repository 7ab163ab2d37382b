"""Where the matrices of a product lie while its code is written: a pointer, sizes that are known or open, strides in elements."""

from __future__ import annotations

from dataclasses import dataclass

from ..kernels.loop_ir import Open


@dataclass(frozen=True)
class Matrix:
    """``rows`` x ``columns`` elements at ``pointer``; in a batch the next matrix is ``apart`` elements further on."""

    pointer: str
    rows: int | Open
    columns: int | Open
    row_stride: int
    column_stride: int
    apart: int = 0

    def turned(self) -> Matrix:
        """The transpose."""
        return Matrix(self.pointer, self.columns, self.rows, self.column_stride, self.row_stride, self.apart)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where rows are, ``apart`` elements apart; ``back`` is added to an index where less than the whole result lies there."""

    start: str
    apart: int
    back: str = "0"
