"""Which memory of a plan may be written over: the values of a graph that nobody reads any more.

A graph owns the buffers of its own nodes and, as the body of a loop, those of the state. A step writes into a buffer in place of
a copy where it is the last one, in the order of the plan, that reads the old value or a view of it. Constants, inputs and
what a region was given from outside belong to others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ..graph.ir import Graph, Node, Value
from ..kernels.build import Region
from ..kernels.views import VIEWS

NEVER = math.inf


class Lifetimes:
    """When each value of a graph, or a view of it, is read last: the number of a step, or ``NEVER`` for what it gives."""

    def __init__(self, graph: Graph, steps: Sequence[Node | Region]):
        self.last: dict[Value, float] = {v: NEVER for v in graph.outputs if isinstance(v, Value)}
        for i in reversed(range(len(steps))):
            step = steps[i]
            for v in step.inputs:
                self._use(v, i)
            if isinstance(step, Node) and shares(step):
                for out in step.outputs:
                    self._use(step.args[0], self.last.get(out, i))

    def _use(self, v: Value, at: float) -> None:
        self.last[v] = max(self.last.get(v, -1), at)

    def ends(self, v: Value, step: int) -> bool:
        """Whether nothing after a step reads a value."""
        return self.last.get(v, -1) <= step


def shares(node: Node) -> bool:
    """Whether a node's output is its first argument's memory."""
    return node.op in VIEWS and isinstance(node.args[0], Value)


class Frame:
    """One graph while it is planned: what it owns, when its values end, and the step that is planned now."""

    def __init__(self, graph: Graph, steps: Sequence[Any], owned: Iterable[Any] = ()):
        self.lifetimes = Lifetimes(graph, steps)
        self.owned: set[Any] = set(owned)
        self.step = 0

    def ends(self, v: Value) -> bool:
        return self.lifetimes.ends(v, self.step)

    def reads(self, v: Value) -> bool:
        """Whether any step reads a value, or the graph gives it."""
        return v in self.lifetimes.last
