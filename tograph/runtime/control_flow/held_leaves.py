"""Which leaves from before a loop a tensor of its state is, in the iterations that begin with them: ``w, v = v, w``.

A field belongs to the leaf, so what changes ``w.grad`` there changes that of the leaf. The index of the tensor that a variable is (``identity``) tells the iterations.
"""

from __future__ import annotations

from typing import Any

import torch

from ..gradients import grad_fields
from ..symbols.symbolic import SymTensor
from ..writes import iterations, two_names
from . import leaf_names
from .leaf_names import Held
from .picking import Picked


def held(x: Any) -> Held:
    """The leaves from before its loop that a placeholder may be, and the placeholders whose field is its own, each with the value that says whether it is."""
    return [*leaf_names.flags(x.storage_, _before(x)), *shared(x)] if _is_picked(x) else []


def moved(x: Any) -> list[torch.Tensor]:
    """The leaves from before its loop that a placeholder may be."""
    return list(_before(x).values()) if _is_picked(x) else []


def shared(x: Any) -> Held:
    """The placeholders that may be the same tensor of an earlier iteration, and hold its field."""
    if not _is_picked(x):
        return []
    holders = x.storage_.holders
    found = {i: holders.get(id(o.storage_)) for i, o in enumerate(x.storage_.options) if not o.chain}  # fmt: skip
    return leaf_names.flags(x.storage_, {i: y for i, y in found.items() if y is not None and y is not x})  # fmt: skip


def _is_picked(x: Any) -> bool:
    state = isinstance(x, SymTensor) and iterations.is_state(x.grad_fn)
    return state and isinstance(x.storage_, Picked) and not x.chain


def _before(x: Any) -> dict[int, torch.Tensor]:
    """By the number of the option the tensors from before its loop that a placeholder may be, and that may be leaves."""
    holders = x.storage_.holders
    found = leaf_names.options(x)
    return {
        i: y
        for i, y in found.items()
        if id(x.storage_.options[i].storage_) not in holders and _may_be_leaf(y)
    }


def _may_be_leaf(x: Any) -> bool:
    """Whether a tensor is a leaf, on some path at least, or stands for one."""
    own = iterations.is_leaf(x) or getattr(x, "sometimes_", False) or bool(getattr(x, "mixed_", ""))
    return own or (isinstance(x, SymTensor) and bool(grad_fields.STANDS_FOR(x) or held(x)))


grad_fields.HELD, grad_fields.SHARED, two_names.MOVED = held, shared, moved
two_names.SHARED = lambda x: [y for y, _ in shared(x)]
