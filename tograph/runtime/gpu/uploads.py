"""Large tensors of the CPU on their way to a plan: ahead of the device, on a stream of their own. Not yet seen on a GPU.

The host copies a tensor into page-locked memory and goes on. From there it goes to the device on the transfer stream, beside what
the device computes for the call before; the stream of the call waits for it by an event. Each tensor has ``SLOTS`` places on both sides,
which take turns: the host waits only where it is that many calls ahead of the transfers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .steps import Place

SLOTS = 2
SMALL = 1 << 16  # bytes up to which a tensor goes with the numbers, in one copy


@dataclass
class Slot:
    """``here`` and ``there``: the host's and the device's memory. ``sent``: behind the transfer; ``read``: behind what reads it."""

    here: torch.Tensor
    there: torch.Tensor
    sent: Any
    read: Any


class Uploads:
    """``send(place, x)`` gives the device's copy of a tensor, for the current stream; ``done()`` when all of them have been read."""

    def __init__(self, places: Collection[Place], device: torch.device):
        self.device = device
        self.stream = torch.cuda.Stream(device) if places else None
        self._slots: dict[Any, deque[Slot]] = {p: deque(self._slot(p) for _ in range(SLOTS)) for p in places}  # fmt: skip
        self._read: list[Slot] = []

    def __contains__(self, place: Any) -> bool:
        return place in self._slots

    @property
    def device_memory(self) -> Iterator[torch.Tensor]:
        """What calls read on their streams."""
        return (slot.there for slots in self._slots.values() for slot in slots)

    def _slot(self, place: Any) -> Slot:
        shape, dtype = place.type.shape, place.type.dtype
        there = torch.empty(shape, dtype=dtype, device=self.device)
        # What had this memory before may still be used by the stream that it was taken on.
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        there.record_stream(self.stream)
        return Slot(locked(shape, dtype), there, torch.cuda.Event(), torch.cuda.Event())

    def send(self, place: Any, x: torch.Tensor) -> torch.Tensor:
        slots = self._slots[place]
        slot = slots[0]
        slots.rotate(-1)
        slot.sent.synchronize()  # the host's memory is free again
        slot.here.copy_(x)
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(slot.read)
            slot.there.copy_(slot.here, non_blocking=True)
            slot.sent.record(self.stream)
        torch.cuda.current_stream().wait_event(slot.sent)
        self._read.append(slot)
        return slot.there

    def done(self) -> None:
        """What the current stream has been given so far reads the tensors, and nothing after it."""
        for slot in self._read:
            slot.read.record(torch.cuda.current_stream())
        self._read.clear()


def locked(shape: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="cpu", pin_memory=True)
