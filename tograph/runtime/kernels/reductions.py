"""Ops that fold over dimensions, and ops that make tensors: one row per op.

``REDUCERS[op]`` gives the element of output number ``which`` at an index, in terms of folds over a row. ``dims`` of a row
are the dims it folds; a region whose outputs have the shape of the source maps them to its row loops. Statistics are
computed in f32 for f16 and bf16; variance takes two sweeps (mean, then squared distances), which is as exact as Welford's
recurrence and faster where the row is in cache. Softmax subtracts the maximum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..ir import Node, Value
from ..shapes import Meta
from ..types import ScalarType
from .exprs import Maker, Term
from .loop_ir import Affine, Open, Unsupported
from .views import ZERO, Index


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
    """One row. ``dims(node, rank)``: the folded dims of the argument ``space``; ``formula(builder, node, which, index)``: an element."""

    dims: Callable[[Node, int], tuple[int, ...]]
    formula: Callable[[Elements, Node, int, Index], Term]
    space: int = 0

    def __call__(self, b: Elements, node: Node, which: int, index: Index) -> Term:
        return self.formula(b, node, which, index)


REDUCERS: dict[str, Reducer] = {}
CREATORS: dict[str, Callable[[Elements, Node, Index], Term]] = {}


def row_of(nodes: Sequence[Node], full: tuple, metas: Mapping[Value, Meta]) -> tuple[int, ...]:
    """The dims of the space ``full`` that reductions of the region fold; () when there are none."""
    for node in nodes:
        row = REDUCERS.get(node.op)
        if row is not None and metas[node.args[row.space]].size == full:
            return row.dims(node, len(full))
    return ()


def argument(node: Node, place: int, name: str, default: Any = None) -> Any:
    """An argument that may stand by position or by name."""
    if len(node.args) > place:
        return node.args[place]
    return node.kwargs.get(name, default)


def _listed(dim: Any, rank: int) -> tuple[int, ...]:
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return tuple(range(rank))
    dims = dim if isinstance(dim, (list, tuple)) else (dim,)
    return tuple(sorted(d % max(rank, 1) for d in dims)) if rank else ()


def _dims_at(place: int, name: str = "dim") -> Callable[[Node, int], tuple[int, ...]]:
    return lambda node, rank: _listed(argument(node, place, name), rank)


def _all(node: Node, rank: int) -> tuple[int, ...]:
    return tuple(range(rank))


def _normalized(node: Node, rank: int) -> tuple[int, ...]:
    return tuple(range(rank - len(node.args[1]), rank))


# ---- folds of one tensor


def widen(index: Index, dims: Sequence[int], rank: int) -> Index:
    """The index of a reduced element as an index of its source, with 0 at the folded dims, kept or not."""
    if len(index) == rank:
        return tuple(ZERO if d in dims else at for d, at in enumerate(index))
    rest = iter(index)
    return tuple(ZERO if d in dims else next(rest) for d in range(rank))


def _fold(b: Elements, node: Node, index: Index, kind: str, dims: tuple[int, ...],
          body: Callable[[Index], Term]) -> Term:  # fmt: skip
    size = b.size(node.args[0])
    return b.fold(kind, widen(index, dims, len(size)), dims, size, body)


def _count(b: Elements, node: Node, dims: Sequence[int]) -> int:
    size, n = b.size(node.args[0]), 1
    for d in dims:
        n *= size[d]
    return n


def _averaged(b: Elements, node: Node, total: Term, dims: Sequence[int]) -> Term:
    """``total`` by the number of elements of the folded dims, some of which may be known only at run time."""
    size = b.size(node.args[0])
    n = math.prod(size[d] for d in dims if not isinstance(size[d], Open))
    count = b.maker.const(n, total.dtype)
    for d in dims:
        if isinstance(size[d], Open):
            count = count * b.count(size[d]).cast(total.dtype)
    return total / count


def _accumulator(b: Elements, node: Node) -> str:
    """The dtype that a sum or product is kept in."""
    name = b.dtype(node.outputs[0])
    return "f32" if name in ("f16", "bf16") else name


def _simple(kind: str, dims: Callable[[Node, int], tuple[int, ...]], mean: bool = False) -> Reducer:
    def formula(b: Elements, node: Node, which: int, index: Index) -> Term:
        x = node.args[0]
        into = _accumulator(b, node)
        folded = dims(node, len(b.size(x)))
        total = _fold(b, node, index, kind, folded, lambda at: b.at(x, at).cast(into))
        return _averaged(b, node, total, folded) if mean else total

    return Reducer(dims, formula)


def _boolean(kind: str, dims: Callable[[Node, int], tuple[int, ...]]) -> Reducer:
    def formula(b: Elements, node: Node, which: int, index: Index) -> Term:
        x = node.args[0]
        folded = dims(node, len(b.size(x)))
        return _fold(b, node, index, kind, folded, lambda at: b.at(x, at).cast("bool"))

    return Reducer(dims, formula)


def _extreme(kind: str, dims: Callable[[Node, int], tuple[int, ...]]) -> Reducer:
    """max or min, with the position of the first one where the op has a second output or is arg-."""

    def formula(b: Elements, node: Node, which: int, index: Index) -> Term:
        x = node.args[0]
        size = b.size(x)
        folded = dims(node, len(size))
        if which == 1 or "arg" in node.op:
            return _argument_of(b, node, index, kind, folded)
        if b.dtype(x) == "bool":
            kind_ = "any" if kind == "max" else "all"
            return _fold(b, node, index, kind_, folded, lambda at: b.at(x, at))
        return _fold(b, node, index, kind, folded, lambda at: b.compute_at(x, at))

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


def _variance(what: str, dims: Callable[[Node, int], tuple[int, ...]]) -> Reducer:
    def formula(b: Elements, node: Node, which: int, index: Index) -> Term:
        x = node.args[0]
        size = b.size(x)
        folded = dims(node, len(size))
        n = _count(b, node, folded)
        correction = argument(node, 2, "correction", 1)
        correction = 1 if correction is None else correction
        mean = _mean(b, node, x, index, folded, n)
        if which == 1:
            return mean
        total = _squares(b, node, x, index, folded, mean)
        var = total / max(n - correction, 0)
        return var.sqrt() if what == "std" else var

    return Reducer(dims, formula)


def _mean(b: Elements, node: Node, x: Value, index: Index, dims: tuple[int, ...], n: int) -> Term:
    return _fold(b, node, index, "sum", dims, lambda at: b.compute_at(x, at)) / n


def _squares(b: Elements, node: Node, x: Value, index: Index, dims, mean: Term) -> Term:
    def body(at: Index) -> Term:
        distance = b.compute_at(x, at) - mean
        return distance * distance

    return _fold(b, node, index, "sum", dims, body)


def _norm(b: Elements, node: Node, which: int, index: Index) -> Term:
    x, order = node.args[0], argument(node, 1, "ord", 2)
    into = _accumulator(b, node)
    dims = _listed(argument(node, 2, "dim"), len(b.size(x)))

    def value(at: Index) -> Term:
        return b.at(x, at).cast(into)

    if order == 2:
        return _fold(b, node, index, "sum", dims, lambda at: value(at) * value(at)).sqrt()
    if order == 1:
        return _fold(b, node, index, "sum", dims, lambda at: value(at).abs())
    if order in (math.inf, -math.inf):
        kind = "max" if order > 0 else "min"
        return _fold(b, node, index, kind, dims, lambda at: value(at).abs())
    raise Unsupported("a norm of another order")


# ---- softmax and its kind


def _shifted(b: Elements, node: Node, index: Index) -> tuple[Callable[[Index], Term], Term, Term]:
    """(element, maximum, sum of exp(element - maximum)) of the row around ``index``."""
    x = node.args[0]
    dims = _listed(node.args[1], len(b.size(x)))
    top = _fold(b, node, index, "max", dims, lambda at: b.compute_at(x, at))
    total = _fold(b, node, index, "sum", dims, lambda at: (b.compute_at(x, at) - top).exp())
    return (lambda at: b.compute_at(x, at)), top, total


def _softmax(b: Elements, node: Node, which: int, index: Index) -> Term:
    x, top, total = _shifted(b, node, index)
    return (x(index) - top).exp() * (1 / total)


def _log_softmax(b: Elements, node: Node, which: int, index: Index) -> Term:
    x, top, total = _shifted(b, node, index)
    return x(index) - top - total.log()


def _logsumexp(b: Elements, node: Node, which: int, index: Index) -> Term:
    x, into = node.args[0], _accumulator(b, node)
    dims = _listed(node.args[1], len(b.size(x)))
    top = _fold(b, node, index, "max", dims, lambda at: b.at(x, at).cast(into))
    top = (top.abs() == math.inf).where(0, top)
    total = _fold(b, node, index, "sum", dims, lambda at: (b.at(x, at).cast(into) - top).exp())
    return total.log() + top


def _softmax_backward(b: Elements, node: Node, which: int, index: Index) -> Term:
    grad, y, dim = node.args[:3]
    dims = _listed(dim, len(b.size(y)))

    def product(at: Index) -> Term:
        return b.compute_at(grad, at) * b.compute_at(y, at)

    total = _fold(b, node, index, "sum", dims, product)
    return product(index) - b.compute_at(y, index) * total


def _log_softmax_backward(b: Elements, node: Node, which: int, index: Index) -> Term:
    grad, y, dim = node.args[:3]
    dims = _listed(dim, len(b.size(y)))
    total = _fold(b, node, index, "sum", dims, lambda at: b.compute_at(grad, at))
    return b.compute_at(grad, index) - b.compute_at(y, index).exp() * total


# ---- norms and losses


def _layer_norm(b: Elements, node: Node, which: int, index: Index) -> Term:
    x, shape, weight, bias, eps = node.args
    if any(isinstance(n, Value) for n in shape):
        raise Unsupported(
            "a normalised shape that only the run knows"
        )  # which may be another one than that of the input
    rank = len(b.size(x))
    dims = _normalized(node, rank)
    n = _count(b, node, dims)
    mean = _mean(b, node, x, index, dims, n)
    if which == 1:
        return mean
    variance = _squares(b, node, x, index, dims, mean) / n
    scale = 1 / (variance + eps).sqrt()
    if which == 2:
        return scale
    out = (b.compute_at(x, index) - mean) * scale
    inner = index[rank - len(shape) :]
    if weight is not None:
        out = out * b.at(weight, inner).cast(out.dtype)
    return out if bias is None else out + b.at(bias, inner).cast(out.dtype)


def _layer_norm_backward_input(b: Elements, node: Node, which: int, index: Index) -> Term:
    """The gradient of the input; those of weight and bias fold over the other dims and are not here."""
    if which:
        raise Unsupported("gradients of weight and bias")
    grad, x, shape, mean, rstd, weight = node.args[:6]
    rank = len(b.size(x))
    dims = _normalized(node, rank)
    n = _count(b, node, dims)
    inner = rank - len(shape)

    def outer(v: Value, at: Index) -> Term:
        kept = tuple(ZERO if d in dims else i for d, i in enumerate(at))
        return b.compute_at(v, kept[: len(b.size(v))])

    def scaled(at: Index) -> Term:
        g = b.compute_at(grad, at)
        return g if weight is None else g * b.at(weight, at[inner:]).cast(g.dtype)

    def normal(at: Index) -> Term:
        return (b.compute_at(x, at) - outer(mean, at)) * outer(rstd, at)

    first = _fold(b, node, index, "sum", dims, scaled) / n
    second = _fold(b, node, index, "sum", dims, lambda at: scaled(at) * normal(at)) / n
    return (scaled(index) - first - normal(index) * second) * outer(rstd, index)


def _mse_loss(b: Elements, node: Node, which: int, index: Index) -> Term:
    x, y = node.args[:2]
    reduction = argument(node, 2, "reduction", 1)
    if b.size(x) != b.size(y):
        raise Unsupported("a loss that broadcasts")

    def body(at: Index) -> Term:
        distance = b.compute_at(x, at) - b.compute_at(y, at)
        return distance * distance

    if reduction == 0:
        return body(index)
    dims = _all(node, len(b.size(x)))
    total = _fold(b, node, index, "sum", dims, body)
    return total / _count(b, node, dims) if reduction == 1 else total


def _mse_dims(node: Node, rank: int) -> tuple[int, ...]:
    return _all(node, rank) if argument(node, 2, "reduction", 1) else ()


# ---- scans


def _scan(kind: str) -> Reducer:
    def formula(b: Elements, node: Node, which: int, index: Index) -> Term:
        x, dim = node.args[:2]
        size = b.size(x)
        dims = _listed(dim, len(size))
        inner = b.over_row(
            tuple(ZERO if d in dims else at for d, at in enumerate(index)), dims, size
        )
        if any(inner[d] != index[d] for d in dims):
            raise Unsupported("a scan that is read elsewhere than in its row")
        value = b.at(x, inner).cast(_accumulator(b, node))
        return value if b.row == () else b.maker.scan(kind, value)

    return Reducer(_dims_at(1), formula)


def _register(table: dict[str, Reducer]) -> None:
    for names, row in table.items():
        for name in names.split():
            key = name if "." in name else f"{name}.default"
            REDUCERS[f"aten.{key}"] = row


_register({
    "sum": _simple("sum", _all),
    "sum.dim_IntList": _simple("sum", _dims_at(1)),
    "mean": _simple("sum", _all, mean=True),
    "mean.dim": _simple("sum", _dims_at(1), mean=True),
    "prod": _simple("prod", _all),
    "prod.dim_int": _simple("prod", _dims_at(1)),
    "any": _boolean("any", _all),
    "all": _boolean("all", _all),
    "any.dim any.dims": _boolean("any", _dims_at(1)),
    "all.dim all.dims": _boolean("all", _dims_at(1)),
    "max": _extreme("max", _all),
    "min": _extreme("min", _all),
    "amax max.dim argmax": _extreme("max", _dims_at(1)),
    "amin min.dim argmin": _extreme("min", _dims_at(1)),
    "var.correction var_mean.correction": _variance("var", _dims_at(1)),
    "std.correction std_mean.correction": _variance("std", _dims_at(1)),
    "linalg_vector_norm": Reducer(_dims_at(2), _norm),
    "_softmax": Reducer(_dims_at(1), _softmax),
    "_log_softmax": Reducer(_dims_at(1), _log_softmax),
    "logsumexp": Reducer(_dims_at(1), _logsumexp),
    "_softmax_backward_data": Reducer(_dims_at(2), _softmax_backward),
    "_log_softmax_backward_data": Reducer(_dims_at(2), _log_softmax_backward),
    "native_layer_norm": Reducer(_normalized, _layer_norm),
    "mse_loss": Reducer(_mse_dims, _mse_loss),
    "cumsum": _scan("sum"),
    "cumprod": _scan("prod"),
})  # fmt: skip


# ---- tensors made of numbers


def _creator(place: int, default: Any = None) -> Callable[[Elements, Node, Index], Term]:
    """A tensor whose elements are argument ``place``, or always ``default``."""

    def formula(b: Elements, node: Node, index: Index) -> Term:
        value = default if default is not None else node.args[place]
        if isinstance(value, Value) and isinstance(value.type, ScalarType):
            return b.at(value, ())
        if isinstance(value, Value) or not isinstance(value, (bool, int, float)):
            raise Unsupported("a fill value that is not a number")
        return b.maker.const(value, b.dtype(node.outputs[0]))

    return formula


def _arange(b: Elements, node: Node, index: Index) -> Term:
    args = node.args
    start, step = (0, 1) if len(args) == 1 else (args[0], args[2] if len(args) > 2 else 1)
    if not all(type(a) is int for a in (start, step)):
        raise Unsupported("a range of floats")
    return b.maker.index(index[0].scaled(step).shifted(start))


def creator_value(node: Node) -> Value | None:
    """The number of the run that a creator's elements are, if they are one."""
    place = {"full": 1, "full_like": 1, "scalar_tensor": 0}.get(node.op.split(".")[1])
    value = node.args[place] if place is not None else None
    return value if isinstance(value, Value) else None


CREATORS.update({
    "aten.full.default": _creator(1),
    "aten.full_like.default": _creator(1),
    "aten.scalar_tensor.default": _creator(0),
    "tg.constant": _creator(0),
    "aten.zeros.default": _creator(0, 0),
    "aten.zeros_like.default": _creator(0, 0),
    "aten.empty.memory_format": _creator(0, 0),  # whatever is there in eager PyTorch
    "aten.empty_like.default": _creator(0, 0),
    "aten.ones.default": _creator(0, 1),
    "aten.ones_like.default": _creator(0, 1),
    "aten.arange.default": _arange,
    "aten.arange.start": _arange,
    "aten.arange.start_step": _arange,
})  # fmt: skip
