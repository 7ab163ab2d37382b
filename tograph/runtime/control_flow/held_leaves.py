"""Which leaves from before a loop a tensor of its state is, in the iterations that begin with them: ``w, v = v, w``.

A field belongs to the leaf, so what changes ``w.grad`` there changes that of the leaf. The index of the tensor that a variable is (``identity``) tells the iterations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..gradients import grad_fields
from ..graph.ir import Value
from ..graph.types import BOOL
from ..symbols.funcgraph import Ref, current_graph
from ..symbols.symbolic import SymTensor, as_symbolic
from ..writes import iterations
from .picking import Picked

Held = Sequence[
    tuple[torch.Tensor, Ref]
]  # (leaf, flag): what a placeholder may be, and the value that says whether it is


def held(x: Any) -> Held:
    """The leaves from before its loop that a placeholder may be, and the placeholders whose field is its own."""
    return [*_flags(x, _before(x.grad_fn.earlier)), *shared(x)] if _is_picked(x) else ()


def shared(x: Any) -> Held:
    """The placeholders that may be the same tensor of an earlier iteration, and hold its field."""
    return _flags(x, {k: y for k, y in x.storage_.holders.items() if y is not x}) if _is_picked(x) else ()  # fmt: skip


def _is_picked(x: Any) -> bool:
    state = isinstance(x, SymTensor) and iterations.is_state(x.grad_fn)
    return state and isinstance(x.storage_, Picked) and not x.chain


def _flags(x: Any, leaves: Mapping[int, torch.Tensor]) -> Held:
    """The options of a placeholder that are the memory of ``leaves``, by its id."""
    here, storage = current_graph(), x.storage_
    options = [
        (i, leaves.get(id(o.storage_))) for i, o in enumerate(storage.options) if not o.chain
    ]
    found = [(i, leaf) for i, leaf in options if leaf is not None]
    at = storage.which(here) if found else 0
    if isinstance(at, int):
        return [(leaf, Ref(_constant(i == at), here)) for i, leaf in found]
    return [(leaf, Ref(here.emit("py.eq", at, i, type=BOOL), here)) for i, leaf in found]


def _before(earlier: iterations.Earlier) -> dict[int, torch.Tensor]:
    """By the id of their memory what was there before a loop and may be a leaf: options know the memory, and a field belongs to the tensor."""
    entries = [x.grad_fn.told.entry for x in earlier.made]
    known = [x for x in (*earlier.outside, *entries) if isinstance(x, torch.Tensor)]
    leaves = [x for x in known if x.requires_grad and _may_be_leaf(x)]
    return {id(as_symbolic(x).storage_): x for x in leaves if not as_symbolic(x).chain}


def _may_be_leaf(x: Any) -> bool:
    """Whether a tensor is a leaf, on some path at least, or stands for one."""
    own = iterations.is_leaf(x) or getattr(x, "sometimes_", False) or bool(getattr(x, "mixed_", ""))
    return own or (isinstance(x, SymTensor) and bool(grad_fields.STANDS_FOR(x)))


def _constant(flag: bool) -> Value:
    return current_graph().emit("py.constant", flag, type=BOOL)


grad_fields.HELD, grad_fields.SHARED = held, shared
