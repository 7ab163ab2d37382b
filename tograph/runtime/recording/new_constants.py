"""Real tensors that the code makes while it is traced, ``torch.tensor([1, 2])``: small ones stand in the graph, others are captured."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..graph.constants import constant_of
from ..inference.infer import meta_of, tensor_type
from ..symbols.funcgraph import Storage, current_graph
from ..symbols.symbolic import SymTensor, wrap

_LISTED = (torch.bool, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.float32, torch.float64,
           torch.float16, torch.bfloat16, torch.complex64, torch.complex128)  # fmt: skip


def lifted(x: torch.Tensor) -> SymTensor:
    """``torch.tensor(...)`` ends here with a real tensor: a constant, fresh at every execution."""
    if isinstance(x, SymTensor):
        return x
    graph = current_graph()
    if x.numel() <= 64 and x.dtype in _LISTED and x.device.type == "cpu":
        with _disable_current_modes():
            op, args, kwargs = constant_of(x)
        value = graph.emit(op, *args, type=tensor_type(meta_of(x)), **kwargs)
        return wrap(value, meta_of(x)._replace(offset=0), graph)
    storage = Storage(meta_of(x), external=x)
    graph.root.captured[id(x)] = storage
    graph.root.keep.append(x)
    return wrap(graph.current(storage), storage.meta, graph)
