"""The state of an optimiser of which no parameter was stepped yet, made before the trace of its first step.

torch makes it in that step. A trace that does so serves one call, and stages the first iteration of a loop apart, since later ones find a state. Where the
new state follows from parameters and options alone, ``begin`` unwinds the trace (``Retrace``), the state is made as torch makes it, and tracing begins
again with it there: one trace serves all calls.

Not so where the program could tell: where it has looked at the state before, and where the optimiser is of a user's class or has hooks. A call that is refused,
or that raises while it is traced, leaves no state that was not stepped.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from ..gradients import grad_fields
from ..guarding import reads
from ..recording.tracing import suspended
from ..symbols.funcgraph import current_graph
from ..symbols.retrace import Retrace
from ..symbols.symbolic import SymTensor
from ..values.structure import OUTSIDE

# Not those whose state follows from a rate that may have changed by the first step.
_CLASSES = frozenset(
    [
        torch.optim.Adadelta,
        torch.optim.Adam,
        torch.optim.Adamax,
        torch.optim.AdamW,
        torch.optim.NAdam,
        torch.optim.RAdam,
        torch.optim.RMSprop,
        torch.optim.SGD,
    ]
)


class NewState:
    """The state that ``optimizer`` is to have of ``parameters``."""

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor]):
        self.optimizer, self.parameters = optimizer, parameters

    def make(self) -> None:
        """Make it by torch's own function, which takes parameters that have a gradient."""
        new = set(self.parameters)
        every = [p for group in self.optimizer.param_groups for p in group["params"]]
        fields = [(p, p.grad) for p in every]
        with suspended(), torch.no_grad():
            try:
                for p in every:
                    p.grad = p.detach() if p in new else None
                for group in self.optimizer.param_groups:
                    _init_group(self.optimizer, group)
            finally:
                for p, grad in fields:
                    p.grad = grad

    def drop(self) -> None:
        """The call has failed: what it did not step is as it was."""
        state = self.optimizer.state
        for p in self.parameters:
            if p in state and not _stepped(state[p]):
                del state[p]


def _init_group(optimizer: Any, group: dict[str, Any]) -> None:
    _, *lists = inspect.signature(optimizer._init_group).parameters
    optimizer._init_group(group, *([] for _ in lists))
    if type(optimizer) is torch.optim.SGD:
        for p in group["params"]:
            if p.grad is not None:
                optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p)


def _stepped(state: dict[str, Any]) -> bool:
    return bool(state["step"] if "step" in state else state["momentum_buffer"].any())


def _begins(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the optimiser is one whose state is made ahead. The momentum of SGD is the first gradient, which is what comes of zeros where nothing is damped."""
    plain = type(optimizer) is not torch.optim.SGD
    return type(optimizer) in _CLASSES and all(
        plain or (_is_set(g["momentum"]) and _is_zero(g["dampening"]))
        for g in optimizer.param_groups
    )


def _is_set(x: Any) -> bool:
    return type(x) in (int, float) and x != 0


def _is_zero(x: Any) -> bool:
    return type(x) in (int, float) and x == 0


def begin(optimizer: torch.optim.Optimizer) -> None:
    """``optimizer`` is about to step, in a trace; Retrace where it has to have a state first."""
    watch, root = reads.current(), current_graph().root
    if watch is None or watch.acted or root.created or not _begins(optimizer):
        return
    if any(s.optimizer is optimizer for s in root.stepped) or not OUTSIDE[0](optimizer):
        return
    if len(optimizer.state) or reads.looked_at(optimizer.state):
        return
    every = [p for group in optimizer.param_groups for p in group["params"]]
    if any(isinstance(p, SymTensor) for p in every):
        return
    # Of one whose gradient is None on some paths, too: a trace of its step leaves a state behind on all of them.
    new = [p for p in every if grad_fields.read(p) is not None]
    if new:
        raise Retrace(stepped=frozenset([NewState(optimizer, new)]))
