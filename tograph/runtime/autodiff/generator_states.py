"""Random generators while a forward part runs again for a gradient of its gradient: they give the numbers that they gave.

The generators of the CPU and of the devices of the inputs; afterwards that of the CPU is where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def states_of(inputs: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The states of the generators that random ops of a call may draw from."""
    found = [(torch.set_rng_state, torch.get_rng_state())]
    devices = sorted(
        {x.device.index or 0 for x in inputs if isinstance(x, torch.Tensor) and x.is_cuda}
    )
    for d in devices:
        found.append((lambda s, d=d: torch.cuda.set_rng_state(s, d), torch.cuda.get_rng_state(d)))
    return found


class restored:
    """Inside, the generators are as they were when the forward part ran."""

    def __init__(self, states: list[tuple[Any, Any]] | None):
        self.states = states

    def __enter__(self) -> None:
        if self.states:
            self.now = torch.get_rng_state()
            for put, state in self.states:
                put(state)

    def __exit__(self, *error: Any) -> None:
        if self.states:
            torch.set_rng_state(self.now)
