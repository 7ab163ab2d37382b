"""The gradient of ``While``: a ``While`` that goes through the same iterations backwards.

What an iteration's gradient needs is pushed on lists that become state of the loop; loop invariants are there anyway and are
passed as they are, and what only counts is not differentiated. The forward loop counts its trips; the backward loop pops
as many times. Its state: the trips left, the cotangents of the differentiable state, the sums of the cotangents of the invariants (and whether
some trip gave one, where not all do), and the lists. No trips: every cotangent goes through as it is. A gradient that is not differentiated again leaves the
lists as they are and takes the cell of each trip: popping makes a new list, but its derivative is a push.

Which state takes part: what depends on an input whose gradient is wanted (``active``) and what a cotangent can come back
to (``reached``), both fixed points over the dependences of one body.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..graph.ir import Graph, Node, Value
from ..graph.ordering import prune
from ..graph.overwritten import Writers, again, any_told, targets
from ..graph.rewrite import copy_node
from ..graph.types import BOOL, INT, ListType, TensorType
from ..recording import ways
from ..symbols.carrier import differentiable
from ..symbols.funcgraph import current_graph
from ..symbols.symbolic import argument
from . import checkpoint, made_leaves
from .connect import REGION_RULES, Call
from .cut import size
from .deferred import Deferred, deferred
from .dependence import dependences
from .graphs import append, before
from .joint import Joint, Writes, differentiate
from .objects import emit, emit_many, plain_object, zeros_like
from .parting import Parts, part

Way = bool | Value


def loop(call: Call, grads: list[Any], wanted: list[bool]) -> list[Any]:
    """Cotangents of the inputs of a ``While``."""
    node = call.node
    if checkpoint.wanted(node):
        checkpoint.segment(node, call.graph)
    shift = node.kwargs["carried"] - call.carried
    places = [i if i < call.carried else i + shift for i in range(len(call.inputs))]
    found: list[Any] = [None] * len(call.inputs)
    inputs = {p for p, w in zip(places, wanted) if w}
    state = state_of(node, inputs, {i for i, g in enumerate(grads) if g is not None})
    if not state:
        return found
    carried = node.kwargs["carried"]
    body = node.regions["body"]
    fixed = sorted(p for p in inputs if p >= carried)
    later, told = _written_later(call)
    starts = _start_ways(call, grads, state)
    joint = _differentiated(body, state, fixed, later, starts)
    call.saves |= bool(joint.saves)
    if any(told[k].untold(node) for k in joint.told):
        for k in joint.told:
            told[k].flag(call)  # of the loop as it was differentiated, but for more state
        return loop(call, grads, wanted)
    if node.kwargs.get("recompute"):
        p = checkpoint.recomputing(body, joint, carried)
    else:
        readable = call.readable()
        again = [
            i
            for i, v in enumerate(node.args)
            if i >= carried and isinstance(v, Value) and v in readable
        ]
        p = part(joint, costly=range(carried), repeated=True, ways=True, readable=again)
    sums = [fixed[k - len(state)] for k in p.present if k >= len(state)]
    count, first = _extend(call, p)
    lists = call.outputs(range(first, first + len(p.saved)))
    flags = [plain_object(told[k].flag(call), call.graph) for k in p.told]
    made = _emit(call, p, state, sums, (grads, count, lists, places, flags, starts))
    results = dict(zip([*state, *sums], made))
    for i, place in enumerate(places):
        if wanted[i] and place in results:
            found[i] = results[place]
    return found


def _start_ways(call: Call, grads: list[Any], state: list[int]) -> dict[int, Way]:
    """Of the state whether there is a cotangent behind the loop, where it may be that there is none."""
    known, found = current_graph().root.ways, dict[int, Way]()
    for i in state:
        if not isinstance(call.node.outputs[i].type, TensorType):
            continue
        way = False if grads[i] is None else known.get(argument(current_graph(), grads[i]))
        if way is not None:
            found[i] = way
    return found


def _differentiated(
    body: Graph, state: list[int], fixed: list[int], later: Writes, starts: dict[int, Way]
) -> Joint:
    """The gradient of one trip. It is told whether there are cotangents of the state, where behind the loop or in front of some trip there may be none."""
    unsure = set(starts)
    while True:
        joint = differentiate(body, state + fixed, state, fill=state, writes=later, unsure=unsure)
        found = {state[k] for k in {*joint.ways, *joint.filled} if k < len(state)}
        found = {i for i in found if isinstance(body.outputs[i].type, TensorType)}
        if found <= unsure:
            return joint
        unsure |= found


@dataclass
class _Told:
    """What may write over a tensor that the body has used: nodes behind the loop, or a later trip, over the state ``place``."""

    writers: Writers
    place: int | None = None

    def untold(self, node: Node) -> bool:
        """Whether the loop needs more state to tell."""
        return self.place is not None and self.place not in (node.told or {})

    def flag(self, call: Call) -> Value:
        graph = call.graph.graph
        found = [] if self.place is None else [again(call.node, self.place, graph)]
        found += [any_told(self.writers, graph)] if self.writers else []
        return found[0] if len(found) == 1 else append(graph, "py.or_", *found, type=BOOL)


def _written_later(call: Call) -> tuple[Writes, list[_Told]]:
    """What may be written over after a trip; the keys are positions in the list."""
    node, later, told = call.node, Writes(), list[_Told]()
    carried, found = node.kwargs["carried"], call.written_since()
    own = targets(node) if call.graph.root.wrote else []

    def note(keys: dict[int, Any], i: int, value: Any, place: int | None) -> None:
        writers = found.get(value, [])
        if writers is None:
            keys[i] = True
        elif writers or place is not None:
            keys[i] = len(told)
            told.append(_Told(writers, place))

    for j, value in enumerate(node.outputs[:carried]):
        note(later.outputs, j, value, j if j in own else None)
    for i in range(carried, len(node.args)):
        note(later.inputs, i, node.args[i], None)
    return later, told


def state_of(node: Node, inputs: set[int], given: set[int]) -> list[int]:
    """The carried places whose cotangents are state of the backward loop."""
    carried = node.kwargs["carried"]
    depends = dependences(node.regions["body"])
    active = set(inputs)
    while True:
        more = {i for i in range(carried) if i not in active and depends[i] & active}
        if not more:
            break
        active |= more
    reached = {i for i in given if i in active}
    while True:
        more = {i for r in reached for i in depends[r] if i < carried and i in active} - reached
        if not more:
            return sorted(i for i in reached if differentiable(node.outputs[i].type))
        reached |= more


def _extend(call: Call, p: Parts) -> tuple[Any, int]:
    """Push what the backward loop needs and count the trips; returns the count and the first list's output index."""
    node = call.node
    carried = node.kwargs["carried"]
    kinds: list[Any] = [ListType(v.type) for v in p.saved]
    body, cond = p.forward, node.regions["cond"]
    lists = [Value(k) for k in kinds]
    pushed = [push(body, items, v, p.saved) for items, v in zip(lists, p.saved)]
    outs = body.outputs[:carried] + pushed
    own, starts = list(lists), [before(node, call.graph, "tg.list_new", type=k) for k in kinds]
    if call.count is None:
        counter = Value(INT)
        outs.append(append(body, "py.add", counter, 1, type=INT))
        own.append(counter)
        starts.append(before(node, call.graph, "py.constant", 0, type=INT))
        call.count = carried + len(lists)
    body.inputs = body.inputs[:carried] + own + body.inputs[carried:]
    body.outputs = outs
    cond.inputs = cond.inputs[:carried] + [Value(v.type) for v in own] + cond.inputs[carried:]
    for graph in (body, cond):
        graph.input_names = graph.input_names[:carried] + [""] * (len(graph.inputs) - carried)
    node.regions["body"] = body
    node.args = (*node.args[:carried], *starts, *node.args[carried:])
    node.kwargs["carried"] = carried + len(own)
    for v in own:
        node.outputs.append(Value(v.type, node, len(node.outputs)))
    return call.outputs([call.count])[0], carried


