"""Whether a run's result depends on an input by the items of lists that it reads: ``xs = [y]``, ``xs.append(y * x)``, and then ``xs[0]``.

``paths`` takes what is read from a list for computed of all that is in it. Where not all of it was computed of an input (``by_items``), and a result is of nothing else, the graph is made to tell: beside
each list there is one of bools that is filled, and changed, as the list is, and says of each item whether it was computed of the input. Each op that gives a list has one
beside it that gives its bools; a region gives them as a further output, a loop as state.

What is known while tracing of all paths together (``Led``) is no value: only what is computed of an item of which it is not known is one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..graph.families import ALTERNATIVES, ITEM_READS
from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.ordering import always_fails
from ..graph.rewrite import add_input, add_state, lead
from ..graph.types import BOOL, ListType, TensorType
from ..symbols.carrier import differentiable
from .by_items import IS, NOT, Led, led_to
from .dependence import CELL, stops
from .paths import Terms, Way, Ways, closed, needed_for

_FILLS = ("tg.list_new", "tg.list_of", "tg.list_push", "tg.list_set", "tg.list_insert", "tg.list_extend", "tg.list_slice")  # fmt: skip


class _NotFollowed(Exception):
    """A list is changed in a way that its bools are not."""


def by_items(graph: Graph, wanted: Sequence[int], found: Sequence[Ways]) -> list[Ways]:
    """``found``, the ways to the outputs ``wanted`` of a graph, with those that only the items of lists lead by told as the run has them."""
    if not any(n.op in ITEM_READS for n in all_nodes(graph)):
        return list(found)
    terms, told = Terms(graph), [dict(ways) for ways in found]
    for i in sorted({i for ways in found for i in ways}):
        ends = [k for k, ways in enumerate(found) if i in ways]
        values = [graph.outputs[wanted[k]] for k in ends]
        exact = _ItemWays(graph, graph.inputs[i]).of(values)
        for k, way in zip(ends, exact):
            told[k][i] = terms.both(found[k][i], way)
            if told[k][i] is False:
                del told[k][i]
    return told


class _ItemWays:
    """The ways from ``source`` by items. ``led``: what is known while tracing; ``told``: of tensors of which it is not known their bool, of lists the list of bools."""

    def __init__(self, graph: Graph, source: Value):
        self.graph = graph
        self.led: dict[Value, Led] = {v: IS if v is source else NOT for v in graph.inputs}
        self.told: dict[Value, Value] = {}

    def of(self, ends: Sequence[Value]) -> list[Way]:
        """Whether each of ``ends`` is computed of the source; True also where that is not followed."""
        known = dict(self.led)
        for node in self.graph.nodes:
            known.update(zip(node.outputs, led_to(node, known)))
        doubtful = [v for v in ends if isinstance(v.type, TensorType) and _is_open(known.get(v, NOT)) and known[v].listed]  # fmt: skip
        if doubtful:
            before = _content(self.graph)
            try:
                self._follow(self.graph, needed_for(self.graph, doubtful))
            except (
                _NotFollowed
            ):  # what it has added up to there may refer to state that was not made
                _put_back(*before)
                return [True] * len(ends)
        return [self.told[v] if v in doubtful else True for v in ends]

    def _follow(self, graph: Graph, needed: Collection[Value]) -> None:
        for node in list(graph.nodes):
            outs = [v for v in node.outputs if v in needed and differentiable(v.type)]
            if not outs:
                continue
            self.led.update(zip(node.outputs, led_to(node, self.led)))
            open_ = [v for v in outs if _is_list(v) or _is_open(self.led[v])]
            if not open_:
                continue
            if node.op == "While":
                self._loop(graph, node, open_)
            elif node.regions and "gradient" not in node.regions:
                self._choice(graph, node, open_)
            else:
                self._op(graph, node, open_)

    def _op(self, graph: Graph, node: Node, outs: Sequence[Value]) -> None:
        if node.op in ITEM_READS or node.op in _FILLS:
            args = [self._beside(graph, a) for a in node.args]
            kinds = [ListType(BOOL) if _is_list(v) else BOOL for v in node.outputs]
            made = Node(node.op, tuple(args), {}, kinds, location=node.location)
            self.told.update((v, made.outputs[v.index]) for v in outs)
        elif node.op == "tg.choose" and isinstance(node.args[0], Value):
            options = [self._beside(graph, a) for a in node.args[1]]
            made = Node(node.op, (node.args[0], options), {}, [options[0].type], location=node.location)  # fmt: skip
            self.told[outs[0]] = made.outputs[0]
        elif any(map(_is_list, outs)):
            raise _NotFollowed
        else:
            self.told.update(dict.fromkeys(outs, self._any(graph, node)))
            return
        graph.nodes.insert(graph.nodes.index(node) + 1, made)

    def _any(self, graph: Graph, node: Node) -> Value:
        """Whether one of a node's inputs is computed of the source: of a list that is taken as a whole, and what a ``try`` held, that is not asked."""
        inputs = node.inputs
        if node.regions:
            inputs = [node.args[lead(node) + i] for i in node.kwargs["wrt"]]
        inputs = [v for v in dict.fromkeys(inputs) if self.led.get(v, NOT).may]
        if stops(node) or not inputs:
            return _constant(graph, False)
        if node.op == CELL or any(_is_list(v) or v not in self.told for v in inputs):
            return _constant(graph, True)
        total = self.told[inputs[0]]
        at = graph.nodes.index(node) + 1
        for v in inputs[1:]:
            made = Node("py.or_", (total, self.told[v]), {}, [BOOL], location=node.location)
            graph.nodes.insert(at, made)
            at, total = at + 1, made.outputs[0]
        return total

    def _beside(self, graph: Graph, a: Any) -> Any:
        """What stands for an argument of an op of lists: its bools, for a tensor or list; else itself."""
        if not isinstance(a, Value) or not differentiable(a.type):
            return a
        return self._value(graph, a)

    def _value(self, graph: Graph, v: Value) -> Value:
        """What is told of a value, as a value."""
        if v in self.told:
            return self.told[v]
        if _is_list(v):
            raise _NotFollowed
        self.told[v] = _constant(graph, self.led.get(v, NOT).may)
        return self.told[v]

    def _enter(self, graph: Graph, node: Node, region: Graph, needed: Collection[Value], given: Sequence[Value]) -> None:  # fmt: skip
        """Say in a region what is told of what it takes from around it."""
        name = next(k for k, r in node.regions.items() if r is region)
        pairs = list(zip(node.args[lead(node) :], region.inputs))
        for a, v in pairs:
            if v in given:
                continue
            led = self.led.get(a, NOT) if isinstance(a, Value) else NOT
            self.led[v] = led
            asked = v in needed and isinstance(a, Value) and differentiable(v.type)
            if asked and (_is_list(v) or _is_open(led)):
                self.told[v] = add_input(node, self._value(graph, a))[name]

    def _choice(self, graph: Graph, node: Node, outs: Sequence[Value]) -> None:
        if node.op not in (*ALTERNATIVES, "Call"):
            raise _NotFollowed
        rows = []
        for region in node.regions.values():
            if always_fails(region):
                rows.append([_empty(region, v) for v in outs])
                continue
            ends = [region.outputs[v.index] for v in outs]
            needed = needed_for(region, ends)
            self._enter(graph, node, region, needed, ())
            self._follow(region, needed)
            rows.append([self._value(region, v) for v in ends])
        for region, row in zip(node.regions.values(), rows):
            region.outputs = [*region.outputs, *row]
        for v in outs:
            self.told[v] = Value(ListType(BOOL) if _is_list(v) else BOOL, node, len(node.outputs))
            node.outputs.append(self.told[v])

    def _loop(self, graph: Graph, node: Node, outs: Sequence[Value]) -> None:
        body, count = node.regions["body"], node.kwargs["carried"]
        places = [k for k in closed(node, [v.index for v in outs]) if differentiable(node.outputs[k].type)]  # fmt: skip
        needed = needed_for(body, [body.outputs[k] for k in places]) | {body.inputs[k] for k in places}  # fmt: skip
        state = body.inputs[:count]
        self.led.update(zip(state, led_to(node, self.led)))
        carried = [k for k in places if _is_list(state[k]) or _is_open(self.led[state[k]])]
        starts = [self._start(graph, node, k) for k in carried]
        inner = [Value(ListType(BOOL) if _is_list(state[k]) else BOOL) for k in carried]
        self._enter(graph, node, body, needed, state)
        self.told.update(zip((state[k] for k in carried), inner))
        self._follow(body, needed)
        left = [self._value(body, body.outputs[k]) for k in carried]
        ends = add_state(node, inner, left, starts)
        self.told.update(zip((node.outputs[k] for k in carried), ends))

    def _start(self, graph: Graph, node: Node, k: int) -> Value:
        a = node.args[k]
        if not isinstance(a, Value):
            raise _NotFollowed
        return self._value(graph, a)


