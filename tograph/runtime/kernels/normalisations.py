"""Folds that every element of the row needs: softmax and its kind, and layer norm. Softmax subtracts the maximum."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..graph.ir import Node, Value
from .elements import (
    Elements,
    Reducer,
    accumulator,
    count,
    dims_at,
    fold,
    listed,
    mean_of,
    squares,
)
from .exprs import Term
from .loop_ir import Unsupported
from .views import Index


def _shifted(b: Elements, node: Node, index: Index) -> tuple[Callable[[Index], Term], Term, Term]:
    """(element, maximum, sum of exp(element - maximum)) of the row around ``index``."""
    x = node.args[0]
    dims = listed(node.args[1], len(b.size(x)))
    top = fold(b, node, index, "max", dims, lambda at: b.compute_at(x, at))
    total = fold(b, node, index, "sum", dims, lambda at: (b.compute_at(x, at) - top).exp())
    return (lambda at: b.compute_at(x, at)), top, total


def _softmax(b: Elements, node: Node, which: int, index: Index) -> Term:
    x, top, total = _shifted(b, node, index)
    return (x(index) - top).exp() * (1 / total)


def _log_softmax(b: Elements, node: Node, which: int, index: Index) -> Term:
    x, top, total = _shifted(b, node, index)
    return x(index) - top - total.log()


def _logsumexp(b: Elements, node: Node, which: int, index: Index) -> Term:
    x, into = node.args[0], accumulator(b, node)
    dims = listed(node.args[1], len(b.size(x)))
    top = fold(b, node, index, "max", dims, lambda at: b.at(x, at).cast(into))
    top = (top.abs() == math.inf).where(0, top)
    total = fold(b, node, index, "sum", dims, lambda at: (b.at(x, at).cast(into) - top).exp())
    return total.log() + top


def _softmax_backward(b: Elements, node: Node, which: int, index: Index) -> Term:
    grad, y, dim = node.args[:3]
    dims = listed(dim, len(b.size(y)))

    def product(at: Index) -> Term:
        return b.compute_at(grad, at) * b.compute_at(y, at)

    total = fold(b, node, index, "sum", dims, product)
    return product(index) - b.compute_at(y, index) * total


def _log_softmax_backward(b: Elements, node: Node, which: int, index: Index) -> Term:
    grad, y, dim = node.args[:3]
    dims = listed(dim, len(b.size(y)))
    total = fold(b, node, index, "sum", dims, lambda at: b.compute_at(grad, at))
    return b.compute_at(grad, index) - b.compute_at(y, index).exp() * total


def _normalized(node: Node, rank: int) -> tuple[int, ...]:
    return tuple(range(rank - len(node.args[1]), rank))


def _layer_norm(b: Elements, node: Node, which: int, index: Index) -> Term:
    x, shape, weight, bias, eps = node.args
    if any(isinstance(n, Value) for n in shape):
        # It may be another one than that of the input.
        raise Unsupported("a normalised shape that only the run knows")
    rank = len(b.size(x))
    dims = _normalized(node, rank)
    n = count(b, node, dims, accumulator(b, node))
    mean = mean_of(b, node, x, index, dims, n)
    if which == 1:
        return mean
    variance = squares(b, node, x, index, dims, mean) / n
    scale = 1 / (variance + eps).sqrt()
    if which == 2:
        return scale
    out = (b.compute_at(x, index) - mean) * scale
    inner = index[rank - len(shape) :]
    if weight is not None:
        out = out * b.at(weight, inner).cast(out.dtype)
    return out if bias is None else out + b.at(bias, inner).cast(out.dtype)


ROWS: dict[str, Reducer] = {
    "_softmax": Reducer(dims_at(1), _softmax),
    "_log_softmax": Reducer(dims_at(1), _log_softmax),
    "logsumexp": Reducer(dims_at(1), _logsumexp),
    "_softmax_backward_data": Reducer(dims_at(2), _softmax_backward),
    "_log_softmax_backward_data": Reducer(dims_at(2), _log_softmax_backward),
    "native_layer_norm": Reducer(_normalized, _layer_norm),
}
