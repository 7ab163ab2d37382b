"""The autograd history of tensors that a staged construct writes, or carries as state.

torch keeps the history of a tensor in the tensor. While a region is traced, in-place ops give tensors from outside a history that
belongs to the region; at its end they get back the one from before (``note``, ``kept``), and when the construct is
recorded they become functions of its output (``rebase``).

State of a loop: inside the body a tensor has the history of the iterations before it, which no graph of one iteration can
go through. ``loop_state`` makes a placeholder that requires grad where eager's tensor would; a gradient that would go on from it to a
tensor outside of the loop is an error.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd.graph import increment_version

from ..errors import GradientError, Location
from .funcgraph import Storage, current_graph
from .symbolic import SymTensor


class _Alias(torch.autograd.Function):
    """A tensor of the same value and history that does not change when the original does."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return type(x)(x.meta, x.storage_, x.chain, x.ref)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


class _Rebase(torch.autograd.Function):
    """Gives ``x`` the history of ``source``, in place."""

    @staticmethod
    def forward(ctx: Any, x: Any, source: Any) -> Any:
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, grad


class _LoopState(torch.autograd.Function):
    """A placeholder for state that depends on tensors outside of the loop."""

    @staticmethod
    def forward(ctx: Any, location: Location | None, x: Any, *outside: Any) -> Any:
        ctx.location = location
        return type(x)(x.meta, x.storage_, x.chain, x.ref)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        raise GradientError(
            "a gradient that is taken inside of a staged loop goes through the loop's state back into earlier iterations. Take it "
            "after the loop, or detach() the state at the start of the body.",
            ctx.location,
        )


def alias(x: torch.Tensor) -> Any:
    """A tensor with the history that ``x`` has now, or None when it has none."""
    return _Alias.apply(x) if x.requires_grad else None


def rebase(x: torch.Tensor, source: Any) -> None:
    """Make the history of ``source`` (None: no history) that of ``x``; views of ``x`` see it.

    A leaf that requires grad keeps being one: it was written while gradients were off.
    """
    if not x.is_leaf:
        x.detach_()
    if not x.requires_grad and source is not None and source.requires_grad:
        with torch.enable_grad():
            _Rebase.apply(x, source)
    increment_version(x)


class _Notes(threading.local):
    def __init__(self) -> None:
        self.regions: list[dict[int, tuple[torch.Tensor, Any, Any]]] = []


_notes = _Notes()


def note(storage: Storage, target: torch.Tensor) -> None:
    """``target`` is about to be written: remember the history of the tensor that it is a view of."""
    owner = target if target._base is None else target._base
    if not isinstance(owner, SymTensor):
        return
    storage.owner = owner
    if not _notes.regions or id(storage) in _notes.regions[-1]:
        return
    old = alias(owner)
    _notes.regions[-1][id(storage)] = owner, owner.grad_fn, old
    ref = storage.ref
    if old is not None and ref is not None and ref.graph is not current_graph():
        ref.graph.sources.setdefault(ref.value, old)


@contextmanager
def kept():
    """Around the trace of a region: tensors from outside of it get their history back."""
    _notes.regions.append({})
    try:
        yield
    finally:
        for owner, function, old in _notes.regions.pop().values():
            if owner.grad_fn is not function:
                rebase(owner, old)


def loop_state(x: torch.Tensor, outside: list[torch.Tensor], location: Location | None) -> Any:
    """The placeholder ``x`` as a tensor that requires grad, with a history that leads to ``outside``."""
    with torch.enable_grad():
        return _LoopState.apply(location, x.requires_grad_(True), *outside)
