"""ONNX entries for the ops of gradients that are taken inside a function, as formulas of their operands."""

from __future__ import annotations

from typing import Any

import torch

from ..graph.ir import Node
from .onnx_ops import dim_of, entry, out_dtype, rank_of
from .onnx_places import from_front


def _of(w: Any, node: Node, *xs: Any) -> list[str]:
    return [w.value(x, out_dtype(node)) for x in xs]


@entry("aten.tanh_backward.default")
def _tanh(w, node, grad, y):
    """g (1 - y^2)"""
    g, y = _of(w, node, grad, y)
    return w.emit("Mul", g, w.emit("Sub", w.constant(1, out_dtype(node)), w.emit("Mul", y, y)))


@entry("aten.sigmoid_backward.default")
def _sigmoid(w, node, grad, y):
    """g y (1 - y)"""
    g, y = _of(w, node, grad, y)
    return w.emit("Mul", g, w.emit("Mul", y, w.emit("Sub", w.constant(1, out_dtype(node)), y)))


@entry("aten.threshold_backward.default")
def _threshold(w, node, grad, x, threshold):
    g, x, t = _of(w, node, grad, x, threshold)
    zero = w.constant(0, out_dtype(node))
    return w.emit(
        "Where", w.emit("Greater", x, t, dtype=torch.bool), g, zero, dtype=out_dtype(node)
    )


@entry("aten._softmax_backward_data.default")
def _softmax(w, node, grad, y, dim, dtype):
    """y (g - sum(g y))"""
    g, out = _of(w, node, grad, y)
    total = w.emit("ReduceSum", w.emit("Mul", g, out), w.constant([dim_of(dim, y)]), keepdims=1)
    return w.emit("Mul", out, w.emit("Sub", g, total))


@entry("aten._log_softmax_backward_data.default")
def _log_softmax(w, node, grad, y, dim, dtype):
    """g - exp(y) sum(g)"""
    g, out = _of(w, node, grad, y)
    total = w.emit("ReduceSum", g, w.constant([dim_of(dim, y)]), keepdims=1)
    return w.emit("Sub", g, w.emit("Mul", w.emit("Exp", out), total))


def _picked(w: Any, target: Any, ignore: int) -> tuple[str, str]:
    """The classes as a column, 0 where they are ignored, and a mask of those that count."""
    t = w.value(target, torch.int64)
    counts = w.emit("Not", w.emit("Equal", t, w.constant(ignore), dtype=torch.bool))
    return w.emit("Where", counts, t, w.constant(0), dtype=torch.int64), counts


def _weights(w: Any, node: Node, weight: Any, classes: str, counts: str) -> str:
    """The weight of each example, 0 where it is ignored."""
    dtype = out_dtype(node)
    one = w.constant(1, dtype)
    each = one if weight is None else w.emit("Gather", w.value(weight, dtype), classes, axis=0)
    return w.emit("Where", counts, each, w.constant(0, dtype), dtype=dtype)


@entry("aten.nll_loss_forward.default")
def _nll(w, node, x, target, weight, reduction, ignore):
    """The negative entries at the classes; their weighted mean (reduction 1) or sum (2), and the sum of the weights."""
    classes, counts = _picked(w, target, ignore)
    axis = w.constant([-1])
    entries = w.emit("Squeeze", w.emit("GatherElements", w.value(x), w.emit("Unsqueeze", classes, axis), axis=-1), axis)  # fmt: skip
    each = _weights(w, node, weight, classes, counts)
    losses = w.emit("Neg", w.emit("Mul", entries, each))
    total = w.emit("ReduceSum", each, keepdims=0)
    if reduction == 0:
        return [losses, w.constant(0, out_dtype(node))]
    loss = w.emit("ReduceSum", losses, keepdims=0)
    return [w.emit("Div", loss, total) if reduction == 1 else loss, total]


