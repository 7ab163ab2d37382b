"""Which arithmetic of a plan cannot fail: intervals of Python's ints, by abstract interpretation.

A kernel that may fail has an error code, and after the run the host has to wait and look at it. Most numbers of loops are counters
and lengths, of which intervals show that they stay inside 64 bits, and inside the tensors and lists that they index.

Every int has an interval. A loop's state that an iteration changes by a known amount has the interval of its start, moved by
that amount times the number of iterations, which follows from a condition such as ``i < n``; where none is known it is
``FOREVER``: more iterations than a GPU makes in days, so that what grows by a little in each stays inside 64 bits. Other
state may be anything of 64 bits. The condition of a loop or branch narrows the intervals inside (P. and R. Cousot, "Abstract interpretation", 1977).

``safe(graph, starts)`` gives the nodes that surely do not fail.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..graph.families import CONJUNCTIONS, MIRRORED, OPPOSITE, TRUTHS
from ..graph.ir import Graph, Node, Value
from ..graph.types import BOOL, INT, TensorType
from .nested_items import NESTED, SCATTER, part_shape

Interval = tuple[int, int]
LEAST, MOST = -(1 << 63), (1 << 63) - 1
ANY: Interval = (LEAST, MOST)
EXACT = 1 << 53  # ints up to here are floats
FOREVER = 1 << 50
SLOW = 1 << 12  # by which a number may change in each of so many steps
FAR = SLOW * FOREVER


def safe(graph: Graph, starts: dict[Value, Interval]) -> set[Node]:
    """The nodes that surely do not fail. ``starts``: what is known of the inputs."""
    work = _Ranges()
    work.env.update(starts)
    work.graph(graph)
    return work.checked - work.failing


def join(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), max(a[1], b[1])


def meet(a: Interval, b: Interval) -> Interval:
    """Both at once; what cannot be is left as it was."""
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else a


class _Ranges:
    """``env``: the intervals; ``failing``: nodes that may fail as far as the last visit of each tells."""

    def __init__(self) -> None:
        self.env: dict[Value, Interval] = {}
        self.given: dict[Value, Value] = {}  # what stands outside of a branch for its inputs
        self.checked: set[Node] = set()
        self.failing: set[Node] = set()

    def of(self, a: Any) -> Interval:
        if isinstance(a, Value):
            return self.env.get(a, (0, 1) if a.type == BOOL else ANY)
        return (int(a), int(a)) if isinstance(a, (bool, int)) else ANY

    def check(self, node: Node, good: bool) -> None:
        self.checked.add(node)
        (self.failing.discard if good else self.failing.add)(node)

    def graph(self, graph: Graph) -> None:
        for node in graph.nodes:
            if node.op == "While":
                self._while(node)
            elif node.op == "If":
                self._if(node)
            elif node.regions:
                self._regions(node)
            elif node.op in _ITEMS:
                self._item(node)
            elif node.op == "py.int":
                self.env[node.outputs[0]] = _whole(node.args[0], self.of(node.args[0]))
            elif (rule := _RULES.get(node.op)) is not None:
                found, good = rule(*map(self.of, node.args))
                self.check(node, good)
                self.env[node.outputs[0]] = meet(ANY, found) if found[0] <= MOST and found[1] >= LEAST else ANY  # fmt: skip

    def _item(self, node: Node) -> None:
        """``x[..., n, ...]``, read or written."""
        *before, d, index = node.args
        kind = node.args[0].type
        if not isinstance(kind, TensorType) or not kind.shape or not isinstance(index, Value):
            return
        shape = part_shape(kind.shape, before[2]) if node.op == NESTED else kind.shape
        size, (low, high) = shape[d % len(shape)] or 0, self.of(index)
        self.check(node, -size <= low and high < size)

    # ---- branches

    def _regions(self, node: Node) -> None:
        """A region op of which nothing is known."""
        for region in node.regions.values():
            for v in region.inputs:
                self.env.pop(v, None)
            self.graph(region)

    def _if(self, node: Node) -> None:
        predicate, *given = node.args
        ends = []
        for name, truth in (("then", True), ("orelse", False)):
            region = node.regions[name]
            self.given |= {v: a for v, a in zip(region.inputs, given) if isinstance(a, Value)}
            facts = dict(self.facts(predicate, truth))
            for v, a in zip(region.inputs, given):
                self.env[v] = meet(self.of(a), facts.get(self.root(a), ANY)) if isinstance(a, Value) else self.of(a)  # fmt: skip
            self.graph(region)
            ends.append([self.of(v) for v in region.outputs])
        for v, a, b in zip(node.outputs, *ends):
            self.env[v] = join(a, b)

    # ---- what a condition tells

    def root(self, a: Any) -> Any:
        """What was given to a branch for an input of it."""
        while isinstance(a, Value) and a in self.given:
            a = self.given[a]
        return a

    def facts(self, test: Any, truth: bool) -> Iterator[tuple[Value, Interval]]:
        """Intervals of values where a condition is ``truth``."""
        test = self.root(test)
        node = test.node if isinstance(test, Value) else None
        if node is None:
            return
        if node.op in _SAME_TRUTH:
            yield from self.facts(node.args[0], truth)
        elif node.op == "py.not":
            yield from self.facts(node.args[0], not truth)
        elif truth and node.op in CONJUNCTIONS:
            for a in node.args:
                yield from self.facts(a, True)
        elif node.op in _ORDERS:
            yield from self._ordered(node, truth)
        elif truth and node.op in ("If", "aten.where.self", "py.eq"):
            yield from self._chosen(node, test)

    def _chosen(self, node: Node, test: Value) -> Iterator[tuple[Value, Interval]]:
        """What holds on each side of a choice that may have given True, or a certain number."""
        wanted: Any = True
        if node.op == "py.eq":  # of a number that a choice gave
            chosen, wanted = self.root(node.args[0]), node.args[1]
            test, node = chosen, chosen.node if isinstance(chosen, Value) else None
            if node is None or node.op != "If" or type(wanted) is not int:
                return
        predicate, *sides = node.args
        if node.op == "If":
            sides = [node.regions[r].outputs[test.index] for r in ("then", "orelse")]
        found = []
        for side, truth in zip(sides, (True, False)):
            constant = _constant(self.root(side))
            if wanted is True and self.root(side) is self.root(predicate):
                constant = truth  # what `a and b` and `a or b` give of their first operand
            if constant is not None and constant != wanted:
                continue
            facts: dict[Value, Interval] = {}
            for v, fact in (*self.facts(predicate, truth), *(self.facts(side, True) if wanted is True else ())):  # fmt: skip
                facts[v] = meet(facts.get(v, ANY), fact)
            found.append(facts)
        for v in found[0] if found else ():
            if all(v in f for f in found):
                yield v, (min(f[v][0] for f in found), max(f[v][1] for f in found))

    def _ordered(self, node: Node, truth: bool) -> Iterator[tuple[Value, Interval]]:
        a, b = node.args
        word = _ORDERS[node.op] if truth else OPPOSITE[_ORDERS[node.op]]
        if word in ("gt", "ge"):
            a, b, word = b, a, MIRRORED[word]
        gap = word == "lt"
        if not all(isinstance(x, int) or (isinstance(x, Value) and x.type == INT) for x in (a, b)):
            return
        if isinstance(a, Value):
            yield self.root(a), (LEAST, self.of(b)[1] - gap)
        if isinstance(b, Value):
            yield self.root(b), (self.of(a)[0] + gap, MOST)

    # ---- loops

    def _while(self, node: Node) -> None:
        cond, body = node.regions["cond"], node.regions["body"]
        carried = node.kwargs["carried"]
        start = [self.of(a) for a in node.args]
        before = [*(ANY for _ in range(carried)), *start[carried:]]
        self._enter(cond, body, before)
        self.graph(body)  # whatever the state is: what an iteration adds to it
        steps = [self._change(v, x) for v, x in zip(body.outputs, body.inputs)]
        trips = self._trips(cond, start, steps, carried)
        ends = [ANY] * carried
        for k, step in enumerate(steps):
            if step is not None:
                before[k] = _moved(start[k], step, max(trips - 1, 0))
                ends[k] = _moved(start[k], step, trips)
        self._enter(cond, body, before)
        self.graph(body)
        for k, step in enumerate(steps):
            if step is None:
                ends[k] = join(start[k], self.of(body.outputs[k]))
        self._set(cond.inputs, [*ends, *start[carried:]])  # the condition sees the last state too
        self.graph(cond)
        self._set(node.outputs, ends)

    def _set(self, values: Sequence[Value], found: Sequence[Interval]) -> None:
        for v, interval in zip(values, found):
            if v.type in (INT, BOOL):
                self.env[v] = interval

    def _enter(self, cond: Graph, body: Graph, found: Sequence[Interval]) -> None:
        """The state as it is when an iteration begins: the condition holds."""
        self._set(cond.inputs, found)
        self.graph(cond)
        facts: dict[Value, Interval] = {}
        for v, fact in self.facts(cond.outputs[0], True):
            facts[v] = meet(facts.get(v, ANY), fact)
        self._set(body.inputs, [meet(f, facts.get(v, ANY)) for v, f in zip(cond.inputs, found)])

    def _change(self, v: Value, base: Value) -> Interval | None:
        """By how much a value differs from another one that it is made of; None where that is not known.

        ``FAR`` stands for many small steps.
        """
        found = self._difference(v, base)
        if found is not None and any(FOREVER <= abs(x) < FAR for x in found):
            return None
        return found

    def _difference(self, v: Value, base: Value) -> Interval | None:
        if v is base:
            return 0, 0
        node = v.node if v.type == INT else None
        if node is None:
            return None
        if node.op in ("py.add", "py.sub"):
            return self._sum(node, base)
        if node.op in ("py.room", "py.cell", "tg.identity"):
            return self._change(node.args[0], base)
        if node.op == "If":
            sides = [self._through(g, g.outputs[v.index], node.args[1:], base) for g in node.regions.values()]  # fmt: skip
            return None if None in sides else join(*sides)
        if node.op == "While":
            return self._repeated(node, v.index, base)
        return None

    def _sum(self, node: Node, base: Value) -> Interval | None:
        a, b = node.args
        if node.op == "py.add" and not isinstance(a, Value):
            a, b = b, a
        change = self._change(a, base) if isinstance(a, Value) else None
        low, high = self.of(b)
        if change is None or max(-low, high) >= FOREVER:
            return None
        return (change[0] + low, change[1] + high) if node.op == "py.add" else (change[0] - high, change[1] - low)  # fmt: skip

    def _through(self, region: Graph, v: Value, given: Sequence[Any], base: Value) -> Interval | None:  # fmt: skip
        """A change inside of a region, and that of what was given to it."""
        for inside, a in zip(region.inputs, given):
            inner = self._change(v, inside) if isinstance(a, Value) and inside.type == INT else None
            outer = self._change(a, base) if inner is not None else None
            if inner is not None and outer is not None:
                return inner[0] + outer[0], inner[1] + outer[1]
        return None

    def _repeated(self, node: Node, k: int, base: Value) -> Interval | None:
        cond, body, given = node.regions["cond"], node.regions["body"], node.args[k]
        outer = self._change(given, base) if isinstance(given, Value) else None
        step = self._change(body.outputs[k], body.inputs[k]) if outer is not None else None
        if outer is None or step is None:
            return None
        steps = [self._change(v, x) for v, x in zip(body.outputs, body.inputs)]
        trips = self._trips(cond, [self.of(a) for a in node.args], steps, node.kwargs["carried"])
        low, high = _moved((0, 0), step, trips)
        return outer[0] + low, outer[1] + high

    def _trips(self, cond: Graph, start: Sequence[Interval], steps: Sequence[Interval | None], carried: int) -> int:  # fmt: skip
        """How often a loop runs at most."""
        place = {v: k for k, v in enumerate(cond.inputs)}
        found = FOREVER
        self._set(cond.inputs, [*(ANY for _ in range(carried)), *start[carried:]])
        self.graph(cond)
        for v, (low, high) in self.facts(cond.outputs[0], True):
            k = place.get(v, carried)
            step = steps[k] if k < carried else None
            if step is None:
                continue
            if step[0] > 0 and high < MOST:
                found = min(found, max(-(-(high - start[k][0] + 1) // step[0]), 0))
            if step[1] < 0 and low > LEAST:
                found = min(found, max(-(-(start[k][1] - low + 1) // -step[1]), 0))
        return found


def _moved(start: Interval, step: Interval, times: int) -> Interval:
    """Where a number is after up to ``times`` steps."""
    low, high = min(step[0], 0), max(step[1], 0)
    if times >= FOREVER or max(-low, high) >= FOREVER:
        slow = max(-low, high) <= SLOW or FAR <= max(-low, high) < 2 * FAR
        return (start[0] - FAR * (low < 0), start[1] + FAR * (high > 0)) if slow else ANY
    return start[0] + times * low, start[1] + times * high


def _constant(v: Any) -> Any:
    """The number or truth value that a value always is; None where that is not known."""
    node = v.node if isinstance(v, Value) else None
    if node is not None and node.op in ("py.constant", "aten.scalar_tensor.default") and not isinstance(node.args[0], Value):  # fmt: skip
        return node.args[0]
    if node is not None and node.op == "aten.zeros.default":
        return False
    return v if isinstance(v, (bool, int)) else None


# ---- ops

_POSITIONS = frozenset(["aten.argmax.default", "aten.argmin.default"])


def _whole(x: Any, known: Interval) -> Interval:
    """The interval of an element of a tensor as a number."""
    node = x.node if isinstance(x, Value) else None
    while node is not None and node.op in _ELEMENTS:
        node = node.args[0].node
    if node is None or node.op not in _POSITIONS or not isinstance(node.args[0].type, TensorType):
        return known
    shape = node.args[0].type.shape or ()
    d = node.args[1] if len(node.args) > 1 else None
    count = math.prod(n or MOST for n in shape) if d is None else shape[d] or MOST
    return 0, max(count - 1, 0)


_ELEMENTS = frozenset(["aten.select.int", "aten.view.default", "aten.squeeze.default", "tg.identity"])  # fmt: skip
_ITEMS = frozenset(["aten.select.int", SCATTER, NESTED])
_SAME_TRUTH = (*TRUTHS, "tg.identity")
_ORDERS = {f"py.{word}": word for word in MIRRORED}
_Rule = Callable[..., tuple[Interval, bool]]


def _fits(low: int, high: int) -> tuple[Interval, bool]:
    inside = low >= LEAST and high <= MOST
    return ((low, high) if inside else ANY), inside


def _times(a: Interval, b: Interval) -> tuple[Interval, bool]:
    """The kernels' products are exact for factors of 32 bits."""
    ends = [x * y for x in a for y in b]
    small = all(-(1 << 31) <= x < 1 << 31 for x in (*a, *b))
    return (min(ends), max(ends)) if small else ANY, small


