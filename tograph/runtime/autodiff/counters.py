"""Counters of a loop in its gradient: a number that every trip changes by a constant follows from the number of the trip, and is not saved.

``taken(p, node)`` takes such numbers out of what a trip saves; they become the last inputs of the trip backwards, which computes
them (``value``). So a gradient asks no list for the positions at which the loop has read, and what it reads there is known to be inside wherever that is known of the
loop itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..graph.ir import Graph, Node, Value
from ..graph.types import INT
from .graphs import append
from .parting import Parts


class Counter(NamedTuple):
    """``start + step * trip``, where the first trip is number 0."""

    start: int
    step: int

    def value(self, graph: Graph, trip: Value) -> Value:
        """What it is in a trip, as a value of a graph."""
        if not self.step:
            return append(graph, "py.constant", self.start, type=INT)
        found = trip if self.step == 1 else append(graph, "py.mul", trip, self.step, type=INT)
        return append(graph, "py.add", found, self.start, type=INT) if self.start else found


def taken(p: Parts, node: Node) -> list[Counter]:
    """The counters among what a trip of the loop ``node`` saves, and what follows from them, which it does not save any more."""
    known: dict[Value, Counter] = {}
    for v, a, after in zip(p.inputs[: node.kwargs["carried"]], node.args, p.forward.outputs):
        start, step = _number(a), _step(after, v)
        if v.type == INT and start is not None and step is not None:
            known[v] = Counter(start, step)
    found = {j: c for j, v in enumerate(p.saved) if v.type == INT and (c := _follows(v, known))}
    behind, first = len(p.forward.outputs) - len(p.saved), len(p.kept)
    p.forward.outputs = _without(p.forward.outputs, found, behind)
    moved = [p.backward.inputs[first + j] for j in found]
    p.backward.inputs = [*_without(p.backward.inputs, found, first), *moved]
    p.saved = _without(p.saved, found, 0)
    return list(found.values())


def _follows(v: Value, known: dict[Value, Counter]) -> Counter | None:
    """What a number of a trip is: a counter times a constant, and another one added."""
    node = v.node
    if v in known or node is None or node.op not in ("py.add", "py.sub", "py.mul"):
        return known.get(v)
    a, b = node.args
    if type(a) is int and node.op != "py.sub":
        a, b = b, a
    of = _follows(a, known) if isinstance(a, Value) and type(b) is int else None
    if of is None:
        return None
    if node.op == "py.mul":
        return Counter(of.start * b, of.step * b)
    return of._replace(start=of.start + b if node.op == "py.add" else of.start - b)


def _without(values: list[Value], places: Any, first: int) -> list[Value]:
    return [v for k, v in enumerate(values) if k - first not in places]


def _number(a: Any) -> int | None:
    """The number that an argument always is."""
    if isinstance(a, Value) and a.node is not None and a.node.op == "py.constant":
        a = a.node.args[0]
    return a if type(a) is int else None


def _step(after: Value, before: Value) -> int | None:
    """By how much a trip changes a number; None where that is not always the same."""
    node = after.node
    if node is None or node.op not in ("py.add", "py.sub"):
        return None
    a, b = node.args
    if node.op == "py.add" and b is before:
        a, b = b, a
    if a is not before or type(b) is not int:
        return None
    return b if node.op == "py.add" else -b
