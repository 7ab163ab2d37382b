"""A loop of few iterations as branches in each other: ``if test: body; if test: body; ...``, as long as the test may hold.

For gradients each of which is of a higher order than that of the iteration before, for which no loop of the graph is large enough. How many
iterations there can be has to be known while tracing, by a number that each of them counts: ``while i < n and i < 3``, ``range(min(n, 3))``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...errors import GradientError
from ..inference.shapes import SYMBOLS
from ..symbols.bounds import Bounds
from ..symbols.funcgraph import current_graph
from ..symbols.journal import Location as Place
from ..symbols.symbolic import value_of
from .attempts import Attempt
from .branches import predicate, staged_if

MOST = 6  # iterations: tracing takes three times as long with each


def unrolled(test: Callable[[], Any], body: Callable[[], Any], places: Sequence[Place], first: Any, error: GradientError) -> None:  # fmt: skip
    """Record the loop so, or raise ``error`` where it may have more iterations. ``first``: what the test gave already, or None."""

    def step(value: Any, count: int) -> None:
        if _surely_false(value):
            return
        if count == MOST:
            raise error
        if isinstance(value, (torch.Tensor, *SYMBOLS)):
            staged_if(predicate(value, "while"), lambda: following(count), lambda: None, places)
        else:
            following(count)

    def following(count: int) -> None:
        body()
        step(test(), count + 1)

    attempt = Attempt(places)
    try:
        step(test() if first is None else first, 0)
    except GradientError:
        attempt.undo()
        raise error from None
    except BaseException:
        attempt.commit()
        raise
    attempt.commit()
    current_graph().root.unrolled = True


def _surely_false(x: Any) -> bool:
    """Whether a test does not hold, whatever the run brings."""
    here = current_graph()
    if isinstance(x, torch.Tensor):
        return Bounds(here).never(value_of(x, here))
    return Bounds(here).never(x.node.value(here)) if isinstance(x, SYMBOLS) else not x
