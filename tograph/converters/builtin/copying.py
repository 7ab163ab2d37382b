"""``copy.deepcopy``, and ``copy.copy`` of a tensor, in a trace: tensors from outside are copied when the graph runs, and what shares memory shares it in the copy.

As in PyTorch a copy has no history, and what is no leaf has no copy.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ...errors import StagingError
from ...runtime.guarding import reads
from ...runtime.symbols.funcgraph import is_tracing, user_location
from ...runtime.symbols.symbolic import SymTensor
from ..attributes import attr
from ..registry import handles

_NO_LEAF = (
    "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
    "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
    "see https://github.com/pytorch/pytorch/pull/103001"
)


class _Copies(dict):
    """The memo of one ``deepcopy``, which copies its tensors; ``made``: the first tensor of each memory, with its copy."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[Any, tuple[torch.Tensor, torch.Tensor]] = {}

    def copied(self, x: torch.Tensor) -> torch.Tensor:
        if id(x) not in self:
            self[id(x)] = self._new(x)
        return self[id(x)]

    def _new(self, x: torch.Tensor) -> torch.Tensor:
        requires = attr(x, "requires_grad")
        if requires and not attr(x, "is_leaf"):
            raise RuntimeError(_NO_LEAF)
        at = _memory(x)
        if at in self.made:
            found = _view(x, *self.made[at])
        else:
            found = x.detach().clone()
            self.made[at] = x, found
        return found.requires_grad_() if requires else found


class _Copying(TorchFunctionMode):
    """Within it the memo copies what torch would copy at once: tensors from outside."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.__deepcopy__ and isinstance(args[1], _Copies):
            return args[1].copied(args[0])
        return func(*args, **(kwargs or {}))


def _memory(x: Any) -> Any:
    """What tells the memory of a tensor from others."""
    given = _given(x)
    return id(x.storage_) if given is None else given.untyped_storage()._cdata


def _given(x: Any) -> torch.Tensor | None:
    """The tensor from outside that ``x`` is, or is a view of."""
    return x.storage_.external if isinstance(x, SymTensor) else x


def _is_part(x: torch.Tensor) -> bool:
    """Whether ``x`` is a view of more than it shows."""
    given = _given(x)
    small = (
        given is not None
        and given.untyped_storage().nbytes() != given.numel() * given.element_size()
    )
    return small or bool(isinstance(x, SymTensor) and x.chain)


def _view(x: torch.Tensor, whole: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    """The view of ``made`` that ``x`` is of ``whole``."""
    if _is_part(whole) or made.stride() != whole.stride():
        raise StagingError(
            "copy.deepcopy of tensors that share memory, of which the first is a part: put the whole one first, or copy each by clone()",
            user_location(),
        )
    return made.as_strided(x.size(), x.stride(), x.storage_offset())


@handles(copy.deepcopy)
def deepcopy_(x, memo=None):
    if memo is not None or not is_tracing():
        return copy.deepcopy(x, memo)
    reads.passed((x,))
    memo = _Copies()
    with _Copying():
        made = copy.deepcopy(x, memo)
    # what was copied, which ``deepcopy`` keeps alive: parts before the whole
    for part in reversed(memo.get(id(memo), ())):
        reads.passed((part,))
    return made


@handles(copy.copy)
def copy_(x):
    """Of a tensor: another one of the same memory."""
    if type(x) is not torch.Tensor or not is_tracing():
        return copy.copy(x)
    made = x.detach()
    return made.requires_grad_() if attr(x, "requires_grad") else made
