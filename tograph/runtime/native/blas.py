"""Large matrix products are calls of the BLAS that torch calls itself.

A generated micro-kernel (``micro_kernels``) reads the matrices where they are. That is the faster way as long as they stay in a core's own cache; from there on a
library that first lays blocks of them out for the processor's caches and pages is, by a factor that grows with what else the machine does. So is a library
where only the run knows the sizes, which a micro-kernel is written for: then the code has both forms, and a test of the sizes.

BLAS knows matrices stored by columns. One that is stored by rows is its own transpose there, so ``C = A B`` is asked for as ``C' = B' A'``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..graph.ir import Node
from ..graph.types import DTYPE_NAMES, TensorType
from ..kernels.loop_ir import Open, bound
from . import walks
from .code import SIZE, literal
from .fortran import LETTERS, Calls, routines
from .matrices import Matrix
from .values import Mem

if TYPE_CHECKING:
    from .lower import Lowering

LARGE = 3 << 19  # bytes of the factors from which on the library is asked
ROWS = 8  # of the result, below which a product is one pass over the matrix on the right,
FAR = 1 << 24  # which pays down to two rows up to so many bytes of it
SOME = 1 << 14  # multiply-adds from which on it is asked for a product that has no micro-kernel
UNIT = 1 << 10  # multiply-adds that a time is of
STACK = 1 << 10  # matrices of a stack that are given at once
LONGEST = 1 << 31  # sizes that BLAS cannot take
OPS = frozenset(f"aten.{name}.default" for name in ["mm", "addmm", "bmm", "baddbmm"])


class Product(NamedTuple):
    """``c = a b``, and what is ``added``, for each of ``batch`` matrices; ``target`` is where ``c`` is."""

    dtype: str
    batch: int | Open
    a: Matrix
    b: Matrix
    c: Matrix
    added: Mem | None
    target: Mem


def large(node: Node) -> bool:
    """Whether BLAS does a product of sizes that the graph knows, by the types alone."""
    left, right = (x.type for x in node.args[-2:])
    if node.op not in OPS or not isinstance(left, TensorType) or not isinstance(right, TensorType):
        return False
    kind = DTYPE_NAMES[left.dtype]
    if kind not in LETTERS or None in (*left.shape, *right.shape) or routines(kind, "gemm") is None:
        return False
    (n, k), m = left.shape[-2:], right.shape[-1]
    assert n is not None and k is not None and m is not None
    rows = ROWS if k * m * SIZE[kind] < FAR else 2
    return n >= rows and m > 1 and k * (n + m) * SIZE[kind] >= LARGE and max(n, k, m) < LONGEST


def fitted(x: Product) -> Product | None:
    """The product, or that of the transposes, as BLAS can read the factors and write the result where they are; None where it cannot."""
    passes = (
        bound(x.a.rows) < ROWS and x.b.column_stride != 1
    )  # a few dot products with each row are one pass, too
    if passes or None in (_lead(x.a), _lead(x.b), _lead(x.c)):
        return None
    if x.c.column_stride == 1:
        return x
    a, b, c = (m.turned() for m in (x.b, x.a, x.c))
    return x._replace(a=a, b=b, c=c)


def _lead(x: Matrix) -> tuple[str, int] | None:
    """How BLAS is to read a matrix, and the distance of its rows or columns; None where neither lie in a row."""
    if x.column_stride == 1 and x.row_stride >= bound(x.columns):
        return "N", x.row_stride
    by_columns = x.row_stride == 1 and x.column_stride >= bound(x.rows)
    return ("T", x.column_stride) if by_columns else None


def test(low: Lowering, x: Product, tiled: bool) -> str:
    """The condition for BLAS where only the run knows the sizes. ``tiled``: there is a micro-kernel for the product."""
    do = low.code.do
    if not tiled:
        return do(f"icmp sge i64 {_work(low, x)}, {SOME}")
    n, k, m = (low.sizes.text(i) for i in (x.a.rows, x.a.columns, x.b.columns))
    factors = do(f"mul i64 {low.code.add(n, m)}, {k}")
    return do(f"icmp sge i64 {factors}, {LARGE // SIZE[x.dtype]}")


def write(low: Lowering, x: Product) -> None:
    """Write the calls."""
    if x.added is not None and x.added.pointer != x.target.pointer:
        low.copy(x.added, x.target)
    name = routines(x.dtype, "gemm_batch")
    if x.batch != 1 and name and isinstance(x.batch, int) and x.batch <= STACK:
        _call(low, x, name[0], _addresses(low, x), x.batch)
        return
    (name,) = routines(x.dtype, "gemm") or [""]
    if x.batch == 1:
        _call(low, x, name, [m.pointer for m in (x.a, x.b, x.c)])
        return
    with walks.counted(low.code, low.sizes.text(x.batch)) as i:
        _call(low, x, name, [_place(low, x, m, i) for m in (x.a, x.b, x.c)])


def _place(low: Lowering, x: Product, m: Matrix, i: str) -> str:
    """Where the matrix ``i`` of a stack is."""
    return low.code.element(x.dtype, m.pointer, low.code.multiply(i, m.apart))


def _addresses(low: Lowering, x: Product) -> list[str]:
    """Where the addresses of the matrices of each stack are written."""
    code, size = low.code, f"[{x.batch} x ptr]"
    tables = [code.cell(size) for _ in range(3)]
    with walks.counted(code, str(x.batch)) as i:
        for table, m in zip(tables, (x.a, x.b, x.c), strict=True):
            code.line(f"store ptr {_place(low, x, m, i)}, ptr {code.element('i64', table, i)}")
    return tables


def _units(low: Lowering, x: Product) -> str:
    """About how many thousands of multiply-adds one product is."""
    sizes, do = (x.a.rows, x.a.columns, x.b.columns), low.code.do
    if not any(isinstance(n, Open) for n in sizes):
        return str(math.prod(map(bound, sizes)) // UNIT + 1)
    return do(f"add i64 {do(f'udiv i64 {_work(low, x)}, {UNIT}')}, 1")


def _work(low: Lowering, x: Product) -> str:
    """The multiply-adds of one product."""
    n, k, m = (low.sizes.text(i) for i in (x.a.rows, x.a.columns, x.b.columns))
    return low.code.do(f"mul i64 {k}, {low.code.do(f'mul i64 {n}, {m}')}")


def _call(low: Lowering, x: Product, name: str, places: Sequence[str], count: int = 0) -> None:
    """Write the call of ``name``; of a stack of ``count`` matrices, whose addresses ``places`` hold."""
    ask, (a, b, c) = Calls(low), places
    (left, first), (right, second) = _lead(x.a) or ("N", 0), _lead(x.b) or ("N", 0)
    size = [ask.integer(low.sizes.text(n)) for n in (x.b.columns, x.a.rows, x.a.columns)]
    one, start = (ask.number(x.dtype, literal(n, x.dtype)) for n in (1.0, float(x.added is not None)))  # fmt: skip
    groups = [ask.integer("1"), ask.integer(str(count))] if count else []
    ask.share(name, _units(low, x), ask.letter(right), ask.letter(left), *size, one, b, ask.distance(second),
            a, ask.distance(first), start, c, ask.distance(x.c.row_stride), *groups)  # fmt: skip
