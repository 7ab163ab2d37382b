"""Ops whose kernels take for granted how an operand lies in memory.

Torch's callers of these see to it: the formula of a gradient has ``.contiguous()``, attention chooses a kernel by the strides. While tracing
that leaves nothing in the graph where eager PyTorch's tensor lies so already. What runs a graph lays tensors out in its own way (a sum of
two transposed matrices, say), and the kernels would read other elements without a word. So the table's row of such an op arranges its
operands, which costs nothing where they lie right. So it does with places in memory, which a graph has no other word for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Arrange = Callable[[Sequence[Any]], Sequence[Any]]


def _contiguous(*positions: int) -> Arrange:
    def arrange(args: Sequence[Any]) -> list[Any]:
        tensors = {i for i in positions if isinstance(args[i], torch.Tensor)}
        return [x.contiguous() if i in tensors else x for i, x in enumerate(args)]

    return arrange


def _like_the_input(args: Sequence[Any]) -> list[Any]:
    """(input, ...) of a group norm: the input without gaps, with its channels first or last."""
    x = args[0]
    return [x.contiguous(memory_format=_format(x)), *args[1:]]


def _like_its_input(args: Sequence[Any]) -> list[Any]:
    """(gradient, input, mean, rstd, ...) of a group norm: the gradient as the input lies."""
    grad, x, mean, rstd, *rest = args
    order = _format(x)
    arranged = [t.contiguous(memory_format=order) for t in (grad, x)]
    return [*arranged, mean.contiguous(), rstd.contiguous(), *rest]


def _format(x: torch.Tensor) -> torch.memory_format:
    """What torch calls the memory format that a tensor suggests."""
    if x.device.type == "cpu" and not x.is_contiguous():
        for rank, order in ((4, torch.channels_last), (5, torch.channels_last_3d)):
            if x.dim() == rank and x.is_contiguous(memory_format=order):
                return order
    return torch.contiguous_format


def in_format_of(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A tensor as it lies, with its channels first or last, in the memory format that ``like`` suggests."""
    return x.contiguous(memory_format=_format(like))


def _rows(count: int) -> Arrange:
    """The first ``count`` tensors with their last dim in a row."""

    def arrange(args: Sequence[Any]) -> list[Any]:
        return [
            x.contiguous() if i < count and x.dim() and x.stride(-1) != 1 else x
            for i, x in enumerate(args)
        ]

    return arrange


def _from_the_first(position: int) -> Arrange:
    """A place in memory: a graph counts from the first element of the tensor, torch from where its memory begins."""

    def arrange(args: Sequence[Any]) -> list[Any]:
        out = list(args)
        if len(out) > position and out[position] is not None:
            out[position] += out[0].storage_offset()
        return out

    return arrange


_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"

ARRANGED: dict[str, Arrange] = {
    "native_group_norm": _like_the_input,
    "native_group_norm_backward": _like_its_input,
    "adaptive_max_pool3d_backward": _contiguous(2),
    "fractional_max_pool2d_backward": _contiguous(4),
    "fractional_max_pool3d_backward": _contiguous(4),
    "isin": _contiguous(1),
    "_pdist_forward": _contiguous(0),
    "_pdist_backward": _contiguous(0, 1, 3),
    _ATTENTION: _rows(3),
    f"{_ATTENTION}_backward": _rows(5),
}


PLACED: dict[str, Arrange] = {"as_strided": _from_the_first(3), "as_strided_scatter": _from_the_first(4)}  # fmt: skip
_ALL = ARRANGED | PLACED


def is_arranged(op: str) -> bool:
    """Whether the arguments of an op are arranged before it runs."""
    return op.startswith("aten.") and op.split(".")[1] in _ALL


def arranged(op: str, args: Sequence[Any]) -> Sequence[Any]:
    """The arguments of an op as its kernels expect them in memory."""
    return _ALL[op.split(".")[1]](args) if is_arranged(op) else args
