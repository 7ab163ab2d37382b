"""What has to be done when a trace makes its first tensor of a GPU, before the device is asked for anything."""

from __future__ import annotations

from collections.abc import Callable

import torch

pending: list[Callable[[], None]] = []


def made_on(device: torch.device) -> torch.device:
    """The device of a tensor that is about to be made."""
    if pending and device.type == "cuda":
        pending.pop()()
    return device
