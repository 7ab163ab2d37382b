"""Tensors by which gradients come to those that they are asked of, beside these themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..gradients import outer_gradients


class Beside(NamedTuple):
    """The tensors that ``inputs`` of a gradient may be in a run (``PASSING``), and those that stand for them in a region that made them (``TOKENS``)."""

    passed: Sequence[tuple[int, Any, Any, bool]] = ()
    tokens: Sequence[tuple[int, Any]] = ()

    @property
    def tensors(self) -> list[Any]:
        return [*(x for _, x, _, _ in self.passed), *(x for _, x in self.tokens)]


def together(inputs: Sequence[Any], found: list[Any], beside: Beside, create: bool) -> list[Any]:
    """The gradients of ``inputs``: those of the tensors ``beside`` stand behind them in ``found``."""
    made, place = found[: len(inputs)], {id(x): i for i, x in enumerate(inputs)}
    middle = len(inputs) + len(beside.passed)
    with torch.set_grad_enabled(create):
        for (i, _), g in zip(beside.tokens, found[middle:]):
            if g is not None:
                made[i] = g if made[i] is None else made[i] + g
        for (i, x, flag, leaf), g in zip(beside.passed, found[len(inputs) : middle]):
            if g is None:
                continue
            own = torch.zeros_like(x, requires_grad=False) if made[i] is None else made[i]
            whole = g + own if leaf else g
            is_x = outer_gradients.as_tensor(flag, x)
            made[i] = torch.where(is_x, whole, own)
            if leaf and id(x) in place:
                made[place[id(x)]] = torch.where(is_x, whole, made[place[id(x)]])
    return made


NONE = Beside()
