"""By which inputs a run lets gradients through: what ``requires_grad`` and ``.grad is None`` are of a result in eager PyTorch.

``dependences`` says what a result may depend on. Which branch ran, and whether a loop had an iteration, only the run knows, and where
the path to an input was not taken eager PyTorch has no gradient there: not zeros, None. ``paths`` makes a graph tell: a
**way** is True, or a bool of the graph that says whether an output depends on an input. Nodes with regions get the
ways through them as further outputs, and loops as state; where the regions agree there is nothing to tell.

What goes through a list depends on all that is in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from ..graph.counting import step_of
from ..graph.ir import Graph, Node, Value
from ..graph.ordering import always_fails
from ..graph.rewrite import add_state, lead
from ..graph.types import BOOL
from ..symbols.carrier import differentiable
from .dependence import CELL, dependences, output_dependences, stops
from .graphs import append

Way = bool | Value
Ways = dict[int, Way]  # by input; those that are not there are False


LEAF = 2**62  # stands, as an input, for the leaves that a graph and its regions make
FREED = LEAF + 1  # the same for what a gradient has freed


def paths(
    graph: Graph,
    wanted: Sequence[int],
    inputs: Collection[int],
    gradients: bool = False,
    leaves: Collection[Value] = (),
) -> list[Ways]:
    """The ways from ``inputs`` to each of the outputs ``wanted``; the graph computes those that only the run knows.

    ``gradients``: those by which gradients come back. One of the user's own that is None requires grad all the same. ``leaves``: the values, here and in regions,
    that are leaves, of which the ways are told as that of an input ``LEAF``, also where the history was freed.
    """
    return _ways_to(wanted, inputs, Terms(graph, gradients, leaves))


def _ways_to(wanted: Sequence[int], inputs: Collection[int], terms: Terms) -> list[Ways]:
    graph = terms.graph
    known = _found(terms, needed_for(graph, [graph.outputs[k] for k in wanted]), inputs)
    return [known.get(graph.outputs[k], {}) for k in wanted]


def ways_within(
    terms: Terms, needed: Collection[Value] | None = None, known: dict[Value, Ways] | None = None
) -> dict[Value, Ways]:
    """The ways to all values of a graph, or those ``needed``, from the leaves that it makes. ``known``: those to its inputs."""
    if needed is None:
        needed = {v for n in terms.graph.nodes for v in n.outputs}
    return _found(terms, needed, (), known)


def _found(
    terms: Terms,
    needed: Collection[Value],
    inputs: Collection[int],
    given: dict[Value, Ways] | None = None,
) -> dict[Value, Ways]:
    """The ways to the values of a graph that are ``needed``."""
    graph = terms.graph
    known: dict[Value, Ways] = dict(given or {})
    known |= {
        graph.inputs[i]: {i: True}
        for i in inputs
        if i < LEAF and differentiable(graph.inputs[i].type)
    }
    for node in list(graph.nodes):
        places = [k for k, v in enumerate(node.outputs) if v in needed and differentiable(v.type)]
        if places and node.op == CELL:
            known[node.outputs[0]] = {
                i: True for i in inputs if i < LEAF or (i == LEAF and terms.kept)
            }
        elif places and not stops(node):
            before = terms.before.get(node, ())
            then = {v: ways for v, ways in known.items() if v not in before} if before else known
            for k, ways in zip(places, through(node, places, then, terms), strict=True):
                known[node.outputs[k]] = ways
        known |= {v: _of_leaf(v, known) for v in node.outputs if v in terms.leaves}
        for v in node.outputs if terms.freed else ():
            if known.get(v) and v in terms.freed:
                terms.add(known[v], True, {FREED: terms.freed[v]})
    return known


def _of_leaf(value: Value, known: Mapping[Value, Ways]) -> Ways:
    """The ways to a leaf that a node gives: one that is written in place, here or in a region, stays what it was, also where that is an input."""
    node = value.node
    assert node is not None
    if node.op == "tg.written":
        value = node.args[0]
    elif not node.regions:
        return {LEAF: True}
    return {**known.get(value, {}), LEAF: True}


class Terms:
    """Ways of one graph put together; what is the same is computed once. ``before``: by node the leaves that it used when they were none.

    ``kept``: whether the body of a ``try`` may have made a leaf, so that what it held when it failed may lead to one. ``freed``: the values, here and in regions, that a gradient
    has freed, each with the way of that in its graph: what leads to one and on to an input has its way as that of an input ``FREED``.
    """

    def __init__(
        self,
        graph: Graph,
        gradients: bool = False,
        leaves: Collection[Value] = (),
        before: Mapping[Node, Collection[Value]] = MappingProxyType({}),
        kept: bool = True,
        freed: Mapping[Value, Way] = MappingProxyType({}),
    ):
        self.graph, self.gradients, self.leaves, self.before = graph, gradients, leaves, before
        self.kept, self.freed = kept, freed
        self.made: dict[tuple, Value] = {}

    def within(self, region: Graph) -> Terms:
        """The same for a region."""
        return Terms(region, self.gradients, self.leaves, kept=self.kept, freed=self.freed)

    def op(self, op: str, *args: Value | int) -> Value:
        if (op, *args) not in self.made:
            self.made[op, *args] = append(self.graph, op, *args, type=BOOL)
        return self.made[op, *args]

    def either(self, a: Way, b: Way) -> Way:
        if not isinstance(a, Value) or not isinstance(b, Value):
            return True if a is True or b is True else (a or b)
        return a if a is b else self.op("py.or_", a, b)

    def both(self, a: Way, b: Way) -> Way:
        if not isinstance(a, Value) or not isinstance(b, Value):
            return False if a is False or b is False else (b if a is True else a)
        return a if a is b else self.op("py.and_", a, b)

    def any(self, ways: Iterable[Way]) -> Way:
        total: Way = False
        for way in ways:
            total = self.either(total, way)
        return total

    def value(self, way: Way) -> Value:
        return way if isinstance(way, Value) else self.op("py.constant", way)

    def add(self, total: Ways, through: Way, ways: Ways) -> None:
        """Add the ways of something that is reached by ``through``."""
        for i, way in ways.items():
            found = self.either(total.get(i, False), self.both(through, way))
            if found is not False:
                total[i] = found


def needed_for(graph: Graph, ends: Sequence[Value]) -> set[Value]:
    """The values that ``ends`` may depend on."""
    needed = set(ends)
    for node in reversed(graph.nodes):
        places = [k for k, v in enumerate(node.outputs) if v in needed]
        if places and not stops(node):
            needed |= _used(node, places)
    return needed


def _used(node: Node, places: Sequence[int]) -> set[Value]:
    if not node.regions:
        return set(node.inputs)
    known = {v: frozenset([i]) for i, v in enumerate(dict.fromkeys(node.inputs))}
    values, found = list(known), output_dependences(node, known)
    return {values[i] for k in places for i in found[k]}


def through(
    node: Node, places: Sequence[int], known: dict[Value, Ways], terms: Terms
) -> list[Ways]:
    """The ways to the outputs ``places`` of a node."""
    if node.op == "While":
        return _loop(node, places, known, terms)
    if node.regions and "gradient" not in node.regions:
        return _choice(node, places, known, terms)
    total: Ways = {}
    if node.op == "tg.choose" and isinstance(node.args[0], Value):
        for k, option in enumerate(node.args[1]):
            if known.get(option):
                terms.add(total, terms.op("py.eq", node.args[0], k), known[option])
        return [total]
    inputs = node.inputs
    if node.regions:
        inputs = [node.args[lead(node) + i] for i in node.kwargs["wrt"]]
        if terms.gradients and "none" in node.kwargs:
            return [_by_user(node, j, inputs, known, terms) for j in places]
    for v in dict.fromkeys(inputs):
        terms.add(total, True, known.get(v, {}))
    return [total] * len(places)


def _by_user(node: Node, j: int, inputs: Sequence[Value], known: dict[Value, Ways], terms: Terms) -> Ways:  # fmt: skip
    """The ways by which a cotangent of output ``j`` goes through a gradient of the user's own."""
    total: Ways = {}
    for v in dict.fromkeys(v for k, v in enumerate(inputs) if (j, k) not in node.kwargs["none"]):
        terms.add(total, True, known.get(v, {}))
    return total


