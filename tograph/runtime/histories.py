"""The autograd history of tensors that a staged construct writes, or carries as state.

torch keeps the history of a tensor in the tensor. While a region is traced, in-place ops give tensors from outside a history that
belongs to the region; at its end they get back the one from before (``note``, ``kept``), and when the construct is
recorded they become functions of its output (``rebase``).

State of a loop: inside the body a tensor has the history of the iterations before it. ``Earlier`` makes a placeholder that requires grad
where eager's tensor would. A gradient that goes on from it to tensors outside of the loop becomes a node ``tg.earlier``:
cotangents of the state at the start of an iteration -> cotangents of those tensors, by way of all iterations
before. When the loop is recorded, ``autodiff.earlier`` makes a loop of it that goes through them backwards.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd.graph import increment_version
from torch.utils._python_dispatch import _disable_current_modes

from ..errors import Location
from .funcgraph import FuncGraph, Storage, current_graph
from .infer import tensor_type
from .ir import Node
from .stale import set_versions
from .symbolic import SymTensor, as_symbolic, same, value_of, wrap


class _Alias(torch.autograd.Function):
    """A tensor of the same value and history that does not change when the original does."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return same(x)

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


EARLIER = "tg.earlier"
_loops = itertools.count()


class Earlier:
    """The iterations before one, in the trace of a loop's body: what its state depends on are the tensors ``outside``."""

    def __init__(self, outside: Sequence[torch.Tensor], location: Location | None):
        self.outside, self.location, self.loop = list(outside), location, next(_loops)
        self.pending: dict[int, Any] = {}
        with torch.enable_grad():
            self._end = _Earlier.apply(self, *self.outside) if self.outside else None

    def state(self, x: torch.Tensor, index: int) -> Any:
        """The placeholder ``x`` of the body's input ``index`` as a tensor with the history of the iterations before."""
        with torch.enable_grad():
            return _LoopState.apply(self, index, torch.Tensor.requires_grad_(x), self._end)


class _LoopState(torch.autograd.Function):
    """Notes the cotangent of a placeholder for ``_Earlier``, whose backward comes after those of all placeholders."""

    @staticmethod
    def forward(ctx: Any, earlier: Earlier, index: int, x: Any, end: Any) -> Any:
        ctx.earlier, ctx.index = earlier, index
        return same(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        ctx.earlier.pending[ctx.index] = grad
        return None, None, None, torch.zeros(())


class _Earlier(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, earlier: Earlier, *outside: Any) -> Any:
        ctx.earlier = earlier
        with _disable_current_modes():
            return torch.zeros(())

    @staticmethod
    def backward(ctx: Any, _: Any) -> Any:
        earlier: Earlier = ctx.earlier
        pending, earlier.pending = earlier.pending, {}
        graph = current_graph()
        given = tuple(value_of(g, graph) for g in pending.values())
        metas = [as_symbolic(x).meta for x in earlier.outside]
        known = {
            "places": tuple(pending),
            "loop": earlier.loop,
            "again": torch.is_grad_enabled(),
        }
        node = graph.add(EARLIER, given, known, [tensor_type(m) for m in metas])
        return None, *(wrap(v, m, graph) for v, m in zip(node.outputs, metas))


def EXPAND(node: Node, graph: FuncGraph, earlier: Earlier, keys: Sequence[Any]) -> None:
    """Give a ``While`` loops for the nodes of ``earlier`` in its body. Set by ``autodiff``."""


def alias(x: torch.Tensor) -> Any:
    """A tensor with the history that ``x`` has now, or None when it has none."""
    return _Alias.apply(x) if x.requires_grad else None


def rebase(x: torch.Tensor, source: Any) -> None:
    """Make the history of ``source`` (None: no history) that of ``x``; views of ``x`` see it.

    A leaf that requires grad keeps being one: it was written while gradients were off.
    """
    if not x.is_leaf:
        torch.Tensor.detach_(x)  # of torch's history only
    if not x.requires_grad and source is not None and source.requires_grad:
        with torch.enable_grad():
            _Rebase.apply(x, source)
    increment_version(x)


def released(outside: Sequence[tuple[torch.Tensor, Any, int]]) -> None:
    """At the end of a trace: captured tensors that it wrote in place have no history of the trace any more.

    A view keeps it, and so does what had a history before: torch has no way back there.
    """
    for x, function, version in outside:
        if x.grad_fn is not function and function is None and x._base is None:
            x.detach_()
        if x._version != version:
            set_versions((x,), (version,))


class _Notes(threading.local):
    def __init__(self) -> None:
        self.regions: list[dict[int, tuple[torch.Tensor, Any, Any, int]]] = []


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
    _notes.regions[-1][id(storage)] = owner, owner.grad_fn, old, owner._version
    ref = storage.ref
    if old is not None and ref is not None and ref.graph is not current_graph():
        ref.graph.sources.setdefault(ref.value, old)


@contextmanager
def kept():
    """Around the trace of a region: tensors from outside of it get their history and version back."""
    _notes.regions.append({})
    try:
        yield
    finally:
        for owner, function, old, version in _notes.regions.pop().values():
            if owner.grad_fn is not function:
                rebase(owner, old)
            set_versions((owner,), (version,))
