"""Values and formulas of loops that are one kernel: expressions of the loop IR on values that are variables.

``Formulas`` asks the tables of pointwise ops, reductions and creators for the expression of a node. A value is one leaf, named by
its identity: all of them are read at one element, and a fold is over the whole vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph.ir import Node, Value
from ..graph.types import DTYPE_NAMES, ScalarType, TensorType, device_of
from ..inference.shapes import Meta, contiguous
from .build import Builder, Region, compute_dtype
from .creators import CREATORS
from .exprs import Term
from .loop_ir import ITEM_SIZES, Unsupported
from .pointwise import ROWS
from .reductions import REDUCERS
from .views import Index


def size_of(value: Value) -> int:
    """The number of elements; 1 for a number."""
    if isinstance(value.type, ScalarType):
        return 1
    if not isinstance(value.type, TensorType) or DTYPE_NAMES[value.type.dtype] not in ITEM_SIZES:
        raise Unsupported(f"a value of type {value.type}")
    n = 1
    for d in value.type.shape:
        if d is None:
            raise Unsupported("a size that is known only at run time")
        n *= d
    return n


def dtype_of(value: Value) -> str:
    return DTYPE_NAMES[value.type.dtype]


class Formulas(Builder):
    """Asks the tables of ops for expressions on values that are variables; all of them at one element."""

    def __init__(self) -> None:
        super().__init__(Region([], []), {}, {})
        self.row = (2,)  # any row: what folds is the whole vector

    def size(self, value: Value) -> tuple[int, ...]:
        return value.type.shape

    def _example(self, a: Any) -> Any:
        if not isinstance(a, Value):
            return a
        return a.type.kind(1) if isinstance(a.type, ScalarType) else meta(a)

    def leaf(self, value: Value) -> Term:
        return self.maker.term(self.maker.make("variable", dtype_of(value), name=str(id(value))))

    def at(self, value: Value, index: Index) -> Term:
        return self.leaf(value)

    def operand(
        self, a: Any, dtype: str, index: Index, compute: bool = True, wide: bool = False
    ) -> Any:
        into = compute_dtype(dtype) if compute else dtype
        if a is None:
            return None
        if not isinstance(a, Value):
            return self.maker.const(a, into if wide else dtype).cast(into)
        return self.leaf(a).cast(dtype).cast(into)

    def fold(self, kind: str, index: Index, dims: Sequence[int], sizes: Sequence[int], body: Any) -> Term:  # fmt: skip
        if any(n != 1 for d, n in enumerate(sizes) if d not in dims):
            raise Unsupported("a reduction of some dims in a loop")
        term = body(index)
        if all(n == 1 for n in sizes):
            return term
        return self.maker.reduce(kind, term)

    def over_row(self, index: Index, dims: Sequence[int], sizes: Sequence[int]) -> Index:
        raise Unsupported("positions in a loop")

    def formula(self, node: Node) -> Term:
        value = node.outputs[0]
        index: Index = ()
        if node.op in ROWS:
            return self._pointwise(node, ROWS[node.op], index)
        if node.op in REDUCERS:
            return REDUCERS[node.op](self, node, 0, index).cast(dtype_of(value))
        return CREATORS[node.op](self, node, index).cast(dtype_of(value))


def meta(value: Value) -> Meta:
    kind = value.type
    return contiguous(kind.dtype, kind.shape, device_of(kind))