def _outer(node: Node, known: dict[Value, Ways], terms: Terms) -> dict[int, Ways]:
    """The ways to the inputs of a node's regions, by position."""
    args = node.args[lead(node) :]
    found = {i: known[a] for i, a in enumerate(args) if isinstance(a, Value) and known.get(a)}
    made = {LEAF: terms.leaves, FREED: terms.freed}
    return found | {i: {i: True} for i, some in made.items() if some}


def _choice(
    node: Node, places: Sequence[int], known: dict[Value, Ways], terms: Terms
) -> list[Ways]:
    outer = _outer(node, known, terms)
    # a region that always fails leads to no output
    found = [
        [None] * len(places) if always_fails(r) else _ways_to(places, outer, terms.within(r))
        for r in node.regions.values()
    ]
    told: dict[tuple[Way | None, ...], Value] = {}
    results: list[Ways] = []
    for rows in zip(*found, strict=True):
        results.append(total := {})
        for j in sorted({j for row in rows for j in row or ()}):
            ways = tuple(None if row is None else row.get(j, False) for row in rows)
            terms.add(total, taken(node, ways, told, terms), outer[j])
    return results


def taken(
    node: Node,
    ways: tuple[Way | None, ...],
    told: dict[tuple[Way | None, ...], Value],
    terms: Terms,
) -> Way:
    """Whether the region that ran has a way, from those that each of them has."""
    if all(way is True or way is None for way in ways):
        return True
    if node.op == "If" and not any(isinstance(way, Value) for way in ways):
        first = terms.op("py.bool", node.args[0])
        return first if ways[0] else terms.op("py.not", first)
    if ways not in told:
        for region, way in zip(node.regions.values(), ways, strict=True):
            region.outputs = [*region.outputs, Terms(region).value(way or False)]
        told[ways] = Value(BOOL, node, len(node.outputs))
        node.outputs.append(told[ways])
    return told[ways]


