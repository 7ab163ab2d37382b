"""Losses of two tensors of one size, summed or not: ``mse_loss``, ``smooth_l1_loss``, ``huber_loss``.

The formulas are those of ATen's kernels, with their order of operations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..graph.ir import Node
from .elements import Elements, Reducer, accumulator, all_dims, argument, count, fold
from .exprs import Term
from .loop_ir import Unsupported
from .views import Index

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
    x, y = node.args[:2]
    reduction, number = argument(node, 2, "reduction", 1), number_of(node, 3)
    if b.size(x) != b.size(y):
        raise Unsupported("a loss that broadcasts")

    def body(at: Index) -> Term:
        return formula(_difference(b, node, at), number)

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


def _dims(node: Node, rank: int) -> tuple[int, ...]:
    return all_dims(node, rank) if argument(node, 2, "reduction", 1) else ()


_FORMULAS: dict[str, Formula] = {
    "mse_loss": _square,
    "smooth_l1_loss": _smooth,
    "huber_loss": _huber,
}
ROWS = {name: Reducer(_dims, partial(_loss, formula)) for name, formula in _FORMULAS.items()}
