"""By which inputs the gradients of a call leave, and which of its results have one: see ``paths``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph.ir import Graph, Value
from .paths import paths


class Routes:
    """The ways from the inputs ``wrt`` of a graph to its outputs ``given``, in any run.

    ``told``: bools that the graph is made to give, by which a run tells its ways. A result is named by its position in ``given``.
    """

    def __init__(self, graph: Graph, given: Sequence[int], wrt: Sequence[int]):
        found = paths(graph, given, wrt)
        values = [w for ways in found for w in ways.values() if isinstance(w, Value)]
        self.told: list[Value] = list(dict.fromkeys(values))
        place = {v: i for i, v in enumerate(self.told)}
        self._sure = [frozenset(i for i, w in ways.items() if w is True) for ways in found]
        self._told = [
            [(i, place[w]) for i, w in ways.items() if isinstance(w, Value)] for ways in found
        ]
        self._open: dict[Any, frozenset[int]] = {}

    def without(self, results: Sequence[int], told: Sequence[bool]) -> list[int]:
        """Those of some results that nothing requires a gradient of in a run, by position among them."""
        return [
            k
            for k, r in enumerate(results)
            if not self._sure[r] and not any(told[at] for _, at in self._told[r])
        ]

    def open_to(
        self, results: Sequence[int], there: Sequence[bool], told: tuple[bool, ...]
    ) -> frozenset[int]:
        """The inputs that the gradients of those results come to that are there."""
        given = tuple(r for r, t in zip(results, there, strict=True) if t)
        if (given, told) not in self._open:
            more = (i for r in given for i, at in self._told[r] if told[at])
            self._open[given, told] = frozenset(more).union(*(self._sure[r] for r in given))
        return self._open[given, told]


def is_there(grad: Any) -> bool:
    """Whether there is a cotangent: of a list that of an item."""
    return any(map(is_there, grad)) if isinstance(grad, (list, tuple)) else grad is not None
