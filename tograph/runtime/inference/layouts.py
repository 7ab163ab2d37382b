"""Which tensors a graph can have: plain numbers in strided memory; sparse ones as operands of products only.

A symbolic tensor says that it is strided, so what asks a sparse one for its layout, parts or dense form would get a wrong answer.
A matrix product takes a sparse matrix from outside of the graph (a closure, a module) and gives a strided result. The
gradient that a call has outside of the function may be sparse (``nn.Embedding(sparse=True)``).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch

from ...errors import UnsupportedOpError

_aten = torch.ops.aten
_PRODUCTS = frozenset(
    [_aten.mm.default, _aten.mv.default, _aten.addmm.default, _aten._sparse_addmm.default]
)


class _Taken(threading.local):
    sparse = False


_taken = _Taken()


def check(x: torch.Tensor) -> None:
    """UnsupportedOpError for a tensor that a graph cannot have."""
    if x.layout is torch.strided and not x.is_quantized and not x.is_nested:
        return
    if x.layout is torch.sparse_coo and _taken.sparse and x.dim() == 2:
        return
    kind = "nested" if x.is_nested else "quantized" if x.is_quantized else str(x.layout)
    matrix = " A sparse_coo matrix of a closure or module can be multiplied (`matrix @ x`)."
    raise UnsupportedOpError(
        f"a graph has tensors of plain numbers in strided memory, no {kind.removeprefix('torch.')} ones: pass the tensors that it is made "
        f"of, or use it outside or in tg.py_function.{matrix if x.layout is torch.sparse_coo else ''}"
    )


def is_sparse_product(func: Any, args: tuple) -> bool:
    """Whether an op is the product of a sparse matrix from outside and a tensor."""
    return func in _PRODUCTS and args[-2].layout is torch.sparse_coo


@contextlib.contextmanager
def taking_sparse() -> Iterator[None]:
    """In here an op may take, or give, a sparse matrix."""
    before, _taken.sparse = _taken.sparse, True
    try:
        yield
    finally:
        _taken.sparse = before
