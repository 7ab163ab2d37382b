"""The part of a gradient, taken in a loop's body, that goes on to what was computed before the loop.

By way of the loop's state the first iteration comes there, others only where an iteration computes the state from that before. What a body
would compute of it in vain, in every iteration, is a branch that runs where a cotangent is not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..writes import histories
from . import optional_grads
from .engine import run_backward


def run(
    outputs: Sequence[Any], grads: Sequence[Any], inputs: Sequence[Any], create: bool, unused: bool
) -> list[Any]:
    """The gradients of ``inputs``, as of ``run_backward``."""
    passed = [] if create else histories.passed(outputs)
    if not passed:
        return list(run_backward(outputs, grads, inputs, create, unused))
    for earlier in passed:
        earlier.held = []
    found = list(run_backward(outputs, grads, inputs, create))
    for earlier in passed:
        held, earlier.held = earlier.held, None
        if held:
            _add(found, [x for x, _ in held], [g for _, g in held], inputs)
    if not unused and any(g is None for g in found):
        missing = next(i for i, g in enumerate(found) if g is None)
        raise RuntimeError(optional_grads.UNUSED.format(missing))
    return found


def _add(
    found: list[Any], outside: Sequence[Any], cotangents: Sequence[Any], inputs: Sequence[Any]
) -> None:
    """Add to gradients what comes to ``inputs`` by way of tensors from before a loop."""
    reached: list[int] = []

    def gradients() -> tuple[Any, ...]:
        made = run(outside, cotangents, inputs, False, True)
        reached.extend(i for i, g in enumerate(made) if g is not None)
        return tuple(made[i] for i in reached)

    def zeros() -> tuple[Any, ...]:
        return tuple(torch.zeros_like(inputs[i], requires_grad=False) for i in reached)

    with torch.no_grad():
        some = torch.stack([(g != 0).any() for g in cotangents]).any()
        more = EITHER(some, gradients, zeros)
        for i, g in zip(reached, more):
            found[i] = g if found[i] is None else found[i] + g


def EITHER(test: Any, body: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """What one of two functions gives, as a staged ``if``; ``body`` is traced first. Set by ``control_flow``."""
    raise NotImplementedError
