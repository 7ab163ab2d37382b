"""Ops that fold over dimensions: one row per op.

``REDUCERS[op]`` gives the element of output number ``which`` at an index, in terms of folds over a row. ``dims`` of a row
are the dims it folds; a region whose outputs have the shape of the source maps them to its row loops. Variance takes two
sweeps (mean, then squared distances) in the dtype of torch's recurrence, f64 on a CPU: a mean that is rounded to f32 is as far off as the distances
from it where they are small beside it, and squares of f32 overflow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..graph.ir import Node, Value
from ..inference.shapes import Meta
from . import losses, normalisations
from .elements import (
    Dims,
    Elements,
    Reducer,
    accumulator,
    all_dims,
    argument,
    count,
    dims_at,
    fold,
    listed,
    running,
    widen,
)
from .exprs import Term
from .loop_ir import Affine, Unsupported
from .views import ZERO, Index

REDUCERS: dict[str, Reducer] = {}


def row_of(nodes: Sequence[Node], full: tuple, metas: Mapping[Value, Meta]) -> tuple[int, ...]:
    """The dims of the space ``full`` that reductions of the region fold; () when there are none."""
    for node in nodes:
        row = REDUCERS.get(node.op)
        if row is not None and metas[node.args[row.space]].size == full:
            return row.dims(node, len(full))
    return ()


def _averaged(b: Elements, node: Node, total: Term, dims: Sequence[int]) -> Term:
    """``total`` by the number of elements of the folded dims, some of which may be known only at run time."""
    return total / count(b, node, dims, total.dtype)


def _simple(kind: str, dims: Dims, mean: bool = False) -> Reducer:
    def formula(b: Elements, node: Node, which: int, index: Index) -> Term:
        x = node.args[0]
        into = accumulator(b, node)
        folded = dims(node, len(b.size(x)))
        total = fold(b, node, index, kind, folded, lambda at: b.at(x, at).cast(into))
        return _averaged(b, node, total, folded) if mean else total

    return Reducer(dims, formula)


def _named_dims(node: Node, rank: int) -> tuple[int, ...]:
    """As ``dims_at(1)``, but that an empty list is none of them: so torch reads it for ``any`` and ``all`` alone."""
    dim = argument(node, 1, "dim")
    return () if dim is not None and not len(dim) else listed(dim, rank)


def _boolean(kind: str, dims: Dims) -> Reducer:
    def formula(b: Elements, node: Node, which: int, index: Index) -> Term:
        x = node.args[0]
        folded = dims(node, len(b.size(x)))
        return fold(b, node, index, kind, folded, lambda at: b.at(x, at).cast("bool"))

    return Reducer(dims, formula)


def _extreme(kind: str, dims: Dims) -> Reducer:
    """max or min, with the position of the first one where the op has a second output or is arg-."""

    def formula(b: Elements, node: Node, which: int, index: Index) -> Term:
        x = node.args[0]
        size = b.size(x)
        folded = dims(node, len(size))
        if which == 1 or "arg" in node.op:
            return _argument_of(b, node, index, kind, folded)
        if b.dtype(x) == "bool":
            kind_ = "any" if kind == "max" else "all"
            return fold(b, node, index, kind_, folded, lambda at: b.at(x, at))
        return fold(b, node, index, kind, folded, lambda at: b.compute_at(x, at))

    return Reducer(dims, formula)


def _argument_of(b: Elements, node: Node, index: Index, kind: str, dims: tuple[int, ...]) -> Term:
    x = node.args[0]
    size = b.size(x)
    inner = b.over_row(widen(index, dims, len(size)), dims, size)
    position, step = Affine(), 1
    for d in reversed(dims):
        position = position + inner[d].scaled(step)
        step = step * size[d] if d != dims[0] else step
    if b.row == ():
        return b.maker.const(0, "i64")
    value = b.compute_at(x, inner)
    if value.dtype == "bool":
        value = value.cast("u8")
    args = (value.expr, b.maker.index(position).expr)
    return b.maker.term(b.maker.make("reduce", "i64", args, name=f"arg{kind}"))


def _variance(what: str, dims: Dims) -> Reducer:
    def formula(b: Elements, node: Node, which: int, index: Index) -> Term:
        x = node.args[0]
        size = b.size(x)
        folded, into = dims(node, len(size)), running(b, node)
        n = count(b, node, folded, into)
        correction = argument(node, 2, "correction", 1)
        correction = 1 if correction is None else correction

        def value(at: Index) -> Term:
            return b.at(x, at).cast(into)

        mean = fold(b, node, index, "sum", folded, value) / n
        if which == 1:
            return mean
        total = fold(b, node, index, "sum", folded, lambda at: _square(value(at) - mean))
        rest = n - correction
        rest = max(rest, 0) if isinstance(rest, (int, float)) else (rest < 0).where(0, rest)
        var = total / rest
        return var.sqrt() if what == "std" else var

    return Reducer(dims, formula)


def _square(x: Term) -> Term:
    return x * x


def _norm(b: Elements, node: Node, which: int, index: Index) -> Term:
    x, order = node.args[0], argument(node, 1, "ord", 2)
    into = accumulator(b, node)
    dims = listed(argument(node, 2, "dim"), len(b.size(x)))

    def value(at: Index) -> Term:
        return b.at(x, at).cast(into)

    if order == 2:
        return fold(b, node, index, "sum", dims, lambda at: value(at) * value(at)).sqrt()
    if order == 1:
        return fold(b, node, index, "sum", dims, lambda at: value(at).abs())
    if order in (math.inf, -math.inf):
        kind = "max" if order > 0 else "min"
        return fold(b, node, index, kind, dims, lambda at: value(at).abs())
    raise Unsupported("a norm of another order")


def _scan(kind: str) -> Reducer:
    def formula(b: Elements, node: Node, which: int, index: Index) -> Term:
        x, dim = node.args[:2]
        size = b.size(x)
        dims = listed(dim, len(size))
        inner = b.over_row(
            tuple(ZERO if d in dims else at for d, at in enumerate(index)), dims, size
        )
        if any(inner[d] != index[d] for d in dims):
            raise Unsupported("a scan that is read elsewhere than in its row")
        value = b.at(x, inner).cast(running(b, node))
        return value if b.row == () else b.maker.scan(kind, value)

    return Reducer(dims_at(1), formula)


def _register(table: dict[str, Reducer]) -> None:
    for names, row in table.items():
        for name in names.split():
            key = name if "." in name else f"{name}.default"
            REDUCERS[f"aten.{key}"] = row


_register({
    **normalisations.ROWS,
    **losses.ROWS,
    "sum": _simple("sum", all_dims),
    "sum.dim_IntList": _simple("sum", dims_at(1)),
    "mean": _simple("sum", all_dims, mean=True),
    "mean.dim": _simple("sum", dims_at(1), mean=True),
    "prod": _simple("prod", all_dims),
    "prod.dim_int": _simple("prod", dims_at(1)),
    "any": _boolean("any", all_dims),
    "all": _boolean("all", all_dims),
    "any.dim": _boolean("any", dims_at(1)),
    "all.dim": _boolean("all", dims_at(1)),
    "any.dims": _boolean("any", _named_dims),
    "all.dims": _boolean("all", _named_dims),
    "max": _extreme("max", all_dims),
    "min": _extreme("min", all_dims),
    "amax max.dim argmax": _extreme("max", dims_at(1)),
    "amin min.dim argmin": _extreme("min", dims_at(1)),
    "var.correction var_mean.correction": _variance("var", dims_at(1)),
    "std.correction std_mean.correction": _variance("std", dims_at(1)),
    "linalg_vector_norm": Reducer(dims_at(2), _norm),
    "cumsum": _scan("sum"),
    "cumprod": _scan("prod"),
})  # fmt: skip
