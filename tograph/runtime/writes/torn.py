"""Writes by a name that a staged construct binds to one of several tensors, or to a view that a loop carries.

The graph writes all that the name may be (``control_flow.picking``), but torch's own history of those tensors, by which gradients go
that are taken while tracing, does not know of the write. A gradient that is taken inside after such a tensor was read again is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ...errors import GradientError
from ..symbols.funcgraph import FuncGraph, current_graph, user_location
from ..symbols.symbolic import SymTensor, as_symbolic
from ..values.listed import parts

_READ = None  # the key of the write that a later read did not see


def tear(target: torch.Tensor, args: Sequence[Any]) -> None:
    """``target`` was written by an op that autograd sees, with these arguments."""
    storage, graph = as_symbolic(target).storage_, current_graph()
    if storage.derived and torch.is_grad_enabled() and any(map(_requires_grad, args)):
        for part in parts(storage):
            if not part.derived:
                graph.root.torn[part] = user_location()


def read(args: Iterable[Any], graph: FuncGraph) -> None:
    """An op takes these arguments."""
    for x in args if torch.is_grad_enabled() else ():
        if isinstance(x, (list, tuple)):
            read(x, graph)
        elif isinstance(x, SymTensor) and x.storage_ in graph.root.torn and not _detached(x):
            graph.root.torn.setdefault(_READ, graph.root.torn[x.storage_])


def check(graph: FuncGraph) -> None:
    """GradientError where a gradient may go by a write that is not followed."""
    if _READ in graph.root.torn:
        place = graph.root.torn[_READ]
        at = f' It is written here:\n  File "{place[0]}", line {place[1]}' if place else ""
        raise GradientError(
            "a gradient that is taken inside of the function may go through a tensor that is written in place by a name which a staged "
            "branch or loop binds to one of several tensors, or to a view: that is not followed. Write the tensor by its own name "
            f"(`y[0] += x`, not `v = y[0]` and `v += x`), or take the gradient outside.{at}",
            user_location(),
        )


def _requires_grad(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(map(_requires_grad, x))
    return isinstance(x, torch.Tensor) and x.requires_grad


def _detached(x: SymTensor) -> bool:
    return any(view.func is torch.ops.aten.detach.default for view in x.chain)
