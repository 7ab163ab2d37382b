"""The gradient of layer normalisation as sums over rows and columns and pointwise ops, which go into the loop nests of what is around it.

The formulas are those of torch's kernel for a CPU: ``dx = rstd * g * weight + slope * x + shift`` with sums over the row of ``g * weight * x`` and of
``g * weight``. Sizes that only the run knows, and tensors of several types, are left to torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..graph.ir import Graph, Node, Value
from .formulas import Formula, of_one_type, written

BACKWARD = "aten.native_layer_norm_backward.default"


def _backward(node: Node, nodes: list[Node]) -> Sequence[Any]:
    grad, x, size, mean, scale, weight, *_ = node.args
    f, count = Formula(node, x, nodes), math.prod(size)
    rows = math.prod(x.type.shape) // count
    whole, each, columns = (rows, count), (rows, 1), (count,)
    x, grad = f.view(f.packed(x), *whole), f.view(f.packed(grad), *whole)
    mean, scale = f.view(mean, *each), f.view(scale, *each)

    def do(op: str, a: Value, b: Any) -> Value:
        return f.do(op, a, b, shape=whole)

    def total(v: Value) -> Value:
        return f.do("sum.dim_IntList", v, [1], True, shape=each)

    weighted = grad if weight is None else do("mul.Tensor", grad, f.view(f.packed(weight), *columns))  # fmt: skip
    of_products, of_sums = total(do("mul.Tensor", weighted, x)), total(weighted)
    slope = f.do("sub.Tensor", f.do("mul.Tensor", of_sums, mean), of_products)
    for _ in range(3):  # one after the other: the cube of a small number may be none
        slope = f.do("mul.Tensor", slope, scale)
    slope = f.do("div.Tensor", slope, count)
    shift = f.do("div.Tensor", f.do("mul.Tensor", of_sums, scale), count)
    shift = f.do("neg.default", f.do("add.Tensor", f.do("mul.Tensor", slope, mean), shift))
    found = do("add.Tensor", do("mul.Tensor", weighted, scale), do("mul.Tensor", x, slope))
    found = do("add.Tensor", found, shift)
    distance = do("mul.Tensor", do("sub.Tensor", x, mean), scale)
    sums = [f.do("sum.dim_IntList", v, [0], shape=columns) for v in (do("mul.Tensor", grad, distance), grad)]  # fmt: skip
    return [f.view(found, *node.args[1].type.shape), *(f.view(v, *size) for v in sums)]


def rescaled(graph: Graph) -> Graph:
    """``graph``, or a copy of it in which this op is made of others."""
    return written(graph, {BACKWARD: _backward}, of_one_type)
