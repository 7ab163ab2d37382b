"""How the copies of a repeated stretch of a graph hang together: where each takes its values from.

``wired`` compares all copies with one of them, the model: a value is from the same copy, from one before, or from outside. As many copies
as agree are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..graph.ir import Graph, Node, Value
from .periods import Stretch, number_of

MODEL = 3  # the copy that the others are compared with; state from further back is not looked for


class Own(NamedTuple):
    """Output ``output`` of node ``node`` of the same copy."""

    node: int
    output: int


class Back(NamedTuple):
    """Output ``output`` of node ``node`` of the copy ``len(starts)`` before; ``starts``: what stands for it in the first copies, the latest first."""

    node: int
    output: int
    starts: tuple[Value, ...]


class Outside(NamedTuple):
    """A value that is the same for all copies."""

    value: Value


Use = Own | Back | Outside


@dataclass
class Copies:
    """``count`` copies of ``period`` nodes, from ``start`` on. ``uses``: for each node of a copy where its inputs come from;
    ``numbers``: for each node its number in all copies, where that may differ."""

    nodes: Sequence[Node]
    start: int
    period: int
    count: int
    model: int = MODEL
    uses: list[list[Use]] = field(default_factory=list)
    numbers: list[list[int | float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._at = {n: i for i, n in enumerate(self.nodes)}

    def node(self, k: int, q: int) -> Node:
        """Node ``q`` of copy ``k``."""
        return self.nodes[self.start + k * self.period + q]

    def holds(self, node: Node) -> bool:
        """Whether a node belongs to one of the copies."""
        return 0 <= self._at[node] - self.start < self.count * self.period

    def found(self, v: Value) -> tuple[int, int, int] | None:
        """(copy, node, output) of a value of a copy, counted or not; None from outside."""
        at = -1 if v.node is None else self._at.get(v.node, -1) - self.start
        return None if at < 0 else (at // self.period, at % self.period, v.index)


def wired(graph: Graph, stretch: Stretch, least: int) -> Copies | None:
    """The copies of a stretch that hang together, ``least`` at least."""
    start, period, length = stretch
    for _ in range(MODEL):
        count = length // period + 1
        if count < least:
            return None
        copies = Copies(graph.nodes, start, period, count)
        copies.count = _agreeing(copies)
        if copies.count >= least:
            _describe(copies)
            return copies
        start, length = start + period, length - period
    return None


def _steps(copies: Copies, q: int) -> list[tuple[int, int, int] | Value]:
    """For each input of node ``q`` of the model: (copies back, node, output), or the value from outside."""
    out: list[tuple[int, int, int] | Value] = []
    for v in copies.node(MODEL, q).inputs:
        found = copies.found(v)
        out.append(v if found is None else (MODEL - found[0], *found[1:]))
    return out


def _agreeing(copies: Copies) -> int:
    """How many copies, from the first one on, are like the model."""
    steps = [_steps(copies, q) for q in range(copies.period)]
    for k in range(copies.count):
        if not all(_agrees(copies, k, q, steps[q]) for q in range(copies.period)):
            return k
    return copies.count


def _agrees(copies: Copies, k: int, q: int, steps: Sequence) -> bool:
    for v, step in zip(copies.node(k, q).inputs, steps, strict=True):
        if isinstance(step, Value):
            if v is not step:
                return False
            continue
        found, back = copies.found(v), step[0]
        if found != (k - back, *step[1:]) if k >= back else found is not None:
            return False
    number = number_of(copies.node(k, q))
    if not isinstance(number, int):
        return True
    before, at = (number_of(copies.node(i, q)) for i in (MODEL - 1, MODEL))
    return number == at + (k - MODEL) * (at - before)


def _describe(copies: Copies) -> None:
    for q in range(copies.period):
        uses: list[Use] = []
        for i, step in enumerate(_steps(copies, q)):
            if isinstance(step, Value):
                uses.append(Outside(step))
            elif step[0] == 0:
                uses.append(Own(*step[1:]))
            else:
                starts = (copies.node(k, q).inputs[i] for k in reversed(range(step[0])))
                uses.append(Back(*step[1:], tuple(starts)))
        copies.uses.append(uses)
        numbers = (number_of(copies.node(k, q)) for k in range(copies.count))
        copies.numbers.append([x for x in numbers if x is not None])
