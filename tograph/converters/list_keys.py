"""Keys of tensors that torch has no place for while tracing: ``x[[i, j]]`` and ``x[places]`` with staged parts, and staged bools.

A list of numbers is what ``torch.tensor`` makes of it, as in PyTorch: bools are a mask, an empty list selects nothing. A list that is the
whole key and holds tensors, lists or slices is taken as a tuple (``x[[t, u]]`` is ``x[t, u]``).
"""

from __future__ import annotations

from typing import Any

import torch

from ..runtime.graph.types import ScalarType
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.symbols.symbolic import SymTensor
from ..runtime.values.growing import StagedList
from ..runtime.values.structure import Choice, Leaf, is_growing
from .growing_lists import tensor_of
from .staging import is_staged

_MOST_PARTS = 32  # a longer list is never a tuple to torch


def listed(x: Any, key: Any) -> Any:
    """The key of a tensor with lists that hold staged numbers, ``x[[i, j]]``, and staged bools, which are masks, as tensors."""
    if not isinstance(x, torch.Tensor):
        return key
    if is_growing(key):
        return _places(key, whole=True)
    if isinstance(key, list) and len(key) < _MOST_PARTS and any(map(_is_part, key)):
        key = tuple(key)
    return tuple(map(_part, key)) if isinstance(key, tuple) else _part(key)


def _is_part(k: Any) -> bool:
    """Whether torch takes a list that holds this for a tuple."""
    if isinstance(k, SYMBOLS):
        return False
    return k is None or k is Ellipsis or isinstance(k, (torch.Tensor, list, tuple, str, slice))


def _part(key: Any) -> Any:
    """One part of a key."""
    if isinstance(key, torch.SymBool):
        return torch.scalar_tensor(key, dtype=torch.bool)
    if isinstance(key, SymTensor) and key.dtype == torch.uint8 and not key.dim():
        return key != 0  # a mask to torch, like all tensors of this type
    if is_growing(key):
        return _places(key)
    if not (isinstance(key, list) and any(isinstance(k, list) or is_staged(k) for k in key)):
        return key
    kinds = {type(k) for k in key}
    rows = [_part(k) for k in key]
    if not any(isinstance(r, (torch.Tensor, *SYMBOLS)) for r in rows):
        return key
    dtype = torch.bool if kinds <= {bool, torch.SymBool} else torch.int64
    made = [r if isinstance(r, torch.Tensor) else torch.scalar_tensor(r, dtype=dtype) for r in rows]
    return torch.stack(made)


def _places(key: StagedList, whole: bool = False) -> Any:
    """A list whose length is known only when the graph runs, of numbers, or in a tuple of tensors of one number, as a tensor."""
    spec = key.item_spec
    if spec is None:
        return torch.empty(0, dtype=torch.int64)  # nothing was ever added
    if isinstance(spec, Choice):
        return tensor_of(key)
    if not isinstance(spec, Leaf):
        return key
    single = isinstance(spec.type, ScalarType) or (not whole and key.rank == 0)
    return tensor_of(key) if single else key
