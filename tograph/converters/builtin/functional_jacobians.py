"""``torch.autograd.functional.jacobian`` and ``hessian``: torch's own, but for two kinds of functions.

Of tensors of sizes that only the run knows torch's go over rows in Python. What a function gives that is of one shape on some paths and of another on
others is looked at by torch before anything is computed of it: it leaves torch's code (``_SeveralShapes``), and has its Jacobian on each path.
"""

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
from ..union import is_union
from .torch_func import hessian, jacrev, of_each, rows

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


class _SeveralShapes(Exception):
    """``out`` is what the function gave of ``inputs``, as torch's code prepared these."""

    def __init__(self, out: Any, inputs: tuple[Any, ...]):
        super().__init__()
        self.out, self.inputs = out, inputs


def _leaving(func: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        out = call(func, *args)
        if any(map(is_union, out if isinstance(out, tuple) else (out,))):
            raise _SeveralShapes(out, args)
        return out

    return run


def _jacobian(func: Callable[..., Any], inputs: Any, create_graph: bool = False, **options: Any) -> Any:  # fmt: skip
    """torch's, or that of each of the shapes that a result may have."""
    try:
        return _functional.jacobian(_leaving(func), inputs, create_graph=create_graph, **options)
    except _SeveralShapes as found:
        out, leaves = found.out, found.inputs

    def one(out: Any) -> Any:
        is_tuple, outs = _functional._as_tuple(out, "outputs of the user-provided function", "jacobian")  # fmt: skip
        with torch.enable_grad():
            blocks = [tuple(rows(o, leaves, create_graph)) for o in outs]
        if not create_graph:
            blocks = pytree.tree_map(torch.Tensor.detach, blocks)
        found = [b if isinstance(inputs, tuple) else b[0] for b in blocks]
        return tuple(found) if is_tuple else found[0]

    return of_each(one, out)


def _differentiates(function: Any, own: Callable[..., Any], form: Callable[..., Any]) -> None:
    @handles(function)
    def run(func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False, **options: Any) -> Any:  # fmt: skip
        if not is_tracing() or transforms.active() or strict or not _is_open(inputs):
            torchs = own if is_tracing() and not (transforms.active() or strict) else function
            return torchs(convert_if_needed(func), inputs, create_graph=create_graph, strict=strict, **options)  # fmt: skip
        several = isinstance(inputs, tuple)
        numbers = tuple(range(len(inputs))) if several else 0
        found = form(func, numbers)(*(inputs if several else (inputs,)))
        return found if create_graph else pytree.tree_map(lambda x: x.detach(), found)


_differentiates(_functional.jacobian, _jacobian, jacrev)
_differentiates(
    _functional.hessian, _functional.hessian, lambda func, numbers: hessian(_scalar(func), numbers)
)
