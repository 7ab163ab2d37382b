"""Tensors from outside whose ``requires_grad`` the code switches: ``net.requires_grad_(False)``, ``w.requires_grad_()``.

A graph is differentiated with respect to what requires a gradient when it runs: what did so when the call began, and what the code
makes a leaf of (a call sets that before it runs). A value that is read of such a tensor **while it requires none** is a
detached one (``value_of``), so that no gradient comes to it by that way. A tensor that was read before the code makes a leaf
of it is not known to become one then: the trace begins again and knows it (``Retrace.switched``).

Tensors are known by the identity of the caller's tensor, which placeholders of arguments tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .retrace import Retrace

if TYPE_CHECKING:
    from .root import Root


def outside(x: torch.Tensor) -> torch.Tensor | None:
    """The tensor of the caller's that code knows as ``x``; None of what the code computed."""
    found = getattr(x, "__dict__", {})
    if "meta" not in found:
        return x
    return found.get("real_", found.get("caller_"))


def switch(x: torch.Tensor, wanted: bool, root: Root, read: bool) -> None:
    """``x.requires_grad`` becomes ``wanted``; ``read``: whether the graph has used a value of ``x``."""
    real = outside(x)
    if real is None or x.requires_grad is wanted:
        return
    if wanted and read and id(real) not in root.switched:
        raise Retrace(switched=frozenset([id(real)]))
    root.switched.setdefault(id(real), x.requires_grad)
    root.keep.append(real)


def is_off(x: torch.Tensor, root: Root) -> bool:
    """Whether ``x`` requires no gradient now, and does when the graph runs, or did before: what the code has made a leaf of and frozen again."""
    if x.requires_grad or not (root.switched or root.leaves):
        return False
    made = getattr(x, "became_", None)
    if made is not None:
        return made[0] in root.leaves and torch.is_grad_enabled()
    real = outside(x)
    return real is not None and id(real) in root.switched and torch.is_grad_enabled()


def became(x: torch.Tensor, root: Root) -> bool | None:
    """What the code has made of ``x.requires_grad`` at its end; None where it is what it was."""
    before = root.switched.get(id(outside(x)))
    return None if before in (None, x.requires_grad) else x.requires_grad
