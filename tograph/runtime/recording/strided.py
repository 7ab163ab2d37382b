"""``as_strided`` of a view: its steps and its offset are those in memory, whatever the view shows of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..inference.shapes import contiguous
from ..symbols.symbolic import SymTensor, as_symbolic


def of_memory(record: Callable[..., Any]) -> Callable[..., Any]:
    """The form of ``as_strided`` that ``record`` records."""
    func = torch.ops.aten.as_strided.default

    def form(x: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
        x = as_symbolic(x)
        at = x.meta.offset if storage_offset is None else storage_offset
        if x.chain and type(at) is int and _is_memory(x):
            x, storage_offset = SymTensor(x.storage_.meta, x.storage_), at
        return record(func, (x, size, stride, storage_offset), {}, view=True)

    return form


def _is_memory(x: SymTensor) -> bool:
    """Whether what a view is of has all of its memory, in order."""
    whole = x.storage_.meta
    if not whole.static or whole.offset or whole.dtype != x.meta.dtype:
        return False
    return contiguous(whole.dtype, whole.size, whole.device).stride == whole.stride
