"""Whole numbers that a loop carries, for proofs of sizes in its body (``symbols.proofs``).

In an iteration the test of the loop holds. Where a proof needs it, a number is supposed not to shrink, or not to grow, while the body is traced: most count.
Where a slice had no known size, the body is traced once more with what the first time has shown: by how much numbers change in each iteration, and between which ends
they stay. All that is proved at the end of the body, of what the iteration leaves; where it is not, the body is traced once more without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..graph.ir import Value
from ..graph.types import INT, TensorType
from ..inference.shapes import SYMBOLS
from ..recording.tracing import recording
from ..symbols import affine
from ..symbols.funcgraph import FuncGraph
from ..symbols.journal import Location as Place
from ..symbols.limits import limits
from ..symbols.proofs import LoopFacts, Numbers
from ..symbols.symbolic import SymTensor
from .joining import as_value
from .regions import Region, replayed, structure_argument

if TYPE_CHECKING:
    from .loop_regions import StateRegion


class NumberState:
    """The numbers of one search for the state of a loop. ``doubted``: places whose number grows (-1) or shrinks (1) in some iteration.

    ``steps`` and ``ranges``: see ``LoopFacts``, by place.
    """

    def __init__(self) -> None:
        self.doubted: set[tuple[Any, int]] = set()
        self.steps: dict[Any, int] = {}
        self.ranges: dict[Any, tuple[int, int]] = {}
        self.learned = False
        self.cond: StateRegion | None = None
        self.places: dict[Value, Place] = {}

    def tested(self, cond: StateRegion) -> None:
        """The test was traced: the body comes next."""
        self.cond = cond

    def begin(self, graph: FuncGraph) -> None:
        """``graph`` is that of the body."""
        self.places = {}
        graph.loop = LoopFacts()

    def enter(self, graph: FuncGraph, place: Place, entry: Any, value: Value) -> None:
        """A place has the state ``value`` in the body, which began as ``entry``."""
        number = _number(entry)
        if number is None or not _counts(value):
            return
        self.places[value] = place
        graph.loop.entries[value] = number
        if place.key in self.steps:
            graph.loop.steps[value] = self.steps[place.key]
        if place.key in self.ranges:
            graph.loop.ranges[value] = self.ranges[place.key]
        graph.loop.doubted |= {(value, s) for s in (1, -1) if (place.key, s) in self.doubted}

    def opened(self, graph: FuncGraph) -> None:
        """The body has all of its state."""
        cond = self.cond
        if cond is None or isinstance(cond.result, bool):
            return
        with recording(cond.graph):
            graph.loop.test = structure_argument(cond.result, cond.graph)
        graph.loop.cond, graph.loop.lead = cond.graph, graph.graph.inputs[: cond.lead]

    def doubts(self, loop: Region) -> bool:
        """Whether the body has to be traced again: numbers do not do what they were supposed to, or more is known of them now."""
        if loop.raised:
            return False
        facts = loop.graph.loop
        numbers = Numbers(loop.graph)
        left = {v: numbers.sum(n) for v in self.places if (n := self._left(loop, v)) is not None}
        wrong = False
        for value, sign in facts.supposed:
            if not (value in left and numbers.proves((left[value] - numbers.sum(value)).times(sign))):  # fmt: skip
                wrong = True
                self.doubted.add((self.places[value].key, sign))
        for value in (*facts.steps, *facts.ranges):
            if not (value in left and self._as_learned(numbers, value, left[value])):
                wrong = True
                self.steps.clear()
                self.ranges.clear()
        return wrong or (bool(facts.wanted) and self._learns(loop, numbers, left))

    def _left(self, loop: Region, value: Value) -> Any:
        """What an iteration leaves in the place of a state."""
        with replayed(loop):
            return _number(as_value(loop.content(self.places[value])))

    def _as_learned(self, numbers: Numbers, value: Value, left: affine.Affine) -> bool:
        key = self.places[value].key
        if key in self.steps and left - numbers.sum(value) != affine.constant(self.steps[key]):
            return False
        low, high = self.ranges.get(key, (0, 0))
        least, most = (affine.constant(n) for n in (low, high))
        return key not in self.ranges or (numbers.proves(left - least) and numbers.proves(most - left))  # fmt: skip

    def _learns(self, loop: Region, numbers: Numbers, left: dict[Value, affine.Affine]) -> bool:
        """Whether the first trace of the body shows more of numbers that a slice is made of."""
        if self.learned:
            return False
        self.learned = True
        for value, form in left.items():
            change = form - numbers.sum(value)
            if not change.terms:
                self.steps[self.places[value].key] = change.constant
            elif (found := _between(numbers, loop.graph.loop.entries[value], form)) is not None:
                self.ranges[self.places[value].key] = found
        wanted = {self.places[v].key for v in loop.graph.loop.wanted if v in self.places}
        return bool(wanted & self.ranges.keys()) or (len(self.steps) > 1 and bool(wanted & self.steps.keys()))  # fmt: skip


def _between(numbers: Numbers, entry: Any, left: affine.Affine) -> tuple[int, int] | None:
    """Between which numbers a state may stay that begins as ``entry``: an end that what an iteration leaves does not tell is that of the entry."""
    first, last = limits(numbers, numbers.sum(entry))
    low, high = limits(numbers, left)
    if first is None or last is None or low is high is None:
        return None
    return min(first, first if low is None else low), max(last, last if high is None else high)


def _counts(value: Value) -> bool:
    kind = value.type
    return kind == INT or (
        isinstance(kind, TensorType) and kind.dtype is torch.int64 and kind.shape == ()
    )


def _number(x: Any) -> Any:
    """A number as it stands in a graph; None for what is none."""
    if type(x) is int:
        return x
    if isinstance(x, SYMBOLS):
        return x.node.constant_ if x.node.ref is None else x.node.ref.value
    if isinstance(x, SymTensor) and not x.chain and x.storage_.ref is not None:
        return x.storage_.ref.value
    return None
