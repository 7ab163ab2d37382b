"""The tests of loops: as conditions of the graph, with a limit of iterations, and those that do more than compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import GraphBoolError
from ..graph.ir import Node, Value
from ..graph.ordering import graph_effects
from ..inference.shapes import SYMBOLS
from ..symbols.funcgraph import FuncGraph, user_location
from ..symbols.known import UNKNOWN, known
from ..values import locations, structure
from .branches import predicate


def predicate_value(x: Any) -> Any:
    """A loop test as a staged condition or a plain bool."""
    if isinstance(x, (torch.Tensor, *SYMBOLS)):
        return predicate(x, "while")
    if structure.is_union(x):
        raise GraphBoolError("the condition of a loop is of different kinds on different paths: compare it with something", user_location())  # fmt: skip
    return bool(x)


def rotated(test, body, first):
    """``go = test(); while go: body(); go = test()``: for a test that does more than compute.

    ``first`` is what the test gave before the loop.
    """
    cell = [predicate_value(first)]
    flag = locations.item(cell, "flag", "the loop test")

    def rotated_body():
        body()
        flag.set(predicate_value(test()))

    return (lambda: cell[0]), rotated_body, flag


def limited(test, body, limit):
    """The loop with at most ``limit`` iterations."""
    cell: list[Any] = [0]
    counter = locations.item(cell, "flag", "the iteration count")

    def limited_test():
        more = cell[0] < limit
        inner = predicate_value(test())
        if inner is True:
            return more
        if more is True or more is False:
            return inner if more else False
        inner = (
            inner
            if isinstance(inner, torch.Tensor)
            else torch.scalar_tensor(inner, dtype=torch.bool)
        )
        return torch.logical_and(inner, torch.scalar_tensor(more, dtype=torch.bool))

    def limited_body():
        body()
        counter.set(cell[0] + 1)

    return limited_test, limited_body, counter


def removable(graph: FuncGraph) -> bool:
    e = graph_effects(graph.graph)
    return not (e.random or e.io or e.writes)


def surely_runs(loop: Node) -> bool:
    """Whether a ``While`` has an iteration, by what its test is of the constants that it begins with: that of ``while True`` is a flag."""
    cond = loop.regions["cond"]
    return holds(cond.outputs[0], dict(zip(cond.inputs, loop.args)))


def holds(test: Any, given: Mapping[Value, Any]) -> bool:
    """Whether a test is known to be true, where the inputs of its graph are what is ``given``."""
    found = known(test, given) if isinstance(test, Value) else test
    if found is UNKNOWN:
        return False
    with _disable_current_modes():
        return bool(found)