_PARTS = ("split", "unsafe_split", "split_with_sizes", "chunk", "unbind", "select", "slice")


def push(body: Graph, items: Value, value: Value, saved: list[Value]) -> Value:
    """Push a saved value; a small part of something larger that the body computes is copied, so as not to keep all of that."""
    whole = value
    while whole.node is not None and _name(whole.node) in _PARTS:
        whole = whole.node.args[0]
    if whole.node is not None and whole not in saved and size(whole) >= 2 * size(value):
        value = append(
            body,
            "aten.clone.default",
            value,
            type=value.type,
            memory_format=torch.contiguous_format,
        )
    return append(body, "tg.list_push", items, value, type=items.type)


def _name(node: Node) -> str:
    return node.op.removeprefix("aten.").partition(".")[0]


def _emit(call: Call, p: Parts, state: list[int], sums: list[int], given: tuple) -> list[Any]:
    """Record the backward loop; returns the cotangents of the initial state and of the invariants ``sums``."""
    grads, count, lists, places, flags, begin = given
    node = call.node
    starts = [_start(call, grads, i) for i in state]
    originals = {place: i for i, place in enumerate(places)}
    trip = Trip(p, node, state, sums, indexed=not torch.is_grad_enabled())
    body = trip.graph
    totals = [
        late.zero() if late else zeros_like(call.input(originals[k]))
        for k, late in zip(sums, trip.late)
        if late is None or late.running
    ]
    collected = [emit("tg.list_new", type=v.type) for v in trip.collected]
    fixed = [call.input(originals[k]) for k in p.kept]
    never = [False] * len(trip.unsure) + [_taken(begin.get(i, True)) for i in p.unsure]
    args = (count, *starts, *totals, *never, *collected, *lists, *fixed, *flags)
    carried = len(body.outputs)
    kinds = [v.type for v in body.inputs[:carried]]
    regions = {"cond": _trips_left(body), "body": body}
    first = len(args) - len(fixed) - len(flags)
    loose = [first + i for i, k in enumerate(p.kept) if k in p.loose]
    made = emit_many("While", args, {"carried": carried}, kinds, regions=regions, loose=loose)
    ends, rest = made[1 : 1 + len(state)], made[1 + len(state) :]
    found, rest = rest[len(totals) :], rest[: len(totals)]
    results = _sums(trip, rest, found[len(never) :])
    _tell(results, count, dict(zip(trip.unsure, found)))
    for i, way in zip(p.unsure, found[len(trip.unsure) :]):
        ways.tell(ends[state.index(i)], argument(current_graph(), way))
    return ends + results


