"""What the formulas of folds are made of: elements of values at an index, and folds of them over a row.

Statistics are computed in f32 for f16 and bf16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..graph.ir import Node, Value
from .exprs import Maker, Term
from .loop_ir import Open
from .views import ZERO, Index

Dims = Callable[[Node, int], tuple[int, ...]]  # of a node and a rank


class Elements(Protocol):
    """What a formula asks of the builder: elements of values, and folds of them."""

    maker: Maker
    row: tuple[int, ...] | None

    def size(self, value: Value) -> tuple[int, ...]: ...
    def dtype(self, value: Value) -> str: ...
    def at(self, value: Value, index: Index) -> Term: ...
    def count(self, size: Open) -> Term: ...
    def row_index(self, sizes: Sequence[int]) -> Index: ...
    def compute_at(self, value: Value, index: Index) -> Term: ...
    def over_row(self, index: Index, dims: Sequence[int], sizes: Sequence[int]) -> Index: ...
    def fold(self, kind: str, index: Index, dims: Sequence[int], sizes: Sequence[int],
             body: Callable[[Index], Term]) -> Term: ...  # fmt: skip


@dataclass(frozen=True)
class Reducer:
    """How many elements a fold over ``dims`` of the node's first argument has."""

    """The fold of ``body`` over ``dims`` of the node's first argument, for the element of the result at ``index``."""
    """One row. ``dims(node, rank)``: the folded dims of the argument ``space``; ``formula(builder, node, which, index)``: an element."""

    dims: Dims
    formula: Callable[[Elements, Node, int, Index], Term]
    space: int = 0

    def __call__(self, b: Elements, node: Node, which: int, index: Index) -> Term:
        return self.formula(b, node, which, index)


def argument(node: Node, place: int, name: str, default: Any = None) -> Any:
    """An argument that may stand by position or by name."""
    if len(node.args) > place:
        return node.args[place]
    return node.kwargs.get(name, default)


def listed(dim: Any, rank: int) -> tuple[int, ...]:
    """Dims as an argument gives them, counted from 0 and in order: all for None and for an empty list."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return tuple(range(rank))
    dims = dim if isinstance(dim, (list, tuple)) else (dim,)
    return tuple(sorted(d % max(rank, 1) for d in dims)) if rank else ()


def dims_at(place: int) -> Dims:
    """The dims that argument ``place`` of a node names."""
    return lambda node, rank: listed(argument(node, place, "dim"), rank)


def all_dims(node: Node, rank: int) -> tuple[int, ...]:
    return tuple(range(rank))


def widen(index: Index, dims: Sequence[int], rank: int) -> Index:
    """The index of a reduced element as an index of its source, with 0 at the folded dims, kept or not."""
    if len(index) == rank:
        return tuple(ZERO if d in dims else at for d, at in enumerate(index))
    rest = iter(index)
    return tuple(ZERO if d in dims else next(rest) for d in range(rank))


def fold(b: Elements, node: Node, index: Index, kind: str, dims: tuple[int, ...],
          body: Callable[[Index], Term]) -> Term:  # fmt: skip
    size = b.size(node.args[0])
    return b.fold(kind, widen(index, dims, len(size)), dims, size, body)


def count(b: Elements, node: Node, dims: Sequence[int], dtype: str) -> int | Term:
    """The number of elements of the folded dims; a term of ``dtype`` where only the run knows some of them."""
    size = b.size(node.args[0])
    n = math.prod(size[d] for d in dims if not isinstance(size[d], Open))
    opened = [size[d] for d in dims if isinstance(size[d], Open)]
    if not opened:
        return n
    number = b.maker.const(n, dtype)
    for m in opened:
        number = number * b.count(m).cast(dtype)
    return number


def accumulator(b: Elements, node: Node) -> str:
    """The dtype that a sum or product is kept in."""
    name = b.dtype(node.outputs[0])
    return "f32" if name in ("f16", "bf16") else name


def running(b: Elements, node: Node) -> str:
    """The dtype that a variance, or a sum or product of many elements one after the other, is kept in: as torch does, a wider one on a CPU."""
    found = accumulator(b, node)
    on_cpu = node.outputs[0].type.device == "cpu"
    return "f64" if on_cpu and b.dtype(node.outputs[0]) == "f32" else found


def mean_of(b: Elements, node: Node, x: Value, index: Index, dims: tuple[int, ...], n: int | Term) -> Term:  # fmt: skip
    """The mean of ``n`` elements of ``x`` around ``index``."""
    return fold(b, node, index, "sum", dims, lambda at: b.compute_at(x, at)) / n


def squares(b: Elements, node: Node, x: Value, index: Index, dims, mean: Term) -> Term:
    """The sum of the squared distances from ``mean``."""

    def body(at: Index) -> Term:
        distance = b.compute_at(x, at) - mean
        return distance * distance

    return fold(b, node, index, "sum", dims, body)