# --- loops: whether the state depends on something is state itself, unless it is the same before and after any iteration

# By place of the state: whether it depends on a source; None: the run knows.
_Column = dict[int, bool | None]


def _loop(node: Node, places: Sequence[int], known: dict[Value, Ways], terms: Terms) -> list[Ways]:
    carried, body, outer = node.kwargs["carried"], node.regions["body"], _outer(node, known, terms)
    state = closed(node, places)
    entering = {*state, *(p for p in outer if p >= carried)}
    steps = dict(zip(state, _ways_to(state, entering, terms.within(body))))
    sources: dict[tuple, list[int]] = {}  # what enters the state in the same way is one source
    for p in outer:
        if p in state:
            sources["state", p] = [p]
        elif p >= carried:
            sources.setdefault(tuple(steps[k].get(p, False) for k in state), []).append(p)
    loop = Loop(node, steps, terms)
    ends = [(inputs, loop.ways(inputs[0])) for inputs in sources.values()]
    loop.finish()
    results: list[Ways] = []
    for k in places:
        results.append(total := {})
        for inputs, ways in ends:
            for p in inputs:
                terms.add(total, ways[k], outer[p])
    return results


def closed(node: Node, places: Sequence[int]) -> list[int]:
    """The state that the outputs ``places`` may depend on."""
    carried, depends = node.kwargs["carried"], dependences(node.regions["body"])
    state, todo = set(places), list(places)
    while todo:
        more = {i for i in depends[todo.pop()] if i < carried} - state
        state |= more
        todo += more
    return sorted(state)


