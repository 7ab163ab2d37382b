"""What a program asks of how a tensor lies in memory: the answer is that of the trace, so the trace is for arguments that lie alike."""

from __future__ import annotations

from typing import Any

import torch

from ...runtime.guarding import reads
from ...runtime.symbols.symbolic import SymTensor
from ..left_alone import leave_alone
from ..registry import TENSOR_METHODS, handles


@handles(SymTensor.is_contiguous)
def is_contiguous(x: torch.Tensor, **kwargs: Any) -> bool:
    reads.layout()
    return x.is_contiguous(**kwargs)


def _stride(x: torch.Tensor, *dim: int, **kwargs: Any) -> Any:
    reads.layout()
    return x.stride(*dim, **kwargs)


def _view(x: torch.Tensor, *shape: Any, **kwargs: Any) -> Any:
    """``x.view(...)``, which fails for a tensor that lies in another way."""
    if reads.argument(x) is not None:
        reads.layout()
    return leave_alone(x.view, shape, kwargs)


def _storage_offset(x: torch.Tensor) -> Any:
    """``x.storage_offset()``: a view's is beside that of the caller's tensor, whose memory the trace begins at 0."""
    found = reads.argument(x)
    if found is None:
        return x.storage_offset()
    watch, i, given = found
    return watch.offset(i, given) + x.storage_offset()


TENSOR_METHODS["stride"] = _stride
TENSOR_METHODS["view"] = _view
TENSOR_METHODS["storage_offset"] = _storage_offset
