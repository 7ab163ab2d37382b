"""``tg.debug``: limits on Python loops that unroll while tracing, and assertions of the graph.

``python_iteration_limit`` and ``unroll_warning_threshold`` are assignable.
"""

from __future__ import annotations

import logging
import sys
from types import ModuleType
from typing import Any

import torch

from ...errors import AssertionFailed, IterationLimitError, SignatureError
from ..inference.shapes import SYMBOLS
from ..recording import interrupts
from ..symbols.funcgraph import current_graph, is_tracing, user_location
from ..symbols.symbolic import value_of

python_iteration_limit = 100_000_000
unroll_warning_threshold = 50_000
LOGGER = logging.getLogger("tograph")


class _Limits(ModuleType):
    """This module: what is assigned to a limit is checked, and other names are not there to assign to."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("python_iteration_limit", "unroll_warning_threshold"):
            if not isinstance(value, (int, float)) or value < 0:
                raise SignatureError(f"tg.debug.{name} is a number from 0 on, not {value!r}")
        elif not hasattr(self, name):
            raise AttributeError(f"tg.debug has no setting {name!r}")
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Limits


class Unrolling:
    """Counts the iterations of one Python loop that runs while tracing."""

    def __init__(self) -> None:
        self.count = 0
        self.warned = False
        self.nodes = len(current_graph().graph.nodes) if is_tracing() else 0

    def step(self) -> None:
        """One more iteration; IterationLimitError past the limit, a warning when it makes a large graph."""
        interrupts.check()
        self.count += 1
        if self.count > python_iteration_limit and is_tracing():
            raise IterationLimitError(
                f"iteration limit exceeded: a Python loop ran more than {python_iteration_limit} iterations while tracing. If "
                "its condition should be decided by the graph, make it depend on a tensor; or raise "
                "tg.debug.python_iteration_limit.",
                user_location(),
            )
        if self.count > unroll_warning_threshold and self._grows():
            self.warned = True
            where = user_location()
            LOGGER.warning(
                "Large unrolled loop detected%s: %d iterations of a Python loop so far, each adding nodes to the graph. "
                "Did you mean to loop over tg.range(...) or a tensor?",
                f" at {where[0]}, line {where[1]}" if where else "",
                self.count,
            )

    def _grows(self) -> bool:
        """Whether the loop makes the graph larger, and nobody was told yet."""
        return not self.warned and is_tracing() and len(current_graph().graph.nodes) > self.nodes


def assert_(condition: Any, data: Any = ()) -> None:
    """Check at run time that a condition holds; InvalidArgumentError with the values of ``data`` when not.

    ``condition``: a bool, or a tensor whose elements must all be true. ``data``: values to show.

    Example: ``tg.debug.assert_(x > 0, ["bad value", x])``
    """
    items = data if isinstance(data, (list, tuple)) else [data]
    if not isinstance(condition, (torch.Tensor, *SYMBOLS)):
        condition = bool(condition)
    if not is_tracing():
        holds = bool(condition.all()) if isinstance(condition, torch.Tensor) else condition
        if not holds:
            raise AssertionFailed(" ".join(map(str, items)) or "assertion failed")
        return
    graph = current_graph()

    def argument(x):
        if isinstance(x, torch.Tensor):
            return value_of(x, graph)
        return (
            x.node.value(graph)
            if isinstance(x, SYMBOLS)
            else x
            if isinstance(x, (int, float))
            else str(x)
        )

    graph.add(
        "tg.assert", (argument(condition), "tg.AssertionFailed", tuple(argument(x) for x in items))
    )
