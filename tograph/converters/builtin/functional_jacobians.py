"""``torch.autograd.functional.jacobian`` and ``hessian`` of tensors of sizes that only the run knows: torch's own go over rows in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...runtime.gradients import transforms
from ...runtime.symbols.funcgraph import is_tracing
from ..calls import call
from ..conversion import convert_if_needed
from ..registry import handles
from .torch_func import hessian, jacrev

_functional = torch.autograd.functional


def _is_open(inputs: Any) -> bool:
    tensors = inputs if isinstance(inputs, tuple) else (inputs,)
    return any(isinstance(x, torch.Tensor) and any(type(n) is not int for n in x.shape) for x in tensors)  # fmt: skip


def _scalar(func: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        out = call(func, *args)
        if not isinstance(out, torch.Tensor):
            raise RuntimeError("The function given to hessian should return a single Tensor")
        if type(out.numel()) is int and out.numel() != 1:
            raise RuntimeError("The Tensor returned by the function given to hessian should contain a single element")  # fmt: skip
        return out.reshape(())

    return run


def _differentiates(function: Any, form: Callable[..., Any]) -> None:
    @handles(function)
    def run(func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False, **options: Any) -> Any:  # fmt: skip
        if not is_tracing() or transforms.active() or strict or not _is_open(inputs):
            return function(convert_if_needed(func), inputs, create_graph=create_graph, strict=strict, **options)  # fmt: skip
        several = isinstance(inputs, tuple)
        numbers = tuple(range(len(inputs))) if several else 0
        found = form(func, numbers)(*(inputs if several else (inputs,)))
        return found if create_graph else pytree.tree_map(lambda x: x.detach(), found)


_differentiates(_functional.jacobian, jacrev)
_differentiates(_functional.hessian, lambda func, numbers: hessian(_scalar(func), numbers))
