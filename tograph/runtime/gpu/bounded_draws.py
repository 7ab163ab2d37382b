"""Draws that torch makes of simpler ones, as ops that a plan has, for ``bounding``: the same seed gives the same numbers.

``multinomial``  without replacement, or one sample of each row: torch draws exponential numbers and takes the largest of ``p / q`` (the
                 largest ``n``), on the CPU and on GPUs
``normal``       with a mean or a deviation for each element, of one type: a normal number, times the one, plus the other
``bernoulli``    with chances of another size: they are expanded

What torch refuses (weights that are negative or not finite, rows of zeros, negative deviations) fails as an assertion does.
"""

from __future__ import annotations

import math

import torch

from ..graph.ir import Node, Value
from ..graph.types import BOOL, TensorType
from ..kernels.loop_ir import Unsupported
from ..kernels.views import VIEWS
from .bounding import Bounding, Handler, Rep, adder
from .forms import Plain

HANDLERS: dict[str, Handler] = {}
handler = adder(HANDLERS)


@handler("aten.multinomial.default")
def _multinomial(b: Bounding, node: Node) -> list[Rep]:
    rep, (count, *rest) = b.of(node.args[0]), node.args[1:]
    replacement = rest[0] if rest else node.kwargs.get("replacement", False)
    kind = rep.form.type if isinstance(rep.form, Plain) else None
    p, out = node.args[0], node.outputs[0].type
    strided = p.node is not None and p.node.op in VIEWS and len(p.type.shape) > 1
    drawn = type(count) is int and (count == 1 or not replacement)
    if not isinstance(kind, TensorType) or not drawn or strided or node.kwargs.get("generator"):
        raise Unsupported(f"{node.op} draws random numbers")
    _check(b, rep.value, kind)
    memory = b.undefined(kind)
    q = b.emit("aten.exponential.default", (memory, 1.0), kind)
    ratio = b.emit("aten.div.Tensor", (rep.value, q), kind)
    if count == 1:
        return [Rep(Plain(out), [b.emit("aten.argmax.default", (ratio, -1, True), out)])]
    values = b.tensor(kind.dtype, *out.shape)
    return [Rep(Plain(out), [b.emit("aten.topk.default", (ratio, count), values, out)[1]])]


def _check(b: Bounding, p: object, kind: TensorType) -> None:
    """Fail for what are no weights."""
    truth, one = b.tensor(torch.bool), b.tensor(kind.dtype)
    finite = b.emit("aten.lt.Scalar", (b.emit("aten.max.default", (p,), one), math.inf), truth)
    positive = b.emit("aten.ge.Scalar", (b.emit("aten.min.default", (p,), one), 0), truth)
    sums = b.emit("aten.sum.dim_IntList", (p, [-1]), b.tensor(kind.dtype, *kind.shape[:-1]))
    rows = b.emit("aten.ne.Scalar", (sums, 0), b.tensor(torch.bool, *kind.shape[:-1]))
    some = b.emit("aten.all.default", (rows,), truth)
    both = b.emit("aten.logical_and.default", (finite, positive), truth)
    b.require(b.emit("py.bool", (b.emit("aten.logical_and.default", (both, some), truth),), BOOL))  # fmt: skip


@handler("aten.normal.Tensor_Tensor", "aten.normal.Tensor_float", "aten.normal.float_Tensor")
def _normal(b: Bounding, node: Node) -> list[Rep]:
    """torch draws of mean 0, multiplies in place if the deviation is a tensor, and adds the mean; each step rounds."""
    (mean, std, *_), kind = (*node.args, 1.0), node.outputs[0].type
    given = [v for v in (mean, std) if isinstance(v, Value)]
    known = all(isinstance(v.type, TensorType) and v.type.dtype is kind.dtype for v in given)
    small = not isinstance(std, Value) and std < 0
    if not known or small or node.kwargs.get("generator") or None in kind.shape:
        raise Unsupported(f"{node.op} draws random numbers")
    deviation = b.of(std).value if isinstance(std, Value) else None
    if deviation is not None and 0 not in std.type.shape:
        least = b.emit("aten.min.default", (deviation,), b.tensor(kind.dtype))
        truth = b.emit("aten.ge.Scalar", (least, 0), b.tensor(torch.bool))
        b.require(b.emit("py.bool", (truth,), BOOL))
    first = std if deviation is None else 1.0
    made = b.emit("aten.normal_functional.default", (b.undefined(kind), 0.0, first), kind)
    if deviation is not None:
        made = b.emit("aten.mul.Tensor", (made, deviation), kind)
    if isinstance(mean, Value):
        return [Rep(Plain(kind), [b.emit("aten.add.Tensor", (made, b.of(mean).value), kind)])]
    near = torch.tensor(mean, dtype=kind.dtype).item()  # a tensor of that type is added
    return [Rep(Plain(kind), [b.emit("aten.add.Tensor", (made, near), kind)])]


@handler("aten.bernoulli.Tensor")
def _bernoulli(b: Bounding, node: Node) -> list[Rep]:
    x, p = node.args[:2]
    kind, shape = node.outputs[0].type, x.type.shape
    if p.type.shape == shape or None in (*shape, *p.type.shape) or node.kwargs.get("generator"):
        return b.closed(node)
    chances = b.emit("aten.expand.default", (b.of(p).value, list(shape)), b.tensor(p.type.dtype, *shape))  # fmt: skip
    return [Rep(Plain(kind), [b.emit(node.op, (b.of(x).value, chances), kind)])]
