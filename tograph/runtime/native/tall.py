"""Products of a matrix whose number of rows only the run knows: blocks of rows by the micro-kernels for so many, the rest row by row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..graph.families import MATRIX_PRODUCTS
from ..graph.ir import Node
from ..kernels.loop_ir import Open
from . import matmul, threading, walks
from .code import SIZE
from .matrices import Matrix
from .values import Mem

if TYPE_CHECKING:
    from .lower import Lowering

SMALL = 256  # elements of the matrix on the right below which the product is a fold
BLOCKS = (64, 8, 1)  # rows; the largest where they are work for all threads
MANY = 64  # rows that are reckoned with


def fits(low: Lowering, node: Node) -> bool:
    """Whether a product's rows, and nothing else, have a length that only the run knows."""
    if node.op not in MATRIX_PRODUCTS or node.kwargs:
        return False
    *bias, a, b = map(low.operand, node.args)
    if not all(isinstance(x, Mem) and x.dtype in ("f32", "f64") for x in (a, b)) or any(getattr(x, "open", False) for x in (b, *bias)):  # fmt: skip
        return False
    if any(len(x.size or ()) > 1 and x.size[0] != 1 for x in bias):
        return False
    return isinstance(a.size[0], Open) and not isinstance(a.size[1], Open) and b.size[0] * b.size[1] >= SMALL  # fmt: skip


def lower(low: Lowering, node: Node) -> None:
    """Write the product and bind its result."""
    *bias, a, b = map(low.operand, node.args)
    out, code = node.outputs[0], low.code
    dtype, size = low.tensor(out)
    target = low.target(out)
    added = matmul.broadcast(low, bias[0], size) if bias else None
    left, right, result = matmul.matrices("mm", a, b, target)
    count = low.sizes.text(size[0])

    def write(rows: int) -> None:
        """Write the product where there are about so many rows."""
        there = matmul.usable(low, replace(left, rows=rows), right, b)
        _in_blocks(low, dtype, count, left, there, result, added)

    least = matmul.paying(right)
    if matmul.turned(left, right):
        with walks.either(low, code.do(f"icmp uge i64 {count}, {least}")) as other:
            write(least)
            other()
            write(1)
    else:
        write(MANY)
    low.work += 0.05 * MANY * left.columns * right.columns
    low.bind(out, target)


def _in_blocks(low: Lowering, dtype: str, count: str, left: Matrix, right: Matrix, result: Matrix, added: Mem | None) -> None:  # fmt: skip
    code, first = low.code, "0"
    for rows in BLOCKS:
        if rows == BLOCKS[0] and (rows * left.columns * right.columns < threading.PRODUCT or not threading.available()):  # fmt: skip
            continue
        number = code.do(f"sub i64 {count}, {first}")
        number = code.do(f"udiv i64 {number}, {rows}") if rows > 1 else number
        with walks.counted(code, number) as i:
            row = code.add(first, code.multiply(i, rows))
            parts = [_block(low, x, rows, row, dtype) for x in (left, result)]
            here = None if added is None else _bias_of(low, added, rows, row)
            matmul.product(low, dtype, 1, parts[0], right, parts[1], here)
        first = code.add(first, code.multiply(number, rows))


def _block(low: Lowering, x: Matrix, rows: int, row: str, dtype: str) -> Matrix:
    """So many rows of a matrix, from one on."""
    return replace(x, pointer=_at(low, x.pointer, row, x.row_stride * SIZE[dtype]), rows=rows)


def _bias_of(low: Lowering, x: Mem, rows: int, row: str) -> Mem:
    """What is added to these rows."""
    return replace(x, pointer=_at(low, x.pointer, row, x.stride[0] * SIZE[x.dtype]), size=(rows, x.size[1]))  # fmt: skip


def _at(low: Lowering, pointer: str, row: str, step: int) -> str:
    offset = low.code.multiply(row, step)
    return low.code.do(f"getelementptr i8, ptr {pointer}, i64 {offset}")
