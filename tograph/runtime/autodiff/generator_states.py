"""Random generators while a forward part runs again for a gradient of its gradient: they give the numbers that they gave.

They are torch's own of the CPU and of the GPUs on which the graph has tensors, and those that the program gives; afterwards each is where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..graph.ir import Graph
from ..kernels.device import gpus_in

State = list[tuple[torch.Generator, torch.Tensor]]


def gpus_of(graph: Graph) -> list[int]:
    """The numbers of the GPUs on which a graph has tensors, its own too: it may draw there whatever its inputs are."""
    return [torch.device(d).index or 0 for d in gpus_in(graph)]


def states_of(gpus: Sequence[int], given: Sequence[torch.Generator]) -> State:
    """The states of the generators that random ops of a call may draw from. ``given``: those that the graph names."""
    if gpus:
        torch.cuda.init()  # which makes them, where no tensor has been there yet
    own = [torch.default_generator, *(torch.cuda.default_generators[d] for d in gpus)]
    return [(g, g.get_state()) for g in (*own, *given)]


class restored:
    """Inside, the generators are as they were when the forward part ran."""

    def __init__(self, states: State | None):
        self.states = states or []

    def __enter__(self) -> None:
        self.now = [(g, g.get_state()) for g, _ in self.states]
        for g, state in self.states:
            g.set_state(state)

    def __exit__(self, *error: Any) -> None:
        for g, state in self.now:
            g.set_state(state)
