"""Gradients of the gradients that go through the iterations before one: what a node ``tg.earlier`` of a higher order computes.

Where the loop has saved what the first order needs, that is a function of the cotangents, of what was saved (lists that are state of the loop) and of what all iterations
use: a **template**, a graph that stands wherever such a node does. That of the next order is the gradient of this one. What comes to the lists goes
on into earlier iterations: a node of the first order for these, on the loop that has them. So each time that the loop is extended the orders fall by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import copied, splice
from ..graph.types import TensorType
from ..symbols.carrier import differentiable
from ..writes.iterations import EARLIER, Past
from .alternatives import zeros
from .graphs import append
from .joint import differentiate
from .parting import part

Places = tuple[int, ...]


@dataclass
class Orders:
    """Templates of the nodes for one ``loop``.

    ``first`` records the first order: (graph, places, cotangents, context) -> cotangents of the tensors outside, of which ``outside`` are the types. ``context``: the types of
    what each template takes besides, of which the places ``lists`` are saved lists, state of the loop in ``state``, and ``fixed`` inputs of the body that are not; ``routes``: by which of these each
    tensor outside enters.
    """

    loop: int
    first: Callable[[Graph, Places, list[Value], list[Value]], list[Value]]
    outside: list[Any]
    context: list[Any]
    lists: list[int]
    state: list[int]
    fixed: list[int]
    routes: list[list[int]]
    made: dict[tuple[Places, int], Graph] = field(default_factory=dict)

    def put(self, graph: Graph, past: Past, given: Sequence[Any], outside: Sequence[Any], context: Sequence[Value]) -> list[Any]:  # fmt: skip
        """Record what a node computes."""
        template = copied(self.template(past.places, past.order, [v.type for v in given]), True)
        return splice(template, [*given, *outside, *context], graph.nodes, True)

    def template(self, places: Places, order: int, given: list[Any]) -> Graph:
        """(given, outside, context) -> what a node of an order gives."""
        if (places, order) not in self.made:
            make = self._first if order == 1 else self._next
            self.made[places, order] = make(places, order, given)
        return self.made[places, order]

    def _inputs(self, given: Sequence[Any]) -> tuple[Graph, list[Value], list[Value], list[Value]]:
        graph = Graph("order")
        kinds = given, self.outside, self.context
        groups = [[Value(kind) for kind in group] for group in kinds]
        graph.inputs = [v for group in groups for v in group]
        graph.input_names = [""] * len(graph.inputs)
        return graph, groups[0], groups[1], groups[2]

    def _first(self, places: Places, order: int, given: list[Any]) -> Graph:
        graph, cotangents, _, context = self._inputs(given)
        graph.outputs = self.first(graph, places, cotangents, context)
        return graph

    def _next(self, places: Places, order: int, given: list[Any]) -> Graph:
        below = self._takes(len(places), order - 1)
        base = self.template(places, order - 1, given[:below])
        graph, all_given, outside, context = self._inputs(given)
        arguments = [*all_given[:below], *outside, *context]
        found = self._gradient(graph, base, arguments, all_given[below:], below)
        graph.outputs = [
            zeros(graph, v.type, v) if found.get(i) is None else found[i]
            for i, v in enumerate(arguments[:below])
        ]
        graph.outputs += self._outside(graph, found, below, outside, context)
        return graph

    def _takes(self, places: int, order: int) -> int:
        """How many values an order is given: what that below is, and a cotangent for each of its results, which are those of what the one below that is given and the tensors outside."""
        last, count = 0, places
        for _ in range(order - 1):
            last, count = count, count + last + len(self.outside)
        return count

    def _gradient(self, graph: Graph, base: Graph, arguments: list[Value], cotangents: list[Value], below: int) -> dict[int, Value]:  # fmt: skip
        """Cotangents of the inputs of a template, by place."""
        skip = below + len(self.outside)
        asked = [*range(skip), *(skip + i for i in (*self.lists, *self.fixed))]
        asked = [i for i in asked if differentiable(base.inputs[i].type)]
        p = part(differentiate(base, asked, range(len(base.outputs)), again=True))
        results = splice(copied(p.forward, True), arguments, graph.nodes, True)
        saved = results[len(base.outputs) :]
        given = [*(arguments[i] for i in p.kept), *saved, *(cotangents[i] for i in p.given)]
        grads = splice(copied(p.backward, True), given, graph.nodes, True)
        return {asked[k]: g for k, g in zip(p.present, grads)}

    def _outside(self, graph: Graph, found: dict[int, Value], below: int, outside: list[Value], context: list[Value]) -> list[Value]:  # fmt: skip
        """The cotangents of the tensors outside: those of the template, by what all iterations use, and by what was saved."""
        skip = below + len(self.outside)
        totals = [[found[below + k]] if below + k in found else [] for k in range(len(outside))]
        for parts, route in zip(totals, self.routes):
            parts += [found[skip + i] for i in route if skip + i in found]
        lists = {s: found[skip + i] for i, s in zip(self.lists, self.state) if skip + i in found}
        if lists:
            more = self._through_lists(graph, lists, outside)
            for parts, g in zip(totals, more):
                parts.append(g)
        return [_sum(graph, parts, v) for parts, v in zip(totals, outside)]

    def _through_lists(self, graph: Graph, lists: dict[int, Value], outside: list[Value]) -> list[Value]:  # fmt: skip
        past = Past(self.loop, tuple(lists))
        args = (past, list(lists.values()), list(outside))
        node = Node(EARLIER, args, {"leaves": ()}, [v.type for v in outside])
        graph.nodes.append(node)
        return node.outputs


def _sum(graph: Graph, parts: list[Value], like: Value) -> Value:
    if not parts:
        return zeros(graph, like.type, like)
    total = parts[0]
    for part_ in parts[1:]:
        op = "aten.add.Tensor" if isinstance(total.type, TensorType) else "tg.handle_add"
        total = append(graph, op, total, part_, type=total.type)
    return total
