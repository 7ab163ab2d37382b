"""``torch.multinomial`` as ops that a plan has, for ``bounding``: without replacement, or one sample of each row.

torch draws exponential numbers and takes the largest of ``p / q`` (the largest ``n``), on the CPU and on GPUs, so the same seed gives the
same samples. What torch refuses (weights that are negative or not finite, rows of zeros) fails as an assertion does.
"""

from __future__ import annotations

import math

import torch

from ..ir import Node
from ..kernels.loop_ir import Unsupported
from ..kernels.views import VIEWS
from ..types import BOOL, INT, TensorType
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
    test = b.emit("py.bool", (b.emit("aten.logical_and.default", (both, some), truth),), BOOL)
    b.position(b.emit("py.int", (b.emit("py.not", (test,), BOOL),), INT), 1)
