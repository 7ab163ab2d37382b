"""Where the nodes of a graph repeat: the same ops on values of the same types, one period after the other.

Numbers that may differ from one period to the next (the row that is selected, a factor) are left out of the comparison.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import islice
from operator import eq
from typing import Any, NamedTuple

from ..graph.ir import Node, Value
from ..graph.ordering import node_effects, writes_over
from ..graph.rewrite import constant_key
from ..graph.text import show

TIMES = 16  # how often a kind of node may come in one period to be counted
CANDIDATES = 12  # periods that are compared
LONG = 6  # of those that rare nodes have
# Ops with a number that may differ between periods: the position of that argument, and its types.
VARYING: dict[str, tuple[int, tuple[type, ...]]] = {
    "aten.select.int": (2, (int,)),
    "aten.select_scatter.default": (3, (int,)),
    "aten.add.Tensor": (1, (int, float)),
    "aten.sub.Tensor": (1, (int, float)),
    "aten.mul.Tensor": (1, (int, float)),
    "aten.div.Tensor": (1, (int, float)),
}


class Stretch(NamedTuple):
    """``length`` nodes from ``start`` on, each of which is like the one ``period`` nodes later."""

    start: int
    period: int
    length: int


def number_of(node: Node) -> int | float | None:
    """The number of a node that may differ between periods."""
    where, kinds = VARYING.get(node.op, (0, ()))
    found = node.args[where] if where < len(node.args) else None
    return found if type(found) in kinds else None


def stretches(nodes: Sequence[Node], least: int, watched: bool) -> list[Stretch]:
    """Where nodes repeat ``least`` times or more: the longest stretch, then the longest ones before and behind it, and so on.

    ``watched``: what nodes write over is compared too.
    """
    kinds = _numbered(nodes, watched)
    found, todo = [], [(0, len(kinds))]
    while todo:
        begin, end = todo.pop(0)
        stretch = _longest(kinds[begin:end], least)
        if stretch is not None:
            start, period, length = stretch
            found.append(Stretch(begin + start, period, length))
            todo += [(begin, begin + start), (begin + start + length + period, end)]
    return found


def _longest(kinds: Sequence[int], least: int) -> Stretch | None:
    """The longest stretch in which a period comes ``least`` times or more."""
    found = []
    for period in _candidates(kinds, least):
        start, length = _longest_run(bytes(map(eq, kinds, islice(kinds, period, None))))
        if length >= (least - 1) * period:
            found.append(Stretch(start, period, length))
    return max(found, key=lambda s: (s.length, -s.period), default=None)


def _candidates(kinds: Sequence[int], least: int) -> list[int]:
    """Distances that many kinds of nodes have between two of theirs, here and there in the graph.

    A loop around another one has a kind or two that come once in each of its iterations, beside many that come in those of the inner one: its period is
    among those that rare kinds have.
    """
    places: dict[int, list[int]] = {}
    for i, kind in enumerate(kinds):
        places.setdefault(kind, []).append(i)
    votes: Counter[int] = Counter()
    rare: Counter[int] = Counter()
    for at in places.values():
        for first in {len(at) * part // 4 for part in (1, 2, 3)}:
            for other in range(first + 1, min(first + 1 + TIMES, len(at))):
                votes[at[other] - at[first]] += 1
                rare[at[other] - at[first]] += len(kinds) // len(at)
    likely = [p for p in votes if p * least <= len(kinds)]
    found = sorted(likely, key=lambda p: (-votes[p], p))[:CANDIDATES]
    long: list[int] = []
    for p in sorted(likely, key=lambda p: (-rare[p], p)):
        if len(long) < LONG and not any(p % q == 0 for q in long):
            long.append(p)
    return list(dict.fromkeys([*found, *long]))


def _longest_run(alike: bytes) -> tuple[int, int]:
    """(start, length) of the longest run of ones among zeros."""
    longest = max(alike.split(b"\0"), key=len)
    return alike.find(longest), len(longest)


def _numbered(nodes: Sequence[Node], watched: bool) -> list[int]:
    """For each node a number that it shares with those that are like it."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(_key(n, watched), len(numbers)) for n in nodes]


def written_over(node: Node) -> tuple[int, ...] | None:
    """Which of its inputs a node writes over; None where it writes over other values too."""
    inputs = node.inputs
    if writes_over(node) or not all(v in inputs for v in node.over):
        return None
    return tuple(map(inputs.index, node.over))


def _key(node: Node, watched: bool) -> Hashable:
    effects = node_effects(node)
    if effects.io or effects.reads or effects.writes or effects.overwrites or effects.diverges:
        return node
    over = written_over(node) if watched else ()
    if over is None:
        return node
    args: Any = list(node.args)
    if number_of(node) is not None:
        where = VARYING[node.op][0]
        args[where] = type(args[where])
    regions = tuple((name, show(region)) for name, region in node.regions.items())
    types = tuple(v.type for v in node.outputs)
    return node.op, _like(args), _like(node.kwargs), types, node.grad, regions, over


def _like(x: Any) -> Hashable:
    """Arguments with types in the place of values."""
    if isinstance(x, Value):
        return x.type
    if isinstance(x, (list, tuple)):
        return (type(x), *map(_like, x))
    if isinstance(x, dict):
        return (dict, *((k, _like(v)) for k, v in x.items()))
    return constant_key(x)