def _quotient(a: Interval, b: Interval) -> tuple[Interval, bool]:
    ends = [x // y for x in a for y in b] if b[0] > 0 else [*ANY]
    return (min(ends), max(ends)), b[0] > 0


def _length(start: Interval, stop: Interval, step: Interval = (1, 1)) -> tuple[Interval, bool]:
    most = -(-(stop[1] - start[0]) // step[0]) if step[0] == step[1] > 0 else MOST
    return (0, min(max(most, 0), MOST)), True


_RULES: dict[str, _Rule] = {
    "py.constant": lambda a: (a, True),
    "py.add": lambda a, b: _fits(a[0] + b[0], a[1] + b[1]),
    "py.sub": lambda a, b: _fits(a[0] - b[1], a[1] - b[0]),
    "py.neg": lambda a: _fits(-a[1], -a[0]),
    "py.abs": lambda a: _fits(max(a[0], -a[1], 0), max(-a[0], a[1])),
    "py.mul": _times,
    "py.truediv": lambda a, b: (ANY, max(map(abs, (*a, *b))) <= EXACT and (b[0] > 0 or b[1] < 0)),
    "py.min": lambda a, b: ((min(a[0], b[0]), min(a[1], b[1])), True),
    "py.max": lambda a, b: ((max(a[0], b[0]), max(a[1], b[1])), True),
    "py.floordiv": _quotient,
    "py.mod": lambda a, b: ((0, b[1] - 1) if b[0] > 0 else ANY, b[0] > 0),
    "py.range_length": _length,
    "py.position": lambda i, n: ((0, max(n[1] - 1, 0)), -n[0] <= i[0] and i[1] < n[0]),
    "py.cell": lambda i, n: ((max(i[0], 0), max(min(i[1], n[1] - 1), 0)), i[0] >= 0 and i[1] < n[0]),
    "py.room": lambda i, n: ((max(i[0], 0), max(min(i[1], n[1] - 1), 0)), i[1] < n[0]),
    "py.slice_stop": lambda i, n: ((0, max(n[1], 0)), True),
}  # fmt: skip
