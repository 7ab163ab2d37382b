"""One trip of a loop backwards, as the body of a backward loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph.ir import Graph, Node, Value
from ..graph.ordering import prune
from ..graph.rewrite import copy_node
from ..graph.types import BOOL, INT, ListType, TensorType
from . import made_leaves
from .counters import Counter
from .deferred import Deferred, deferred
from .graphs import append
from .parting import Parts


class Trip:
    """One trip backwards: (trips, cotangents, sums, collected, lists, invariants) -> all but the invariants.

    ``late`` says of each sum whether, and how, it is one of products; ``collected`` maps the list of an operand to it.
    ``indexed``: the lists are invariants. ``counted``: the last inputs of the backward part, which follow from the number of the trip. ``leaves``: of which the sums are one trip's each; the tensors that stand for them are the last of the inputs.
    """

    def __init__(
        self,
        p: Parts,
        node: Node,
        state: list[int],
        sums: list[int],
        indexed: bool,
        defer: bool = True,
        leaves: made_leaves.Kept | None = None,
        counted: Sequence[Counter] = (),
    ):
        graph = self.graph = Graph("body")
        trips = Value(INT)
        cotangents = [Value(node.outputs[i].type) for i in state]
        lists = [Value(ListType(v.type)) for v in p.saved]
        fixed = [Value(p.inputs[k].type) for k in p.kept]
        left = append(graph, "py.sub", trips, 1, type=INT)
        cells, shorter = _cells(graph, lists, left if indexed else None)
        flags, asked = [Value(BOOL) for _ in p.told], [Value(BOOL) for _ in p.unsure]
        sources = fixed + cells + [cotangents[state.index(i)] for i in p.given] + asked + flags
        sources += [c.value(graph, left) for c in counted]
        env = dict(zip(p.backward.inputs, sources, strict=True))
        graph.nodes += [copy_node(n, env) for n in p.backward.nodes]
        results = [env[v] for v in p.backward.outputs]
        ends, parts = results[: len(state)], results[len(state) : len(p.present)]
        parts, more = parts[: len(sums)], parts[len(sums) :]
        told = {p.present.index(k) - len(state): env[v] for k, v in p.ways.items()}
        # The sums of what only some trips give: whether one has.
        self.unsure = [i for i in sorted(told) if 0 <= i < len(sums)]
        earlier = [Value(BOOL) for _ in self.unsure]
        found = [
            append(graph, "py.or_", b, told[i], type=BOOL) for i, b in zip(self.unsure, earlier)
        ]
        earlier += asked
        found += [self._following(p, state.index(i), env) for i in p.unsure]
        self.late: list[Deferred | None] = [
            deferred(g, set(fixed)) if defer else None for g in parts
        ]
        self.collected = self._lists_of_operands()
        totals, added = self._add_up([p.inputs[j].type for j in sums], parts)
        if leaves is not None:
            ways = {i - len(sums): way for i, way in told.items()}
            leaves.add_up(graph, cells, more, ways, totals, added)
        pushed = [
            append(graph, "tg.list_push", items, v, type=items.type)
            for items, v in self.collected.items()
        ]
        graph.inputs = [trips, *cotangents, *totals, *earlier, *self.collected, *lists, *fixed, *flags]  # fmt: skip
        graph.input_names = [""] * len(graph.inputs)
        graph.outputs = [left, *ends, *added, *found, *pushed, *shorter]
        prune(graph)

    def _following(self, p: Parts, k: int, env: dict[Value, Value]) -> Value:
        """Whether there is a cotangent of the state in front of this trip."""
        if k in p.ways:
            return env[p.ways[k]]
        return append(self.graph, "py.constant", k not in p.filled, type=BOOL)

    def _lists_of_operands(self) -> dict[Value, Value]:
        """A list for each operand of a product that is made behind the loop."""
        late = [x for x in self.late if x and not x.running]
        return {
            Value(ListType(v.type)): v for v in dict.fromkeys(v for x in late for v in x.operands)
        }

    def _add_up(self, kinds: list[Any], parts: list[Value]) -> tuple[list[Value], list[Value]]:
        """(the sums so far, the sums with this trip's ``parts``) of those that are added up in the loop."""
        totals, added = [], []
        for kind, g, late in zip(kinds, parts, self.late):
            if late is None:
                totals.append(Value(kind))
                added.append(_add(self.graph, totals[-1], g))
            elif late.running:
                totals.append(Value(late.node.outputs[0].type))
                added.append(late.add(self.graph, totals[-1]))
        return totals, added


def _cells(
    graph: Graph, lists: list[Value], index: Value | None
) -> tuple[list[Value], list[Value]]:
    """The cell at ``index`` of each list; without one the last cells, and the lists without them."""
    kinds: list[Any] = [v.type.element for v in lists]
    if index is not None:
        return [append(graph, "tg.list_get", v, index, type=k) for v, k in zip(lists, kinds)], []
    pops = [Node("tg.list_pop", (v, -1), {}, [v.type, k]) for v, k in zip(lists, kinds)]
    graph.nodes += pops
    return [n.outputs[1] for n in pops], [n.outputs[0] for n in pops]


def _add(graph: Graph, total: Value, g: Value) -> Value:
    op = "aten.add.Tensor" if isinstance(total.type, TensorType) else "tg.handle_add"
    return append(graph, op, total, g, type=total.type)
