"""What a program asks of how a tensor lies in memory: the answer is that of the trace, so the trace is for arguments that lie alike."""

from __future__ import annotations

import operator
from typing import Any

import torch

from ...errors import UnsupportedOpError
from ...runtime.guarding import reads
from ...runtime.symbols import open_layouts
from ...runtime.symbols.funcgraph import user_location
from ...runtime.symbols.symbolic import SymTensor
from ..call_rules import DECIDING
from ..calls import call
from ..left_alone import leave_alone
from ..registry import TENSOR_METHODS, handles


@handles(SymTensor.is_contiguous)
def is_contiguous(x: torch.Tensor, **kwargs: Any) -> bool:
    reads.layout()
    opened = not kwargs and isinstance(x, SymTensor) and _is_open(x)
    return (
        call(_in_order, tuple(x.shape), open_layouts.strides(x))
        if opened
        else x.is_contiguous(**kwargs)
    )


def _is_open(x: SymTensor) -> bool:
    return not x.storage_.strided() and open_layouts.is_cut(x.chain, x.meta)


def _in_order(size, strides):
    """Whether the elements of a tensor with these sizes and strides lie in order, without gaps; converted."""
    expected, packed = 1, True
    for n, step in zip(reversed(size), reversed(strides)):
        if n != 1 and step != expected:
            packed = False
        expected = expected * n
    return packed or expected == 0


DECIDING.add(_in_order)


def _stride(x: torch.Tensor, *dim: int, **kwargs: Any) -> Any:
    reads.layout()
    if not (isinstance(x, SymTensor) and _is_open(x)):
        return leave_alone(x.stride, dim, kwargs)
    found = open_layouts.strides(x)
    return operator.getitem(found, *dim, *kwargs.values()) if dim or kwargs else found


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


@handles(torch.as_strided)
def _as_strided(input: torch.Tensor, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    return input.as_strided(size, stride, _place(input, storage_offset))


@handles(torch.as_strided_)
def _as_strided_(input: torch.Tensor, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    return input.as_strided_(size, stride, _place(input, storage_offset))


@handles(torch.as_strided_scatter)
def _as_strided_scatter(input: torch.Tensor, src: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:  # fmt: skip
    return input.as_strided_scatter(src, size, stride, _place(input, storage_offset))


def _place(x: torch.Tensor, at: Any) -> Any:
    """A place in the memory of a tensor, from where the trace has it begin."""
    found = reads.argument(x) if at is not None else None
    if found is None:
        return at
    watch, i, given = found
    begin = watch.offset(i, given)
    if type(at) is int and at < begin:
        raise UnsupportedOpError("as_strided() shows memory in front of the tensor that was passed", user_location())  # fmt: skip
    return at - begin


TENSOR_METHODS["as_strided"] = _as_strided
TENSOR_METHODS["as_strided_"] = _as_strided_
TENSOR_METHODS["as_strided_scatter"] = _as_strided_scatter
TENSOR_METHODS["stride"] = _stride
TENSOR_METHODS["view"] = _view
TENSOR_METHODS["storage_offset"] = _storage_offset
