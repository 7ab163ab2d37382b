"""What goes between the host and a plan: one block of the device's memory, one copy before a run and one after it.

It begins with what the host only sets (numbers and small tensors of the CPU among the inputs), then come the places that it sets and
reads (the error code, the generator), then those that it only reads (numbers and tensors of the CPU among the outputs). So what is sent
is one range, and what is fetched another one. The host's side is not pinned: CUDA has taken a copy of such memory when the call returns, so it
can be set again while the device still runs.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import torch

from ..graph.types import ScalarType
from .steps import Place, size_of

SLOT = 16  # bytes: where Triton's vector access may start


class Block:
    """``sent`` and ``fetched``: the places. ``last``: the last of those that are sent, so that it can be left as it is."""

    def __init__(self, sent: Collection[Place], fetched: Collection[Place], device: torch.device, last: Place | None = None):  # fmt: skip
        only = [p for p in sent if p not in fetched]
        both = sorted((p for p in sent if p in fetched), key=lambda p: p is last)
        order = dict.fromkeys([*only, *both, *fetched])
        self._starts: dict[Place, int] = {}
        end = 0
        for p in order:
            self._starts[p] = end
            end += -(-size_of(p) // SLOT) * SLOT
        rest = [p for p in fetched if p not in sent]
        self._first = self._starts[(both + rest)[0]] if fetched else end
        here = self._starts[rest[0]] if rest else end
        self._short = here if last is None else self._starts[last]
        self._memory = torch.zeros(end, dtype=torch.uint8, device=device)
        self._host = torch.zeros(here, dtype=torch.uint8)

    @property
    def device_memory(self) -> torch.Tensor:
        return self._memory

    def __contains__(self, place: Any) -> bool:
        return place in self._starts

    def fetches(self, place: Any) -> bool:
        """Whether a place is among those that are fetched."""
        return place in self._starts and self._starts[place] >= self._first

    def of(self, place: Place) -> torch.Tensor:
        """The memory of a place on the device."""
        return self._part(self._memory, place, self._starts[place])

    def set(self, place: Place, value: Any) -> None:
        """Have a number or a tensor sent."""
        part = self._part(self._host, place, self._starts[place])
        part.copy_(value) if isinstance(value, torch.Tensor) else part.fill_(value)

    def send(self, whole: bool = True) -> None:
        """``whole``: the last one too."""
        end = len(self._host) if whole else self._short
        if end:
            self._memory[:end].copy_(self._host[:end], non_blocking=True)

    def fetch(self) -> torch.Tensor | None:
        """What the device has computed, for ``got``; waits for it. None where there is nothing to fetch."""
        return self._memory[self._first :].cpu() if self._first < len(self._memory) else None

    def got(self, found: torch.Tensor, place: Place) -> torch.Tensor:
        """A place in what was fetched."""
        return self._part(found, place, self._starts[place] - self._first)

    def _part(self, memory: torch.Tensor, place: Any, start: int) -> torch.Tensor:
        kind = place.type
        shape = () if isinstance(kind, ScalarType) else kind.shape
        return (
            memory[start : start + math.prod(shape) * kind.dtype.itemsize]
            .view(kind.dtype)
            .reshape(shape)
        )
