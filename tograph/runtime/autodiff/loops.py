"""The gradient of ``While``: a ``While`` that goes through the same iterations backwards.

What an iteration's gradient needs is pushed on lists that become state of the loop; loop invariants are there anyway and are
passed as they are, and what only counts is not differentiated, nor saved (``counters``). The forward loop counts its trips; the backward loop pops
as many times. Its state: the trips left, the cotangents of the differentiable state, the sums of the cotangents of the invariants (and whether
some trip gave one, where not all do), and the lists. No trips: every cotangent goes through as it is. A gradient that is not differentiated again leaves the
lists as they are and takes the cell of each trip: popping makes a new list, but its derivative is a push.

Which state takes part: what depends on an input whose gradient is wanted (``active``) and what a cotangent can come back
to (``reached``), both fixed points over the dependences of one body.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ..graph.ir import Graph, Node, Value
from ..graph.overwritten import Writers, again, any_told, targets
from ..graph.types import BOOL, INT, ListType, TensorType
from ..recording import ways
from ..symbols.carrier import differentiable
from ..symbols.funcgraph import current_graph
from ..symbols.symbolic import argument
from . import checkpoint, counters, made_leaves
from .connect import REGION_RULES, Call
from .cut import size
from .dependence import dependences
from .graphs import append, before
from .joint import Joint, Writes, differentiate
from .objects import emit, emit_many, plain_object, zeros_like
from .parting import Parts, part
from .trips import Trip

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
    tokens = _tokens(call, dict(zip(range(len(places)), places)), inputs)
    own = [place for found_ in tokens.values() for place, _, _ in found_.leaves]
    fixed = [*sorted(p for p in inputs if p >= carried and p not in own), *own]
    later, told = _written_later(call)
    starts = _start_ways(call, grads, state)
    joint = _differentiated(body, state, fixed, later, starts)
    call.saves |= bool(joint.saves)
    if any(told[k].untold(node) for k in joint.told):
        for k in joint.told:
            told[k].flag(call)  # of the loop as it was differentiated, but for more state
        return loop(call, grads, wanted)
    if node.kwargs.get("recompute") and not tokens:
        p = checkpoint.recomputing(body, joint, carried)
    else:
        readable = call.readable()
        again = [
            i
            for i, v in enumerate(node.args)
            if i >= carried and isinstance(v, Value) and v in readable
        ]
        p = part(joint, costly=range(carried), repeated=True, ways=True, readable=again)
    counted = counters.taken(p, node)
    present = [fixed[k - len(state)] for k in p.present if k >= len(state)]
    leaves = _kept(p, body, tokens, [k for k in present if k in own])
    sums = [k for k in present if k not in own]
    count, first = _extend(call, p)
    lists = call.outputs(range(first, first + len(p.saved)))
    flags = [plain_object(told[k].flag(call), call.graph) for k in p.told]
    made = _emit(
        call, p, state, sums, leaves, (grads, count, lists, places, flags, starts, counted)
    )
    results = dict(zip([*state, *sums, *(found_.leaves[0][0] for found_ in tokens.values())], made))
    for i, place in enumerate(places):
        if wanted[i] and place in results:
            found[i] = results[place]
    return found


class _Tokens(NamedTuple):
    """The inputs that are the histories of leaves, each with the state that says of which it is and the place where an iteration leaves it; ``moves`` from one place to another."""

    leaves: list[tuple[int, int | None, int]]
    moves: list[tuple[int, int, int | None]]


Tokens = dict[int, _Tokens]


def _tokens(call: Call, places: dict[int, int], wanted: set[int]) -> Tokens:
    """By the state that is a leaf which an iteration made."""
    found: Tokens = {}
    root = call.graph.root
    for i, known in root.tokens.get(call.node, {}).items():
        at = [(places[call.inputs.index(token)], flag, q) for _, token, flag, q in known]
        if any(place in wanted for place, _, _ in at):
            found[i] = _Tokens(at, root.moves.get(call.node, {}).get(i, []))
    return found


def _kept(p: Parts, body: Graph, tokens: Tokens, present: list[int]) -> made_leaves.Kept:
    """Let a trip save which leaves it made; what a trip backwards adds to their gradients."""
    sums, flags = [], list[Value]()

    def cell(flag: int | None) -> int | None:
        flags.extend([] if flag is None else [p.forward.outputs[flag]])
        return None if flag is None else len(p.saved) + len(flags) - 1

    for i, (leaves, moves) in tokens.items():
        places = dict.fromkeys([i, *(q for _, _, q in leaves), *(q for m in moves for q in m[:2])])
        rows = {q: made_leaves.Row(q, [], []) for q in places}
        for place, flag, q in leaves:
            part = present.index(place) if place in present else None
            rows[q].leaves.append((part, cell(flag)))
        for q, r, flag in moves:
            rows[q].moves.append((r, cell(flag)))
        sums.append(made_leaves.Sum(body.inputs[i].type, list(rows.values())))
    made_leaves.keep(p, flags)
    return made_leaves.Kept(list(tokens), sums)


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
    made_leaves.stays_leaf(node.regions["body"], body, call.graph.root)
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


def _emit(
    call: Call,
    p: Parts,
    state: list[int],
    sums: list[int],
    leaves: made_leaves.Kept,
    given: tuple,
) -> list[Any]:
    """Record the backward loop; returns the cotangents of the initial state, of the invariants ``sums`` and of the ``leaves`` that trips made."""
    grads, count, lists, places, flags, begin, counted = given
    node = call.node
    starts = [_start(call, grads, i) for i in state]
    originals = {place: i for i, place in enumerate(places)}
    trip = Trip(
        p, node, state, sums, indexed=not torch.is_grad_enabled(), leaves=leaves, counted=counted
    )
    body = trip.graph
    totals = [
        late.zero() if late else zeros_like(call.input(originals[k]))
        for k, late in zip(sums, trip.late)
        if late is None or late.running
    ]
    totals += leaves.starts([zeros_like(call.outputs([i])[0]) for i in leaves.places])
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
    by_leaf = leaves.split(rest)
    for g, some, _ in by_leaf:
        ways.tell(g, argument(current_graph(), some))
    return ends + results + [g for g, _, _ in by_leaf]


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


REGION_RULES["While"] = loop
