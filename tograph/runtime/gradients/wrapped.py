"""Tensors from outside of a function that one of torch's transforms around the call has wrapped, or given a tangent.

``torch.func.functional_call(module, parameters, x)`` in ``torch.func.grad`` or ``vmap`` puts wrapped tensors in the place of the
parameters. A function is traced with the transforms put aside (``transforms.suspended``), where torch sees through a
wrapper: the graph would capture the tensor inside it, which knows nothing of the transform. So a symbolic tensor stands for
the wrapped one, which is what the graph captures. One stands for a dual tensor of forward-mode AD too: what computes with it while
tracing has no tangents.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from ..symbols.symbolic import SymTensor, capture
from . import transforms

# Questions that a wrapped tensor answers itself, as all tensors from outside do.
_ABOUT_IT = frozenset([
    "size", "dim", "ndimension", "numel", "nelement", "stride", "storage_offset", "is_contiguous", "untyped_storage", "data_ptr",
    "element_size", "get_device", "is_complex", "is_floating_point", "is_neg", "is_conj", "is_signed", "is_shared",
])  # fmt: skip
_COMPUTED = frozenset(["T", "mT", "H", "mH", "real", "imag", "data"])  # fields that are ops


class StandIns(TorchFunctionMode):
    """Gives functions of torch a symbolic tensor for each wrapped one; one for all uses, so that gradients find it."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.plain: dict[int, torch.Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if transforms.open_inside() or not _computes(func):
            return func(*args, **kwargs)
        args, kwargs = pytree.tree_map_only(torch.Tensor, self.of, (args, kwargs))
        return func(*args, **kwargs)

    def of(self, x: torch.Tensor) -> torch.Tensor:
        """What stands for ``x``: itself, where nothing wraps it and it has no tangent."""
        if isinstance(x, SymTensor) or id(x) in self.plain:
            return x
        if not transforms.is_wrapped(x) and not has_tangent(x):
            self.plain[id(x)] = x
            return x
        if id(x) not in self.made:
            made = capture(x)
            torch.Tensor.requires_grad_(made, x.requires_grad)  # no leaf of the code's
            self.made[id(x)] = x, made
        return self.made[id(x)][1]


def has_tangent(x: torch.Tensor) -> bool:
    """Whether a level of forward-mode AD around the call has given ``x`` a tangent."""
    with _disable_current_modes():
        return forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None


def _computes(func: Any) -> bool:
    name = getattr(func, "__name__", "")
    if name in ("__get__", "__set__"):
        return getattr(getattr(func, "__self__", None), "__name__", "") in _COMPUTED
    return name not in _ABOUT_IT


def standing_in() -> AbstractContextManager[Any]:
    """Inside, wrapped tensors are captured as such. Begins before the transforms are put aside."""
    return StandIns() if transforms.active() else nullcontext()
