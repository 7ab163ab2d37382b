"""Choices some options of which are choices themselves, as one choice.

The model: a choice is an index (``Which``: an int or a value, as seen from a graph) and options. Branches that follow each other choose
among the same things in turn (each swap of a sort does), so choices share options and form no tree. Each choice and
each option counts once: the work and the ops are as many as the choices, not as the ways through them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from ..graph.ir import Value
from ..graph.types import INT
from ..symbols.funcgraph import FuncGraph

Which = Callable[[FuncGraph], Any]  # the index that counts, an int or a value, as seen from a graph
Opened = Callable[[Any], "tuple[Which, Sequence[Any]] | None"]  # what a choice is; None: no choice


def one_choice(
    which: Which, options: Sequence[Any], opened: Opened, key: Callable[[Any], Hashable]
) -> tuple[Which, list[Any]]:
    """The index and the options that are left: options of equal ``key`` are one.

    >>> pick = lambda graph: 1
    >>> inner = (lambda graph: 0, ["a", "b"])
    >>> index, left = one_choice(pick, ["a", "pair"], lambda x: inner if x == "pair" else None, str)
    >>> left
    ['a', 'b']
    """
    left: list[Any] = []
    found: dict[Hashable, int | Which] = {}

    def place(x: Any) -> int | Which:
        name = key(x)
        if name not in found:
            inside = opened(x)
            if inside is None:
                found[name] = len(left)
                left.append(x)
            else:
                found[name] = _placed(inside[0], [place(o) for o in inside[1]])
        return found[name]

    return _placed(which, [place(o) for o in options]), left


def _placed(which: Which, places: Sequence[int | Which]) -> Which:
    """The place of the option that counts, where each option has its own: computed once in a graph."""
    if list(places) == list(range(len(places))):
        return which
    made: WeakKeyDictionary[FuncGraph, Any] = WeakKeyDictionary()

    def index(graph: FuncGraph) -> Any:
        found = made.get(graph)
        if found is None or (isinstance(found, Value) and found in graph.undone):
            found = made[graph] = _index(graph, which(graph), places)
        return found

    return index


def _index(graph: FuncGraph, outer: Any, places: Sequence[int | Which]) -> Any:
    if isinstance(outer, int):
        one = places[outer]
        return one if isinstance(one, int) else one(graph)
    at = [p if isinstance(p, int) else p(graph) for p in places]
    if all(p is at[0] or (isinstance(p, int) and p == at[0]) for p in at):
        return at[0]
    return graph.emit("tg.choose", outer, at, type=INT)
