"""A tensor with the history that another one has now, and a tensor that is given another history in place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd.graph import increment_version

from ..symbols.plain_apply import within_transforms
from ..symbols.symbolic import as_symbolic, same

set_versions = torch._C._autograd._unsafe_set_version_counter


class _Alias(torch.autograd.Function):
    """A tensor of the same value and history that does not change when the original does."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return same(as_symbolic(x))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        return tangent


class _Rebase(torch.autograd.Function):
    """Gives ``x`` the history of ``source``, in place."""

    @staticmethod
    def forward(ctx: Any, x: Any, source: Any) -> Any:
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, grad

    @staticmethod
    def jvp(ctx: Any, tangent: Any, _: Any) -> Any:
        return tangent


_alias, _rebase = within_transforms(_Alias), within_transforms(_Rebase)


def alias(x: torch.Tensor) -> Any:
    """A tensor with the history that ``x`` has now, in any gradient mode, or None when it has none."""
    if not x.requires_grad:
        return None
    with torch.enable_grad():
        return _alias(x)


def rebase(x: torch.Tensor, source: Any) -> None:
    """Make the history of ``source`` (None: no history) that of ``x``; views of ``x`` see it.

    A leaf that requires grad keeps being one: it was written while gradients were off.
    """
    if not x.is_leaf:
        torch.Tensor.detach_(x)  # of torch's history only
    if not x.requires_grad and source is not None and source.requires_grad:
        with torch.enable_grad():
            _rebase(x, source)
    increment_version(x)


@contextmanager
def without_history(x: torch.Tensor) -> Iterator[None]:
    """Inside, ``x`` is a leaf that requires no grad."""
    old, version = alias(x), x._version
    rebase(x, None)
    try:
        yield
    finally:
        rebase(x, old)
        set_versions((x,), (version,))
