"""Dual tensors of forward-mode AD (``torch.autograd.forward_ad``) that the traced code makes.

torch computes with tangents above the recorder, as it does with histories: what its formulas compute is recorded like any other op. Ops with
regions get their tangents from ``autodiff.connect``. Inside of a region tensors from outside have their tangents; the state of a loop has none,
and what a region makes a dual of has no tangent behind it, so ``FuncGraph.duals`` says what was done in a region, and that is refused.

Levels that were open around the call are none of the trace's.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import GradientError, Location
from ..graph.ir import Value
from ..inference.infer import meta_of, tensor_type
from .valueless import Valueless

MADE, UNPACKED = "made", "unpacked"
# What torch asks of tensors while an op is recorded: a tensor without its tangent, and whether a tangent is like its tensor.
SAME = frozenset([torch.ops.aten._fw_primal.default, torch.ops.aten.alias.default])
AGREE = frozenset([torch.ops.aten.is_same_size.default, torch.ops.aten._has_same_storage_numel.default])  # fmt: skip


def level_open() -> bool:
    """Whether a level of forward-mode AD is open, in the code that is traced or around the call."""
    return forward_ad._current_level >= 0


def may_agree(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have the same shape, as far as sizes are known: what torch asks of a gradient or tangent, which has that of its tensor."""
    return a.dim() == b.dim() and all(type(m) is not int or type(n) is not int or m == n for m, n in zip(a.shape, b.shape))  # fmt: skip


def tangent_of(x: Any) -> torch.Tensor | None:
    """The tangent of a tensor, if it has one."""
    if not level_open() or not isinstance(x, torch.Tensor) or not isinstance(x, Valueless):
        return None
    if not (x.is_floating_point() or x.is_complex()):
        return None
    with _disable_current_modes():  # nothing is recorded
        return torch._unpack_dual(x, level=0)[1]


def primal_of(x: Any, recorded: bool = True) -> Any:
    """The tensor without its tangent, if it has one. ``recorded``: as a value of its own, which has a history of its own."""
    if tangent_of(x) is None:
        return x
    with nullcontext() if recorded else _disable_current_modes():
        return torch._unpack_dual(x, level=0)[0]


def zeros(x: torch.Tensor, graph: Any) -> Value:
    """The value of a tensor by which a formula of torch says that a derivative is zero."""
    meta = meta_of(x)
    return graph.emit("aten.zeros.default", list(x.shape), type=tensor_type(meta), dtype=x.dtype, device=x.device)  # fmt: skip


def note(graph: Any, what: str) -> None:
    """Duals are made, or unpacked, where ``graph`` is recorded."""
    while graph is not None:
        graph.duals.add(what)
        graph = graph.outer


def check_leaving(graph: Any, values: Any, location: Location | None) -> None:
    """What a region leaves must not have a tangent from a dual that it made itself."""
    if MADE in graph.duals and level_open():
        for v in values:
            if v in graph.sources and tangent_of(graph.sources[v]) is not None:
                raise GradientError(
                    "a staged branch or loop body makes a dual tensor (torch.autograd.forward_ad.make_dual), and what it computes of that is "
                    "used behind it: its tangent is lost there. Make the dual tensor before the branch or loop, or unpack it inside",
                    location,
                )


def check_state(graph: Any, outer: Any, before: Any, after: Any, location: Location | None) -> None:
    """The body of a loop that unpacks must not carry dual tensors: ``before`` are the values of the state in ``outer``, ``after`` those that it leaves."""
    if UNPACKED not in graph.duals or not level_open():
        return
    found = [outer.sources.get(v) for v in before] + [graph.sources.get(v) for v in after]
    if any(x is not None and tangent_of(x) is not None for x in found):
        raise GradientError(
            "a staged loop carries dual tensors (torch.autograd.forward_ad), and its body unpacks: the tangents of what a loop carries are known "
            "behind it only. Unpack there, or open the level inside of the body",
            location,
        )
