"""``apply`` of a ``torch.autograd.Function`` without what it asks about transforms of ``torch.func``: about half of a small call.

The functions that tograph puts around what it records are of that kind too: they take symbolic tensors only, inside of a transform as outside.

A private interface of torch: what ``Function.apply`` itself calls where no transform is open. It is tried once, at import; where
torch has it no more, or it gives no node, the public ``apply`` does the same, more slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_functorch = torch._C._functorch


class _Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x + x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g + g


def inner_apply(function: Any) -> Any:
    """What ``function.apply`` calls, or None where torch has no such thing."""
    return getattr(super(torch.autograd.Function, function), "apply", None)


def works(found: Callable[[Any], Any]) -> bool:
    """Whether the inner ``apply`` of a class computes and joins autograd."""
    apply = found(_Twice)
    if apply is None:
        return False
    with torch.enable_grad():
        x = torch.ones((), requires_grad=True)
        try:
            y = apply(x)
        except (TypeError, RuntimeError, AttributeError):
            return False
    return isinstance(y, torch.Tensor) and y.requires_grad and y.grad_fn is not None


def plain_apply(function: Any, found: Callable[[Any], Any] = inner_apply) -> Callable[..., Any]:
    """``apply`` for calls in which no transform of ``torch.func`` made, or left, one of the tensors."""
    return found(function) if works(found) else function.apply


def within_transforms(function: Any) -> Callable[..., Any]:
    """``apply`` of a function that takes symbolic tensors and no wrapped ones, also where a transform is open."""
    apply = plain_apply(function)

    def run(*args: Any) -> Any:
        if _functorch.peek_interpreter_stack() is None:
            return apply(*args)
        allowed = _functorch.get_single_level_autograd_function_allowed()
        _functorch.set_single_level_autograd_function_allowed(True)
        try:
            return apply(*args)
        finally:
            _functorch.set_single_level_autograd_function_allowed(allowed)

    return run