def _taken(way: Way) -> Any:
    return way if isinstance(way, bool) else plain_object(way, current_graph())


def _tell(results: list[Any], count: Any, found: dict[int, Any]) -> None:
    """Say where cotangents of invariants are zeros that stand for None: without a trip that gives one."""
    graph = current_graph()
    some = graph.emit("py.gt", argument(graph, count), 0, type=BOOL)
    for i, x in enumerate(results):
        ways.tell(x, argument(graph, found[i]) if i in found else some)


def _sums(trip: Trip, totals: list[Any], collected: list[Any]) -> list[Any]:
    """The cotangents of the invariants: what the trips added up, and products of what they collected."""
    summed = iter(totals)
    by_operand = dict(zip(trip.collected.values(), collected))
    found = []
    for late in trip.late:
        if late is None:
            found.append(next(summed))
        elif late.running:
            found.append(late.viewed(next(summed)))
        else:
            found.append(late.total([by_operand[v] for v in late.operands]))
    return found


def _trips_left(body: Graph) -> Graph:
    """The condition of a backward loop."""
    cond = Graph("cond")
    cond.inputs = [Value(v.type) for v in body.inputs]
    cond.input_names = [""] * len(cond.inputs)
    cond.outputs = [append(cond, "py.gt", cond.inputs[0], 0, type=BOOL)]
    return cond


def _start(call: Call, grads: list[Any], i: int) -> Any:
    return grads[i] if grads[i] is not None else zeros_like(call.outputs([i])[0])


class Trip:
    """One trip backwards: (trips, cotangents, sums, collected, lists, invariants) -> all but the invariants.

    ``late`` says of each sum whether, and how, it is one of products; ``collected`` maps the list of an operand to it.
    ``indexed``: the lists are invariants. ``leaves``: of which the sums are one trip's each.
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
        env = dict(zip(p.backward.inputs, sources, strict=True))
        graph.nodes += [copy_node(n, env) for n in p.backward.nodes]
        results = [env[v] for v in p.backward.outputs]
        ends, parts = results[: len(state)], results[len(state) : len(p.present)]
        parts, more = parts[: len(sums)], parts[len(sums) :]
        told = {p.present.index(k) - len(state): env[v] for k, v in p.ways.items()}
        # The sums of what only some trips give: whether one has.
        self.unsure = [i for i in sorted(told) if i >= 0]
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
            leaves.add_up(graph, cells, more, totals, added)
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


REGION_RULES["While"] = loop