@entry("aten.nll_loss_backward.default")
def _nll_backward(w, node, grad, x, target, weight, reduction, ignore, total):
    """-g weight at the classes, zeros elsewhere."""
    dtype = out_dtype(node)
    classes, counts = _picked(w, target, ignore)
    each = w.emit("Neg", w.emit("Mul", w.value(grad, dtype), _weights(w, node, weight, classes, counts)))  # fmt: skip
    if reduction == 1:
        each = w.emit("Div", each, w.value(total, dtype))
    shape = w.emit("Shape", w.value(x), dtype=torch.int64)
    zeros = w.emit("Expand", w.constant(0, dtype), shape)
    axis = w.constant([-1])
    column = w.emit("Unsqueeze", classes, axis)
    each = w.emit("Expand", w.emit("Unsqueeze", each, axis), w.emit("Shape", column, dtype=torch.int64))  # fmt: skip
    return w.emit("ScatterElements", zeros, column, each, axis=-1)


@entry("aten.embedding_dense_backward.default")
def _embedding(w, node, grad, indices, count, padding, scale):
    dtype = out_dtype(node)
    g, places = w.value(grad, dtype), w.value(indices, torch.int64)
    if padding >= 0:
        last = w.constant([-1])
        kept = w.emit("Not", w.emit("Equal", places, w.constant(padding), dtype=torch.bool))
        g = w.emit("Mul", g, w.cast(w.emit("Unsqueeze", kept, last), dtype))
    width = list(node.outputs[0].type.shape)
    zeros = w.emit("Expand", w.constant(0, dtype), w.constant(width))
    rows = w.emit("Unsqueeze", places, w.constant([-1]))
    return w.emit("ScatterND", zeros, from_front(w, rows, zeros), g, reduction="add")


@entry("aten.select_backward.default")
def _select(w, node, grad, sizes, dim, index):
    """Zeros with the gradient as one row."""
    dtype = out_dtype(node)
    rank = rank_of(node.outputs[0])
    axis = dim % rank
    row = w.emit("Unsqueeze", w.value(grad, dtype), w.constant([axis]))
    if not all(isinstance(n, int) for n in (*sizes, index)):
        raise w.error(f"{node.op} with sizes that only the run knows")
    at = index % sizes[axis]
    low, high = [0] * rank, [0] * rank
    low[axis], high[axis] = at, sizes[axis] - 1 - at
    return w.emit("Pad", row, w.constant(low + high), w.constant(0, dtype))


@entry("aten.slice_backward.default")
def _slice(w, node, grad, sizes, dim, start, end, step):
    rank = rank_of(node.outputs[0])
    axis = dim % rank
    if step != 1 or not all(isinstance(n, int) for n in (*sizes, start, end)):
        raise w.error(f"{node.op} with a step, or with sizes that only the run knows")
    first, last, _ = slice(start, end).indices(sizes[axis])
    low, high = [0] * rank, [0] * rank
    low[axis], high[axis] = first, sizes[axis] - max(last, first)
    return w.emit("Pad", w.value(grad, out_dtype(node)), w.constant(low + high), w.constant(0, out_dtype(node)))  # fmt: skip


@entry("aten.gelu_backward.default")
def _gelu(w, node, grad, x, approximate="none"):
    """g (cdf(x) + x pdf(x)), with the error function."""
    dtype = out_dtype(node)
    if approximate != "none":
        raise w.error(f"{node.op} of the approximation by tanh")
    g, x = _of(w, node, grad, x)
    number = lambda v: w.constant(v, dtype)  # noqa: E731
    cdf = w.emit("Mul", w.emit("Add", w.emit("Erf", w.emit("Mul", x, number(0.5**0.5))), number(1)), number(0.5))  # fmt: skip
    pdf = w.emit("Mul", w.emit("Exp", w.emit("Mul", w.emit("Mul", x, x), number(-0.5))), number((2 * torch.pi) ** -0.5))  # fmt: skip
    return w.emit("Mul", g, w.emit("Add", cdf, w.emit("Mul", x, pdf)))
