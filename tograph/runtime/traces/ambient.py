"""Modes of torch around a call that must not act on the ops of a graph: they acted on the code, while it was traced."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from ..values.keys import user_modes


def plain() -> AbstractContextManager:
    """Without the user's function modes."""
    return torch._C.DisableTorchFunction() if user_modes() else nullcontext()


def uncast() -> AbstractContextManager:
    """Without autocast, whose casts are in the graph."""
    return torch._C._DisableAutocast() if torch._C._is_any_autocast_enabled() else nullcontext()


def usual() -> bool:
    """Whether there are none of these."""
    return not (user_modes() or torch._C._is_any_autocast_enabled())
