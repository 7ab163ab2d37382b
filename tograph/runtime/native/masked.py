"""Matrix products leave out rows of zeros, where a mask may have made some.

A batch of sequences of different lengths is computed whole, and a mask keeps what has ended as it is: the cotangents of these
rows are zeros from there on, and so is all that is computed of them. What a product needs of such rows is known:

``rows``   rows of zeros on the left give rows that are all alike: one of them is computed.
``steps``  a row of zeros on the right (or a column on the left) adds nothing to any sum, if what it meets is finite.

The graph tells which products are asked (``masked``), so that others cost nothing; the numbers tell which rows are left out, so that results
are those of the whole product, infinities and NaN among them. ``looks`` says how these are found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..graph.ir import Node, Value
from ..graph.types import TensorType
from ..kernels.loop_ir import Open
from . import joined, looks
from .groups import CAT, known_numel
from .lanes import accumulate, loop, only, opaque
from .looks import FEWEST, Kept
from .matrices import Matrix
from .micro_kernels import Step, Writer
from .values import Mem

if TYPE_CHECKING:
    from .lower import Lowering

NEAR = 64  # nodes between a mask and a product
# Ops whose result is zero where one factor is, and those where all terms are.
_FACTORS = {f"aten.{name}": arguments for name, arguments in [
    ("mul.Tensor", (0, 1)), ("mul.Scalar", (0,)), ("div.Tensor", (0,)), ("div.Scalar", (0,)), ("neg.default", (0,)),
    ("tanh_backward.default", (0,)), ("sigmoid_backward.default", (0,)), ("threshold_backward.default", (0,)),
    ("gelu_backward.default", (0,)), ("silu_backward.default", (0,)), ("elu_backward.default", (0,)), ("relu.default", (0,)),
    ("tanh.default", (0,)), ("clone.default", (0,))]}  # fmt: skip
_TERMS = frozenset(["aten.add.Tensor", "aten.sub.Tensor"])
_SAME = frozenset(f"aten.{n}" for n in ["_to_copy.default", "unsqueeze.default", "view.default", "expand.default"])  # fmt: skip
_CHOICES = {"aten.where.self": 0, "aten.masked_fill.Scalar": 1, "aten.masked_fill.Tensor": 1}


def masked(v: object) -> bool:
    """Whether a mask over its rows may have made rows of zeros in a matrix."""
    return _masked(v, NEAR, {})


def _masked(v: object, near: int, known: dict[Value, bool]) -> bool:
    if not isinstance(v, Value) or v.node is None or not near or not isinstance(v.type, TensorType):
        return False
    if v not in known:
        known[v] = _made_so(v.node, lambda x: _masked(x, near - 1, known))
    return known[v]


def _made_so(node: Node, masked: Callable[[object], bool]) -> bool:
    """Whether a node masks rows, or gives zeros for rows of zeros."""
    args = node.args
    if node.op in _CHOICES:
        return _over_rows(args[_CHOICES[node.op]]) and any(_number(x) for x in args[1:])
    if node.op == "aten.mul.Tensor" and any(map(_over_rows, args)):
        return True
    if node.op in _FACTORS:
        return any(masked(args[i]) for i in _FACTORS[node.op])
    if node.op in _TERMS:
        return all(map(masked, args))
    return node.op == CAT and args[1:] in ((1,), (-1,)) and all(map(masked, args[0]))


def _over_rows(mask: object) -> bool:
    """Whether a mask, also one in numbers, has one element for each row of a matrix."""
    kind = mask.type if isinstance(mask, Value) else None
    if not isinstance(kind, TensorType) or len(kind.shape) != 2 or kind.shape[1] != 1:
        return False
    x: object = mask
    while isinstance(x, Value) and isinstance(x.type, TensorType) and x.type.dtype is not torch.bool:  # fmt: skip
        x = x.node.args[0] if x.node is not None and x.node.op in _SAME else None
    return isinstance(x, Value)


def _number(x: object) -> bool:
    kind = x.type if isinstance(x, Value) else None
    return not isinstance(kind, TensorType) or (
        None not in kind.shape and known_numel(kind.shape) == 1
    )


def look(low: Lowering, node: Node, dtype: str, a: Matrix, b: Matrix, c: Matrix, bias: Mem | None) -> Kept | None:  # fmt: skip
    """Write which rows a product computes; None where it is all of them."""
    if joined.work(node) < joined.LEAST or a.rows == 1 or isinstance(a.columns, Open) or b.column_stride != 1:  # fmt: skip
        return None
    left, right, turned = _sides(node)
    if a.column_stride == 1 and a.rows >= FEWEST and not _to_itself(bias, c) and masked(left):
        return looks.write(low, dtype, "rows", a.rows, (a.pointer, a.row_stride, a.columns))
    if a.row_stride != 1 or a.columns < FEWEST:
        return None
    sides = (a.pointer, a.column_stride, a.rows), (b.pointer, b.row_stride, b.columns)
    if masked(right):
        return looks.write(low, dtype, "steps", a.columns, sides[1], sides[0])
    return looks.write(low, dtype, "steps", a.columns, *sides) if masked(turned) else None


def asks(node: Node) -> bool:
    """Whether a mask may have made rows of zeros in a factor of a product."""
    return any(map(masked, _sides(node)))


def _sides(node: Node) -> tuple[Any, Any, Any]:
    """The factors of a product, and the matrix that the left one is the transpose of."""
    left, right = node.args[-2:]
    turned = left.node.args[0] if left.node is not None and left.node.op == "aten.t.default" else None  # fmt: skip
    return left, right, turned


def _to_itself(bias: Mem | None, c: Matrix) -> bool:
    """Whether a product is added to what it is written over: once for each row."""
    return bias is not None and bias.pointer == c.pointer


class Steps(Writer):
    """A product along some positions of the shared dimension."""

    more = "ptr noalias %L, ptr noalias %X, "
    parted = False

    def _along(
        self, count: int, depth: int | str, pointers: dict[str, int], step: Step
    ) -> list[str]:
        code = self.code
        number, order = code.load("i64", "%L"), code.element("i64", "%L", "1")
        return accumulate(code, self.vector, count, number, 1, pointers, step, order)


class Rows(Writer):
    """A product of some rows; the others are what is added to them, and the last one's sums, which are zeros or NaN.

    Threads take the tiles of all panels in equal parts: how many there are is known when the rows are.
    """

    more, parted = Steps.more, False

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.chunks = -(-self.a.rows // self.rows)
        self.units = self.panels * self.chunks

    def _shape(self, vectors: int, joint: bool) -> tuple[int, int]:
        """Panels are equally wide, where some are nearly as wide as they may be: a thread has as many tiles as the others or one more."""
        high, wide = super()._shape(vectors, joint)
        return high, next((n for n in (wide, wide - 1) if n and vectors % n == 0), wide)

    def _panels(self, unit: str) -> None:
        """The tiles that are a unit's part of those there are."""
        code = self.code
        count = code.load("i64", "%L")
        tiles = code.do(f"udiv i64 {code.add(count, str(self.rows - 1))}, {self.rows}")
        first, end = (self._part(u, tiles) for u in (unit, code.add(unit, "1")))
        only(code, [f"icmp slt i64 {first}, {end}"], lambda: loop(code, first, end, 1, lambda i: self._item(i, tiles, count)))  # fmt: skip

    def _part(self, unit: str, tiles: str) -> str:
        """Where a unit's part begins."""
        whole = self.code.do(f"mul nsw i64 {unit}, {tiles}")
        return self.code.do(f"udiv i64 {whole}, {self.chunks}")

    def _item(self, i: str, tiles: str, rows: str) -> None:
        """One tile."""
        code = self.code
        count = str(self.panels) if self.across else tiles
        first, second = (opaque(code, code.do(f"{op} i64 {i}, {count}")) for op in ("udiv", "urem"))
        panel, tile = (second, first) if self.across else (first, second)
        row = code.multiply(tile, self.rows)
        last = f"icmp sge i64 {code.add(row, str(self.rows))}, {rows}"
        self._columns(panel, [], lambda first, columns: self._rows_of(row, last, first, columns))

    def _rows_of(self, row: str, last: str, first: str, columns: int) -> None:
        """A tile, and with the last one of a panel the rows that are left out."""
        code = self.code
        sums = self._tile(row, self.rows, first, columns)
        sums = sums[-len(self._lanes(columns)) :]
        copies = code.load("i64", "%X")
        tests = [last, f"icmp sgt i64 {copies}, 1"]
        only(code, tests, lambda: loop(code, "1", copies, 1, lambda i: self._copy(i, sums, first, columns)))  # fmt: skip

    def _rows_from(self, row: str, rows: int) -> tuple[str, list[str]]:
        places = [self.code.add(row, str(i + 1)) for i in range(rows)]
        return "0", [self.code.load("i64", "%L", p) for p in places]

    def _copy(self, i: str, sums: list[str], first: str, columns: int) -> None:
        """Write a row that is left out."""
        row = self.code.load("i64", "%X", self.code.add(i, "1"))
        for j, n in enumerate(self._lanes(columns)):
            total = self._with_bias(sums[j], row, "0", first, j, n)
            place = self.at("%C", (row, self.c.row_stride), (first, 1), (str(j * self.width), 1))
            self.store(total, place, n)


FORMS: dict[str, type[Writer]] = {"rows": Rows, "steps": Steps}
