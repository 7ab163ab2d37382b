"""By which inputs the gradients of a call leave, and which of its results have one: see ``paths``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph.ir import Graph, Value
from .item_ways import by_items
from .paths import Ways, paths


class Routes:
    """The ways from the inputs ``wrt`` of a graph to its outputs ``given``, in any run.

    ``told``: bools that the graph is made to give, by which a run tells its ways. A result is named by its position in ``given``.
    """

    def __init__(self, graph: Graph, given: Sequence[int], wrt: Sequence[int]):
        found = by_items(graph, given, paths(graph, given, wrt))
        back = (
            by_items(graph, given, paths(graph, given, wrt, gradients=True))
            if _gives_none(graph)
            else found
        )
        values = [w for ways in (*found, *back) for w in ways.values() if isinstance(w, Value)]
        self.told: list[Value] = list(dict.fromkeys(values))
        place = {v: i for i, v in enumerate(self.told)}
        self._forth = _Table(found, place)
        self._back = self._forth if back is found else _Table(back, place)

    def without(self, results: Sequence[int], told: Sequence[bool]) -> list[int]:
        """Those of some results that nothing requires a gradient of in a run, by position among them."""
        sure, more = self._forth.sure, self._forth.told
        return [
            k
            for k, r in enumerate(results)
            if not sure[r] and not any(told[at] for _, at in more[r])
        ]

    def history_of(self, results: Sequence[int], told: tuple[bool, ...]) -> frozenset[int]:
        """The inputs that are in the histories of those results."""
        return self._forth.inputs(tuple(results), told)

    def open_to(
        self, results: Sequence[int], there: Sequence[bool], told: tuple[bool, ...]
    ) -> frozenset[int]:
        """The inputs that the gradients of those results come to that are there."""
        return self._back.inputs(tuple(r for r, t in zip(results, there, strict=True) if t), told)


class _Table:
    """By result the inputs that it has surely, and those that a run tells of, each with the place of what tells."""

    def __init__(self, found: Sequence[Ways], place: dict[Value, int]):
        self.sure = [frozenset(i for i, w in ways.items() if w is True) for ways in found]
        self.told = [
            [(i, place[w]) for i, w in ways.items() if isinstance(w, Value)] for ways in found
        ]
        self._known: dict[Any, frozenset[int]] = {}

    def inputs(self, results: tuple[int, ...], told: tuple[bool, ...]) -> frozenset[int]:
        if (results, told) not in self._known:
            more = (i for r in results for i, at in self.told[r] if told[at])
            sure = (self.sure[r] for r in results)
            self._known[results, told] = frozenset(more).union(*sure)
        return self._known[results, told]


def _gives_none(graph: Graph) -> bool:
    """Whether a gradient of the user's own is None for some argument."""
    return any("none" in n.kwargs or any(map(_gives_none, n.regions.values())) for n in graph.nodes)


def is_there(grad: Any) -> bool:
    """Whether there is a cotangent: of a list that of an item."""
    return any(map(is_there, grad)) if isinstance(grad, (list, tuple)) else grad is not None
