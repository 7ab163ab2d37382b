"""Tensors by which gradients come to those that they are asked of, beside these themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from ..gradients import outer_gradients
from ..symbols.funcgraph import current_graph
from ..symbols.symbolic import value_of


class Beside(NamedTuple):
    """The tensors that ``inputs`` of a gradient may be in a run (``PASSING``), and those that stand for them in a region that made them (``TOKENS``).

    ``told``: by the position of a token, whether a gradient came to that.
    """

    passed: Sequence[tuple[int, Any, Any, bool]] = ()
    tokens: Sequence[tuple[int, Any, Any]] = ()
    told: Mapping[int, Any] = MappingProxyType({})

    @property
    def tensors(self) -> list[Any]:
        return [*(x for _, x, _, _ in self.passed), *(x for _, x, _ in self.tokens)]


def told(found: Sequence[Any]) -> dict[int, Any]:
    """Of gradients that are zeros in some runs, where nothing came, what says whether something did."""
    here = current_graph()
    known = here.root.ways
    ways = [
        (k, known.get(value_of(g, here))) for k, g in enumerate(found) if known and g is not None
    ]
    return {k: way for k, way in ways if way is not None}


def together(inputs: Sequence[Any], found: list[Any], beside: Beside, create: bool) -> list[Any]:
    """The gradients of ``inputs``: those of the tensors ``beside`` stand behind them in ``found``."""
    made, place = found[: len(inputs)], {id(x): i for i, x in enumerate(inputs)}
    middle = len(inputs) + len(beside.passed)
    with torch.set_grad_enabled(create):
        _by_tokens(made, inputs, beside.tokens, found[middle:])
        for (i, x, flag, leaf), g in zip(beside.passed, found[len(inputs) : middle]):
            j = place.get(id(x)) if leaf else None
            if g is None and (j is None or made[i] is None):
                continue
            own = torch.zeros_like(x, requires_grad=False) if made[i] is None else made[i]
            is_x = outer_gradients.as_tensor(flag, x)
            whole = own if g is None else g + own if leaf else g
            if g is not None:
                made[i] = torch.where(is_x, whole, own)
            if j is not None:
                other = torch.zeros_like(x, requires_grad=False) if made[j] is None else made[j]
                made[j] = torch.where(is_x, whole, other)
    return made


def _by_tokens(
    made: list[Any], inputs: Sequence[Any], tokens: Sequence[Any], found: Sequence[Any]
) -> None:
    """The gradients of leaves that regions made: what comes to the output itself is in those of the tokens where it has a history."""
    direct, sums = list(made), dict[int, Any]()
    for (i, _, flag), g in zip(tokens, found):
        if g is None:
            continue
        if flag is None:
            made[i] = g if made[i] is None else made[i] + g
            continue
        sums[i] = g if i not in sums else sums[i] + g
        own = torch.zeros_like(inputs[i], requires_grad=False) if direct[i] is None else direct[i]
        is_made = flag is True or outer_gradients.as_tensor(flag, inputs[i])
        made[i] = sums[i] if is_made is True else torch.where(is_made, sums[i], own)


NONE = Beside()
