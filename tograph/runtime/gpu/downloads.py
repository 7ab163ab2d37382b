"""Large results that the caller gets as tensors of the CPU: all on their way before the host waits. Not yet seen on a GPU.

Each is copied into page-locked memory behind the plan, on its stream; the call then waits once, for these and for what else the host
reads, and gives the caller copies: the page-locked memory is the plan's, and the next call's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch

from .steps import Place
from .uploads import locked


class Downloads:
    """``start(of)`` begins the copies of the places; ``take(place)``, behind a wait, gives one."""

    def __init__(self, places: Collection[Place]):
        self._here: dict[Any, torch.Tensor | None] = dict.fromkeys(places)

    def __contains__(self, place: Any) -> bool:
        return place in self._here

    def start(self, of: Mapping[Any, torch.Tensor]) -> None:
        for place, here in self._here.items():
            x = of[place]
            if here is None:  # for the first call
                with torch.inference_mode(False):
                    here = self._here[place] = locked(x.shape, x.dtype)
            here.copy_(x, non_blocking=True)

    def wait(self) -> None:
        """For the current stream, where nothing else that is read waits for it."""
        if self._here:
            torch.cuda.current_stream().synchronize()

    def take(self, place: Any) -> torch.Tensor:
        return self._here[place].clone()
