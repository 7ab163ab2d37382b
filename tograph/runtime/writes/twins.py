"""Detached tensors that are written while gradients are on.

Each tensor ``v = y.detach()`` shares the memory of ``y`` and not its history. A write to ``v`` by what has a history changes the content of both, and
the history of ``v`` alone. So before the first such write ``v`` gets a storage of its own, a **twin** of that of ``y``: what one of
them is given becomes the content of the others too, which keep their history.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch

from ..graph.ir import Value
from ..symbols import symbolic, wholes
from ..symbols.funcgraph import FuncGraph, Storage, current_graph
from ..symbols.symbolic import SymTensor
from ..values import listed

aten = torch.ops.aten


def part(targets: Sequence[Any], given: Sequence[Any]) -> None:
    """Before an op with the arguments ``given`` writes: give the detached tensors among ``targets`` storages of their own."""
    if torch.is_grad_enabled() and _has_history(given):
        for target in targets:
            _part(target)


def _has_history(x: Any) -> bool:
    """Whether a tensor among arguments requires grad."""
    if isinstance(x, (list, tuple)):
        return any(map(_has_history, x))
    return isinstance(x, torch.Tensor) and x.requires_grad


def _part(target: Any) -> None:
    """Give the detached tensor that ``target`` is, or is a view of, a storage of its own."""
    if not isinstance(target, SymTensor):
        return
    x = target if target._base is None else target._base
    if not isinstance(x, SymTensor) or not x.chain or x.chain != target.chain[: len(x.chain)]:
        return
    steps, old, graph = len(x.chain), x.storage_, current_graph()
    known = x.ref is not None and x.version == old.version
    if not known or old.derived or any(v.func is not aten.detach.default for v in x.chain):
        return
    if graph.within(x.ref.graph):
        listed.moved()
        others = [old, *_living(old, graph)]
        x.storage_ = Storage(x.meta, x.ref, home=x.ref.graph, twins=[*map(weakref.ref, others)])
        for other in others:
            other.twins = [*other.twins, weakref.ref(x.storage_)]
        x.chain, x.version = (), x.storage_.version
        wholes.note(x, graph.root)
        if target is not x:
            target.storage_, target.chain, target.ref = x.storage_, target.chain[steps:], None


def _leaf(x: SymTensor) -> None:
    """The code makes a leaf of ``x``: its own history, where it is detached from something without one.

    What has one would get it as state of each loop that writes ``x``.
    """
    ref = x.storage_.ref
    carrier = None if ref is None else ref.graph.sources.get(ref.value)
    if carrier is None or not carrier.requires_grad:
        _part(x)


symbolic.LEAF = _leaf


def _living(storage: Storage, graph: FuncGraph) -> list[Storage]:
    """The twins of a storage that something can still read: a branch or body that made one may be over."""
    found = [twin for ref in storage.twins if (twin := ref()) is not None]
    return [t for t in found if t.home is None or graph.within(t.home)]


def follow(storage: Storage, value: Value, graph: FuncGraph) -> None:
    """``storage`` was given a content: its twins have it too."""
    for twin in _living(storage, graph):
        old = graph.current(twin)
        graph.assign(twin, graph.emit("tg.written", old, value, type=old.type))
