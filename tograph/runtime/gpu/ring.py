"""The ring: memory of the host that the device writes messages into, and the host reads.

A *message* is what one print, or a few in a row, is given: the number of its *site*, then the elements of its values, each in a word of 64
bits. ``position`` is the number of words that are written; it belongs to the device. ``memory`` is page-locked memory of the host at an
address that kernels know. The host reads it only behind what it has waited for, and then starts again at 0: so there is no word that both
sides write at once, and no order of stores to rely on.

``asked``: a word that the host sets where it has waited for a while; a loop with messages in the ring then comes back
(``messages``), so that what is printed is seen soon, however long the loop runs. Not yet seen on a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch

from ..graph.types import ScalarType
from .steps import Cell, Host, Place

SOON = 0.1  # seconds until a loop that has printed is asked to come back
SPIN = (
    1e-3  # seconds for which the host asks the device again and again before it sleeps in between
)
NAP = 2e-4
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Site:
    """What the host does for a message. ``starts``: the word at which each value begins; ``words``: of the whole message."""

    hosts: tuple[Host, ...]
    starts: dict[Place, int]
    words: int


@dataclass
class Ring:
    """``words``: how many there is room for; ``limit``: those from which on a loop comes back."""

    position: Cell
    memory: Cell
    asked: Cell
    words: int
    sites: list[Site] = field(default_factory=list)

    @property
    def limit(self) -> int:
        return self.words // 2

    @property
    def shared(self) -> tuple[Cell, ...]:
        """What is memory of the host."""
        return self.memory, self.asked


class Reader:
    """The host's side. ``of``: the memory of the plan's places, on ``device``."""

    def __init__(self, ring: Ring, of: dict[Any, torch.Tensor], device: torch.device):
        self.ring, self.device = ring, device
        self.position, self.memory, self.asked = (of[p] for p in (ring.position, *ring.shared))
        self.since = 0.0

    def reset(self) -> None:
        """Ready for a run, also behind one that has failed in its middle."""
        self.position.zero_()
        self.asked.zero_()
        self.since = time.monotonic()

    def remind(self) -> bool:
        """Ask loops to come back if the host has waited for long; whether it has."""
        late = time.monotonic() - self.since >= SOON
        if late:
            self.asked.fill_(1)
        return late

    def wait(self) -> None:
        """For all that the current stream has been given, asking loops to come back where that takes long."""
        if self.device.type != "cuda":
            return
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self.device))
        begun = time.monotonic()
        while not event.query():
            if self.remind():
                event.synchronize()
            elif time.monotonic() - begun > SPIN:
                time.sleep(NAP)

    def messages(self) -> Iterator[tuple[Site, dict[Place, Any]]]:
        """What is in the ring, in order, each with its values; the ring is empty then."""
        self.wait()
        end = int(self.position.item())
        words = self.memory[:end].clone()
        if end:
            self.position.zero_()
        self.asked.zero_()
        self.since = time.monotonic()
        at = 0
        while at < end:
            site = self.ring.sites[int(words[at])]
            yield site, {p: self._value(p, words[at + start :]) for p, start in site.starts.items()}
            at += site.words

    def _value(self, place: Place, words: torch.Tensor) -> Any:
        kind = place.type
        number = isinstance(kind, ScalarType)
        shape = () if number else kind.shape
        found = _decoded(words[: prod(shape)], kind.dtype).reshape(shape)
        return kind.kind(found.item()) if number else found.to(self.device)


def _decoded(words: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Elements from their words, which hold the bits of floats and the numbers of others."""
    if not dtype.is_floating_point:
        return words.to(dtype)
    return words.to(_BITS[dtype.itemsize]).view(dtype)
