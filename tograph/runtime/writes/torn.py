"""Writes that torch's own history, by which gradients go that are taken while tracing, does not know of.

* By a name that a staged construct binds to one of several tensors, or to a view that a loop carries: the graph writes all that the
  name may be (``control_flow.picking``).
* In a region, of a tensor of the caller's: the region's node gives no value for it.

A gradient that is taken inside after such a tensor was read again is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ...errors import GradientError
from ..symbols.funcgraph import FuncGraph, Storage, current_graph, user_location
from ..symbols.symbolic import SymTensor, as_symbolic
from ..values.listed import parts

_READ = None  # the key of the write that a later read did not see
_OF_THE_CALLER = (
    "an argument or captured tensor that a staged branch or loop writes in place: that is not followed. Write a copy (`w = w.clone()` before) "
    "or make a new tensor (`w = w * x`), or take the gradient outside."
)
_BY_ANOTHER_NAME = (
    "a tensor that is written in place by a name which a staged branch or loop binds to one of several tensors, or to a view: that is not "
    "followed. Write the tensor by its own name (`y[0] += x`, not `v = y[0]` and `v += x`), or take the gradient outside."
)


def tear(target: torch.Tensor, args: Sequence[Any]) -> None:
    """``target`` was written by an op that autograd sees, with these arguments."""
    storage, graph = as_symbolic(target).storage_, current_graph()
    if not torch.is_grad_enabled() or not any(map(_requires_grad, args)):
        return
    if storage.derived:
        for part in parts(storage):
            if not part.derived:
                graph.root.torn[part] = _BY_ANOTHER_NAME, user_location()
    elif _of_the_caller(storage) and graph.outer is not None:
        graph.torn[storage] = user_location()


def left(inner: FuncGraph, graph: FuncGraph) -> None:
    """A node of ``graph`` was recorded, of which ``inner`` is a region."""
    for storage, place in inner.torn.items():
        graph.root.torn.setdefault(storage, (_OF_THE_CALLER, place))
        if graph.outer is not None:
            graph.torn.setdefault(storage, place)


def _of_the_caller(storage: Storage) -> bool:
    return storage.external is not None or storage.argument is not None


def read(args: Iterable[Any], graph: FuncGraph) -> None:
    """An op takes these arguments."""
    for x in args if torch.is_grad_enabled() else ():
        if isinstance(x, (list, tuple)):
            read(x, graph)
        elif isinstance(x, torch.Tensor):
            storage = x.storage_ if isinstance(x, SymTensor) else graph.root.captured.get(id(x))
            if storage in graph.root.torn and not (isinstance(x, SymTensor) and _detached(x)):
                graph.root.torn.setdefault(_READ, graph.root.torn[storage])


def check(graph: FuncGraph) -> None:
    """GradientError where a gradient may go by a write that is not followed."""
    if _READ in graph.root.torn:
        what, place = graph.root.torn[_READ]
        at = f' It is written here:\n  File "{place[0]}", line {place[1]}' if place else ""
        raise GradientError(
            f"a gradient that is taken inside of the function may go through {what}{at}",
            user_location(),
        )


def _requires_grad(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(map(_requires_grad, x))
    return isinstance(x, torch.Tensor) and x.requires_grad


def _detached(x: SymTensor) -> bool:
    return any(view.func is torch.ops.aten.detach.default for view in x.chain)
