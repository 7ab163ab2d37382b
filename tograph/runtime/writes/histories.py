"""The autograd history of tensors that a staged construct writes.

torch keeps the history of a tensor in the tensor. While a region is traced, in-place ops give tensors from outside a history that
belongs to the region; at its end they get back the one from before (``note``, ``kept``), and when the construct is
recorded they become functions of its output (``rebase``). Of state that a loop carries: ``iterations``.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import GradientError
from ..graph.ir import Node
from ..graph.overwritten import place_of, told
from ..symbols.funcgraph import FuncGraph, Storage, current_graph, user_location
from ..symbols.symbolic import SymTensor
from .rebasing import alias, rebase
from .stale import bump, set_versions


class Before(torch.autograd.Function):
    """The same memory, with the history that a tensor has now."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]


def remember(x: torch.Tensor, before: dict[int, torch.Tensor]) -> None:
    """A tensor of the caller is about to be written while tracing: keep its history."""
    if x.grad_fn is not None and x._base is None and id(x) not in before:
        with _disable_current_modes(), torch.enable_grad():
            before[id(x)] = Before.apply(x)


def released(
    outside: Sequence[tuple[torch.Tensor, Any, int]], before: dict[int, torch.Tensor]
) -> None:
    """At the end of a trace: captured tensors that it wrote in place have no history of the trace any more, but that from before.

    A view keeps it: torch has no way back there.
    """
    for x, function, version in outside:
        if x.grad_fn is not function and x._base is None and not isinstance(x, SymTensor):
            rebase(x, before.get(id(x)))
        if x._version != version:
            set_versions((x,), (version,))


class _Notes(threading.local):
    def __init__(self) -> None:
        self.regions: list[dict[int, tuple[torch.Tensor, Any, Any, int]]] = []
        self.outside: list[dict[Storage, tuple[torch.Tensor, int, bool]]] = []


_notes = _Notes()


def hold(call: Any, graph: FuncGraph) -> None:
    """Remember that a recorded node has been given ``call.tensors``: those that are written later it keeps as they are now.

    Where a graph is replayed each content is a tensor of its own.
    """
    if graph.replaying:
        return
    for i, x in call.tensors.items():
        storage = x.storage_ if isinstance(x, SymTensor) else None
        if storage is not None and storage.external is None and storage.argument is None:
            graph.root.held.setdefault(storage, []).append((call, i))


def check(error: Exception) -> None:
    """GradientError for what torch says of a view whose base has lost the history that the view has seen: of torch's views none can be taken back."""
    if isinstance(error, RuntimeError) and "new_fn INTERNAL ASSERT FAILED" in str(error):
        raise GradientError(
            "a branch gave a history to a tensor by a write through a view of it, and another branch, where it has none, goes on with the "
            "same view: write to the tensor itself (`z[1] = c` for `v = z[1:]; v[0] = c`), or take the view in each branch",
            user_location(),
        ) from error


def note(storage: Storage, target: torch.Tensor) -> None:
    """``target`` is about to be written: remember the history of the tensor that it is a view of."""
    for call, i in current_graph().root.held.pop(storage, ()):
        call.keep(i)
    owner = target if target._base is None else target._base
    if not isinstance(owner, SymTensor):
        remember(owner, current_graph().root.before)
        note_outside(storage, owner)
        return
    if storage.owner is None or not detached(owner):
        storage.owner = owner
    if storage.argument is not None:
        note_outside(storage, owner)
    # What the region made itself is in its outcome with the history that the write gives it.
    own = storage.home is current_graph()
    if own or not _notes.regions or id(owner) in _notes.regions[-1]:
        return
    old = alias(owner)
    _notes.regions[-1][id(owner)] = owner, owner.grad_fn, old, owner._version
    ref = storage.ref
    if old is not None and ref is not None and ref.graph is not current_graph():
        ref.graph.sources.setdefault(ref.value, old)


def detached(x: SymTensor) -> bool:
    """Whether a tensor that is no view to torch's autograd has the memory of another one, and no history of it."""
    return x._base is None and any(v.func is torch.ops.aten.detach.default for v in x.chain)


def note_outside(storage: Storage, owner: torch.Tensor) -> None:
    """A tensor of the caller is about to be written: remember its version, and whether it has a history.

    One that had a history keeps that of the trace, see ``released``.
    """
    if _notes.outside and storage not in _notes.outside[-1]:
        _notes.outside[-1][storage] = owner, owner._version, owner.grad_fn is None


def rewritten(node: Node, graph: FuncGraph, inner: FuncGraph) -> None:
    """The regions of ``node``, which was recorded just now, may have written tensors of the caller."""
    for storage, owner in inner.rewritten.items():
        if storage not in inner.arguments:  # it could not come to the write
            continue
        note_outside(storage, owner)
        place = node.args.index(inner.arguments[storage])
        bump(owner, graph, partial(told, node, place, graph.graph), place_of(node, place))


@contextmanager
def kept(graph: FuncGraph):
    """Around the trace of a region: tensors from outside of it get their history and version back; the graph notes those of the caller."""
    _notes.regions.append({})
    _notes.outside.append({})
    try:
        yield
    finally:
        outside = _notes.outside.pop()
        for storage, (owner, version, plain) in outside.items():
            if plain and owner.grad_fn is not None and not isinstance(owner, SymTensor):
                torch.Tensor.detach_(owner)
            if owner._version != version:
                graph.rewritten[storage] = owner
        for owner, function, old, version in _notes.regions.pop().values():
            if owner.grad_fn is not function:
                rebase(owner, old)
            set_versions((owner,), (version,))
        for owner, version, _ in outside.values():
            set_versions((owner,), (version,))
