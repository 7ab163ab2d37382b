"""Group normalisation as sums over rows and pointwise ops: what follows (an activation) is then computed in the same loop nest.

The formulas are those of torch's kernels for a CPU: ``y = x * alpha + beta`` with ``alpha = weight / sqrt(var + eps)`` and ``beta = bias - mean * alpha``, where mean and
variance are those of a group of channels of one example (Y. Wu, K. He, "Group Normalization", 2018). Sizes that only the run knows, and tensors of several types, are left to torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..graph.ir import Graph, Node, Value
from .formulas import Formula, of_one_type, written

FORWARD, BACKWARD = "aten.native_group_norm.default", "aten.native_group_norm_backward.default"


class _Groups(Formula):
    """On tensors of all elements, of one for each channel of each example, and of one for each group of each example, ``[N, G, 1]``."""

    def __init__(self, node: Node, x: Value, nodes: list[Node], groups: int):
        super().__init__(node, x, nodes)
        self.batch, self.channels, *rest = self.kind.shape
        self.groups, self.each = groups, self.channels // groups
        self.pixels = math.prod(rest)
        self.count = self.each * self.pixels
        self.wide = (self.batch, self.channels, *(1 for _ in rest))

    def weighted(self, x: Value, weight: Value | None) -> Value:
        """``x`` times the weights of channels, by groups, ``[N, G, C / G]``."""
        if weight is None:
            shape = (self.batch, self.groups, self.each)
            return x if x.type.shape == shape else self.do("expand.default", x, list(shape), shape=shape)  # fmt: skip
        shape = (self.batch, self.groups, self.each)
        return self.do("mul.Tensor", x, self.by_channels(weight), shape=shape)

    def by_channels(self, x: Value) -> Value:
        return self.view(x, 1, self.groups, self.each)

    def over_pixels(self, x: Value) -> Value:
        """The sums of ``x`` for each channel of each example, by groups."""
        rows = self.view(x, self.batch, self.groups, self.each, self.pixels)
        return self.do("sum.dim_IntList", rows, [3], shape=(self.batch, self.groups, self.each))

    def over_channels(self, x: Value) -> Value:
        return self.do("sum.dim_IntList", x, [2], True, shape=(self.batch, self.groups, 1))

    def over_examples(self, x: Value) -> Value:
        total = self.do("sum.dim_IntList", x, [0], shape=(self.groups, self.each))
        return self.view(total, self.channels)

    def beside_all(self, x: Value) -> Value:
        return self.view(x, *self.wide)


def _forward(node: Node, nodes: list[Node]) -> Sequence[Any]:
    x, weight, bias, *_, groups, eps = node.args
    g = _Groups(node, x, nodes, groups)
    x = g.arranged(x, x)
    rows, one = g.view(x, g.batch, groups, g.count), (g.batch, groups, 1)
    mean = g.do("mean.dim", rows, [2], True, shape=one)
    variance = g.do("var.correction", rows, [2], shape=one, correction=0, keepdim=True)
    scale = g.inverse_root(variance, eps)
    alpha = g.weighted(scale, weight)
    beta = g.do("neg.default", g.do("mul.Tensor", alpha, mean))
    if bias is not None:
        beta = g.do("add.Tensor", beta, g.by_channels(bias))
    alpha, beta = (
        g.beside_all(alpha),
        g.beside_all(beta),
    )  # both first: a view between them would part the nest
    y = g.do("mul.Tensor", x, alpha, shape=g.kind.shape)
    y = g.do("add.Tensor", y, beta, shape=g.kind.shape)
    return [y, g.view(mean, g.batch, groups), g.view(scale, g.batch, groups)]


def _backward(node: Node, nodes: list[Node]) -> Sequence[Any]:
    grad, x, mean, scale, weight, *_, groups, _ = node.args
    g = _Groups(node, x, nodes, groups)
    x, grad = g.arranged(x, x), g.arranged(grad, x)
    mean, scale = (g.view(v, g.batch, groups, 1) for v in (mean, scale))
    products, sums = g.over_pixels(g.do("mul.Tensor", grad, x)), g.over_pixels(grad)
    of_products = g.over_channels(g.weighted(products, weight))
    of_sums = g.over_channels(g.weighted(sums, weight))
    slope = g.do("sub.Tensor", g.do("mul.Tensor", of_sums, mean), of_products)
    for _ in range(3):  # one after the other: the cube of a small number may be none
        slope = g.do("mul.Tensor", slope, scale)
    slope = g.do("div.Tensor", slope, g.count)
    shift = g.do("div.Tensor", g.do("mul.Tensor", of_sums, scale), g.count)
    shift = g.do("neg.default", g.do("add.Tensor", g.do("mul.Tensor", slope, mean), shift))
    slope, shift = (g.beside_all(g.weighted(v, None)) for v in (slope, shift))
    weighted = g.beside_all(g.weighted(scale, weight))
    terms = [g.do("mul.Tensor", grad, weighted, shape=g.kind.shape)]
    terms.append(g.do("mul.Tensor", x, slope, shape=g.kind.shape))
    found = g.do("add.Tensor", g.do("add.Tensor", *terms), shift, shape=g.kind.shape)
    distance = g.do("sub.Tensor", products, g.do("mul.Tensor", sums, mean))
    return [found, g.over_examples(g.do("mul.Tensor", distance, scale)), g.over_examples(sums)]


def grouped(graph: Graph) -> Graph:
    """``graph``, or a copy of it in which these ops are made of others."""
    return written(graph, {FORWARD: _forward, BACKWARD: _backward}, of_one_type)