class Loop:
    """``steps``: the ways of one iteration, for each place of the state from the inputs of the body."""

    def __init__(self, node: Node, steps: dict[int, Ways], terms: Terms):
        self.node, self.steps, self.outside = node, steps, terms
        self.carried: int = node.kwargs["carried"]
        self.inside = Terms(node.regions["body"])
        self.starts: list[bool] = []
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.ends: list[Value] = []

    def ways(self, source: int) -> Ways:
        """For each place of the state whether it depends on an input of the loop where the loop ends."""
        return self.both(source, True)[1]

    def both(self, source: int, count: bool) -> tuple[Ways, Ways]:
        """The ways where an iteration begins, and where the loop ends. ``count``: by the number of iterations, where that says it."""
        known, early = self._settled(source)
        inner: Ways = {k: way for k, way in known.items() if way is not None}
        outer = dict(inner)
        for k in (k for k, way in known.items() if way is None):
            if count and k in early and (some := self._iterations()) is not None:
                inner[k], outer[k] = some
            else:
                inner[k], outer[k] = Value(BOOL), Value(BOOL)
                self.starts.append(k == source)
                self.inputs.append(inner[k])
                self.ends.append(outer[k])
        for k, way in inner.items():
            if way in self.inputs:
                self.outputs.append(self.inside.value(self._next(k, source, inner)))
        return inner, outer

    def _next(self, k: int, source: int, now: Ways) -> Way:
        """Whether a place depends on a source after an iteration, from which ones do before."""
        terms = [self.inside.both(way, now[j]) for j, way in self.steps[k].items() if j in now]
        return self.inside.any([self._enters(k, source), *terms])

    def _enters(self, k: int, source: int) -> Way:
        return self.steps[k].get(source, False) if source >= self.carried else False

    def _settled(self, source: int) -> tuple[_Column, set[int]]:
        """What is the same after any number of iterations; and the places that depend on the source after each but not before."""
        column: _Column = {k: k == source for k in self.steps}
        while True:
            after = {k: self._abstract(k, source, column) for k in column}
            joined = {k: column[k] if column[k] is after[k] else None for k in column}
            if joined == column:
                break
            column = joined
        early = {k for k in column if k != source and self._enters(k, source) is True}
        return column, early

    def _abstract(self, k: int, source: int, now: _Column) -> bool | None:
        found: list[Way | None] = [self._enters(k, source)]
        for j, way in self.steps[k].items():
            if j in now and now[j] is not False:
                found.append(way if now[j] else None)
        if any(way is True for way in found):
            return True
        return False if all(way is False for way in found) else None

    def _iterations(self) -> tuple[Value, Value] | None:
        """Whether there were iterations, in the body and behind the loop, where the loop counts them."""
        body, node = self.node.regions["body"], self.node
        for i in range(self.carried):
            if step_of(node, i) == 1 and _is_zero(node.args[i]):
                behind = self.outside.op("py.gt", node.outputs[i], 0)
                return self.inside.op("py.gt", body.inputs[i], 0), behind
        return None

    def some(self, way: Way) -> Way:
        """Whether any iteration had a way of the body; it is told when the loop is finished."""
        if way is True and (told := self._iterations()) is not None:
            return told[1]
        before, end = Value(BOOL), Value(BOOL)
        self.starts.append(False)
        self.inputs.append(before)
        self.outputs.append(self.inside.value(self.inside.either(before, way)))
        self.ends.append(end)
        return end

    def finish(self) -> None:
        """Make what is told the loop's state."""
        node, nodes = self.node, self.outside.graph.nodes
        at = nodes.index(node) if node in nodes else len(nodes)
        starts = [
            Node("py.constant", (x,), {}, [BOOL], location=node.location) for x in self.starts
        ]
        nodes[at:at] = starts
        begin = [n.outputs[0] for n in starts]
        for end, made in zip(self.ends, add_state(node, self.inputs, self.outputs, begin)):
            node.outputs[made.index] = end
            end.node, end.index = node, made.index


def _is_zero(x: Value) -> bool:
    return x.node is not None and x.node.op == "py.constant" and x.node.args == (0,)