def _content(graph: Graph) -> tuple[list[tuple], list[tuple]]:
    """What the graphs and nodes of a graph, with those of its regions, hold."""
    nodes = list(all_nodes(graph))
    graphs = [graph, *(r for n in nodes for r in n.regions.values())]
    return (
        [(g, list(g.nodes), list(g.inputs), list(g.outputs), list(g.input_names)) for g in graphs],
        [(n, n.args, dict(n.kwargs), list(n.outputs)) for n in nodes],
    )


def _put_back(graphs: list[tuple], nodes: list[tuple]) -> None:
    for graph, *held in graphs:
        graph.nodes, graph.inputs, graph.outputs, graph.input_names = held
    for node, *held in nodes:
        node.args, node.kwargs, node.outputs = held


def _is_list(v: Value) -> bool:
    kind = v.type
    if isinstance(kind, ListType) and not isinstance(kind.element, TensorType):
        raise _NotFollowed
    return isinstance(kind, ListType)


def _is_open(led: Led) -> bool:
    """Whether only the run knows."""
    return led.may and not led.surely


def _constant(graph: Graph, x: bool) -> Value:
    made = Node("py.constant", (x,), {}, [BOOL])
    graph.nodes.insert(0, made)
    return made.outputs[0]


def _empty(region: Graph, v: Value) -> Value:
    """What stands for the bools in a region that never ends."""
    if not _is_list(v):
        return _constant(region, False)
    made = Node("tg.list_new", (), {}, [ListType(BOOL)])
    region.nodes.append(made)
    return made.outputs[0]
