"""Torch's backward engine, called without the checks of ``torch.autograd.grad``: they import torch's symbolic shapes (0.3 s at first use)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def run_backward(
    outputs: Sequence[Any],
    grads: Sequence[Any],
    inputs: Sequence[Any],
    create: bool,
    unused: bool = True,
) -> tuple[Any, ...]:
    """The gradients of ``inputs``. ``create``: they can be differentiated again; ``unused``: None where nothing depends on an input."""
    return torch.autograd.Variable._execution_engine.run_backward(
        tuple(outputs), tuple(grads), True, create, tuple(inputs), allow_unreachable=unused, accumulate_grad=False
    )  # fmt: skip
