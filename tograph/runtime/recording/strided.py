"""``as_strided``: its steps and its offset are those in memory, whatever its tensor shows of that.

While tracing the memory of a tensor of the caller's begins with its first element, of one that is captured where it does. In a graph
the offset counts from the first element of the operand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...errors import UnsupportedOpError
from ..inference.shapes import contiguous
from ..symbols.funcgraph import current_graph, user_location
from ..symbols.symbolic import SymTensor, as_symbolic

aten = torch.ops.aten


def of_memory(record: Callable[..., Any]) -> Callable[..., Any]:
    """The form of ``as_strided`` that ``record`` records."""

    def form(x: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
        x = as_symbolic(x)
        at = x.meta.offset if storage_offset is None else storage_offset
        if x.chain and type(at) is int and _is_memory(x):
            x, storage_offset = SymTensor(x.storage_.meta, x.storage_), at
        x = _in_order(x, record)
        return record(aten.as_strided.default, (x, size, stride, _from_the_first(x, storage_offset)), {}, view=True)  # fmt: skip

    return form


def written(record: Callable[..., Any]) -> Callable[..., Any]:
    """The form of ``as_strided_scatter``."""

    def form(x: Any, source: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
        x = as_symbolic(x)
        return record(aten.as_strided_scatter.default, (x, source, size, stride, _from_the_first(x, storage_offset)), {})  # fmt: skip

    return form


def _in_order(x: SymTensor, record: Callable[..., Any]) -> SymTensor:
    """A tensor whose dims are in another order than in memory, in that order: a gradient is laid out by what it shows then, whatever its own graph makes of it."""
    whole = x.meta
    if x.chain or not whole.static or not whole.laid_out:
        return x
    order = sorted(range(len(whole.size)), key=lambda d: (-whole.stride[d], -whole.size[d]))
    size, stride = ([part[d] for d in order] for part in (whole.size, whole.stride))
    if whole.stride == contiguous(whole.dtype, whole.size, whole.device).stride or tuple(stride) != tuple(contiguous(whole.dtype, size, whole.device).stride):  # fmt: skip
        return x
    current_graph().root.laid_out = True
    return as_symbolic(record(aten.permute.default, (x, order), {}, view=True))


def _from_the_first(x: SymTensor, at: Any) -> Any:
    if at is None or type(x.meta.offset) is not int or not x.meta.offset:
        return at
    if type(at) is int and at < x.meta.offset:
        raise UnsupportedOpError("as_strided() shows memory in front of a tensor's first element", user_location())  # fmt: skip
    return at - x.meta.offset


def _is_memory(x: SymTensor) -> bool:
    """Whether what a view is of has all of its memory, in order."""
    whole = x.storage_.meta
    if not whole.static or whole.offset or whole.dtype != x.meta.dtype:
        return False
    return contiguous(whole.dtype, whole.size, whole.device).stride == whole.stride
