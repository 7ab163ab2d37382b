"""Batch normalisation as sums over the batch and pointwise ops: what follows (an addition, a ReLU) is then computed in the same loop nest.

The formulas are those of torch's kernels for a CPU: ``y = x * alpha + beta`` with ``alpha = weight / sqrt(var + eps)`` and
``beta = bias - mean * alpha``, for each channel; for the gradient those of S. Ioffe, C. Szegedy, "Batch Normalization" (2015). A batch whose size only
the run knows, and tensors of several types (f16 beside f32), are left to torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..graph.ir import Graph, Node, Value
from .formulas import Formula, of_one_type, written

FORWARD, BACKWARD = "aten.native_batch_norm.default", "aten.native_batch_norm_backward.default"


def _fits(node: Node) -> bool:
    """Whether all is known. Running statistics that are followed are not changed here."""
    follows = node.op == FORWARD and node.args[5] is True and node.args[3] is not None
    return not follows and of_one_type(node) and len(node.inputs[0].type.shape) >= 2


class _Channels(Formula):
    """On tensors of all elements and of one for each channel, ``[1, C, 1, ...]``."""

    def __init__(self, node: Node, x: Value, nodes: list[Node]):
        super().__init__(node, x, nodes)
        shape = self.kind.shape
        self.channels = shape[1]
        self.shape = (1, shape[1], *(1 for _ in shape[2:]))
        self.rest = [d for d in range(len(shape)) if d != 1]
        self.count = math.prod(n for d, n in enumerate(shape) if d != 1 and n is not None)

    def wide(self, x: Value) -> Value:
        """One element for each channel, beside all elements."""
        return self.view(x, *self.shape)

    def flat(self, x: Value) -> Value:
        return self.view(x, self.channels)

    def sum(self, x: Value) -> Value:
        return self.do("sum.dim_IntList", x, self.rest, True, shape=self.shape)

    def empty(self) -> Value:
        return self.do("full.default", [0], 0.0, shape=(0,), dtype=self.kind.dtype, device=torch.device(self.kind.device))  # fmt: skip


def _forward(node: Node, nodes: list[Node]) -> Sequence[Any]:
    x, weight, bias, mean, variance, training, _, eps = node.args
    c = _Channels(node, x, nodes)
    x = c.arranged(x, x)
    if training:
        mean = c.do("mean.dim", x, c.rest, True, shape=c.shape)
        variance = c.do("var.correction", x, c.rest, shape=c.shape, correction=0, keepdim=True)
    else:
        mean, variance = c.wide(mean), c.wide(variance)
    scale = c.inverse_root(variance, eps)
    alpha = scale if weight is None else c.do("mul.Tensor", scale, c.wide(weight))
    shift = c.do("mul.Tensor", mean, alpha)
    beta = c.do("neg.default", shift) if bias is None else c.do("sub.Tensor", c.wide(bias), shift)
    y = c.do("add.Tensor", c.do("mul.Tensor", x, alpha), beta)
    return [y, c.flat(mean), c.flat(scale)] if training else [y, c.empty(), c.empty()]


def _backward(node: Node, nodes: list[Node]) -> Sequence[Any]:
    grad, x, weight, mean, variance, saved_mean, saved_scale, training, eps, _ = node.args
    c = _Channels(node, x, nodes)
    x, grad = c.arranged(x, x), c.arranged(grad, x)
    mean = c.wide(saved_mean if training else mean)
    scale = c.wide(saved_scale) if training else c.inverse_root(c.wide(variance), eps)
    distance = c.do("sub.Tensor", x, mean)
    total, product = c.sum(grad), c.sum(c.do("mul.Tensor", grad, distance))
    alpha = scale if weight is None else c.do("mul.Tensor", scale, c.wide(weight))
    rest = grad
    if training:
        slope = c.do("div.Tensor", c.do("mul.Tensor", c.do("mul.Tensor", product, scale), scale), c.count)  # fmt: skip
        rest = c.do("sub.Tensor", rest, c.do("mul.Tensor", distance, slope))
        rest = c.do("sub.Tensor", rest, c.do("div.Tensor", total, c.count))
    return [c.do("mul.Tensor", rest, alpha), c.flat(c.do("mul.Tensor", product, scale)), c.flat(total)]  # fmt: skip


def normalised(graph: Graph) -> Graph:
    """``graph``, or a copy of it in which these ops are made of others."""
    return written(graph, {FORWARD: _forward, BACKWARD: _backward}, _fits)
