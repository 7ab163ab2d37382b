"""What turns gradients on and off: whether they are recorded is decided while tracing, so not by a staged condition."""

from __future__ import annotations

from typing import Any

import torch

from ...errors import GraphBoolError
from ...runtime.guarding import reads
from ...runtime.symbols.funcgraph import current_graph, is_tracing, user_location
from ..calls import call
from ..construction import instance
from ..registry import handles
from ..staging import is_symbolic


def _enabled():
    """Gradients are about to be on, in a call that may have begun with gradients off."""
    if is_tracing():
        reads.follow_grad_mode()
        current_graph().root.enabled = True


@handles(torch.enable_grad)
def enable_grad(*args):
    _enabled()
    return torch.enable_grad(*args)


@handles(torch.set_grad_enabled)
def set_grad_enabled(mode):
    _need_known("set_grad_enabled", mode)
    if mode is True:
        _enabled()
    return torch.set_grad_enabled(mode)


@handles(torch.enable_grad.clone, torch.set_grad_enabled.clone)
def clone(self):
    """Of a decorator, for each call of what it decorates."""
    if isinstance(self, torch.enable_grad) or getattr(self, "mode", False) is True:
        _enabled()
    return self.clone()


@handles(torch.inference_mode)
def inference_mode(mode=True):
    _need_known("inference_mode", mode)
    return instance(call, torch.inference_mode, (mode,), {})


def _need_known(name: str, mode: Any) -> None:
    if is_symbolic(mode):
        raise GraphBoolError(
            f"torch.{name}() takes a bool that is known while tracing, and this one is known only when the graph runs: write "
            "an `if` on it, with the code under torch.no_grad() in one branch and without it in the other",
            user_location(),
        )
