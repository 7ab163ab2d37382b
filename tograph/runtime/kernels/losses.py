"""Losses of two tensors of one size, summed or not: ``mse_loss``, ``smooth_l1_loss``, ``huber_loss``, ``soft_margin_loss`` and ``binary_cross_entropy_with_logits``.

The formulas are those of ATen's kernels, with their order of operations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..graph.ir import Node, Value
from .elements import Elements, Reducer, accumulator, all_dims, argument, count, fold
from .exprs import Term
from .loop_ir import Unsupported
from .views import Index, broadcast

Formula = Callable[[Term, float], Term]
NUMBERS = {"smooth_l1_loss": "beta", "huber_loss": "delta"}

EXACT = [("aten.smooth_l1_loss.default", "bf16"), ("aten.huber_loss.default", "f16")]


def _square(d: Term, number: float) -> Term:
    return d * d


def _smooth(d: Term, beta: float) -> Term:
    z = d.abs()
    return (z < beta).where(0.5 * z * z / beta, z - 0.5 * beta) if beta else z


def _huber(d: Term, delta: float) -> Term:
    z = d.abs()
    return (z <= delta).where(0.5 * z * z, delta * (z - 0.5 * delta))


def number_of(node: Node, place: int) -> float:
    """Where a loss goes from square to linear."""
    given = argument(node, place, NUMBERS.get(node.op.split(".")[1].removesuffix("_backward"), ""), 1.0)  # fmt: skip
    if not isinstance(given, (int, float)):
        raise Unsupported("a loss with a number of the run")
    return given


def _loss(formula: Formula, b: Elements, node: Node, which: int, index: Index) -> Term:
    reduction, number = argument(node, 2, "reduction", 1), number_of(node, 3)
    return _reduced(b, node, index, reduction, lambda at: formula(_difference(b, node, at), number))


def _reduced(b: Elements, node: Node, index: Index, reduction: int, body: Callable[[Index], Term]) -> Term:  # fmt: skip
    """The elements of a loss, their mean or their sum."""
    x, y = node.args[:2]
    if b.size(x) != b.size(y):
        raise Unsupported("a loss that broadcasts")
    if reduction == 0:
        return body(index)
    dims = all_dims(node, len(b.size(x)))
    total = fold(b, node, index, "sum", dims, body)
    return total / count(b, node, dims, total.dtype) if reduction == 1 else total


def _difference(b: Elements, node: Node, at: Index) -> Term:
    """Of the two tensors, in the dtype of the loss, to which torch rounds it but for the ``EXACT``."""
    dtype = b.dtype(node.outputs[0])
    wide = accumulator(b, node)
    x, y = (b.at(v, at).cast(dtype).cast(wide) for v in node.args[:2])
    exact = (node.op, dtype) in EXACT
    return x - y if exact else (x - y).cast(dtype).cast(wide)


def _margin(b: Elements, node: Node, which: int, index: Index) -> Term:
    def body(at: Index) -> Term:
        x, y = _given(b, node, at, 0, 1)
        return (-x * y).exp().log1p()

    return _reduced(b, node, index, argument(node, 2, "reduction", 1), body)


def _binary(b: Elements, node: Node, which: int, index: Index) -> Term:
    weight, positive = (argument(node, i, name) for i, name in ((2, "weight"), (3, "pos_weight")))

    def body(at: Index) -> Term:
        x, y = _given(b, node, at, 0, 1)
        likely = x.min(0) - (-x.abs()).exp().log1p()
        if positive is not None:
            likely = likely * ((_part(b, node, positive, at) - 1) * y + 1)
        found = (1 - y) * x - likely
        return found if weight is None else found * _part(b, node, weight, at)

    return _reduced(b, node, index, argument(node, 4, "reduction", 1), body)


def _given(b: Elements, node: Node, at: Index, *places: int) -> list[Term]:
    return [_part(b, node, node.args[i], at) for i in places]


def _part(b: Elements, node: Node, v: Value, at: Index) -> Term:
    return b.at(v, broadcast(at, b.size(v))).cast(accumulator(b, node))


def _dims(node: Node, rank: int, place: int = 2) -> tuple[int, ...]:
    return all_dims(node, rank) if argument(node, place, "reduction", 1) else ()


_FORMULAS: dict[str, Formula] = {
    "mse_loss": _square,
    "smooth_l1_loss": _smooth,
    "huber_loss": _huber,
}
ROWS = {name: Reducer(_dims, partial(_loss, formula)) for name, formula in _FORMULAS.items()}
ROWS["soft_margin_loss"] = Reducer(_dims, _margin)
ROWS["binary_cross_entropy_with_logits"] = Reducer(partial(_dims, place=4), _binary)
