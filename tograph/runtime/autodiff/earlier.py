"""A gradient that is taken in the body of a loop and goes through the loop's state into earlier iterations.

The body records it as a node ``tg.earlier``: cotangents of the state at the start of an iteration -> cotangents of the tensors
outside that the state depends on. Here the loop saves what its iterations need to be gone through backwards, as for a
gradient taken after it (``loops``), and the node becomes a ``While`` over the iterations so far. The lists are
values: going through them in one iteration leaves them as they are for the next.

That loop ends when no cotangent is left: state that was detached some iterations ago costs those iterations only. Where an iteration
computes the state from no state (the loss of a training loop), the one before is all that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import GradientError
from ..graph.ir import Graph, Node, Value
from ..graph.ordering import graph_effects
from ..graph.rewrite import copied
from ..graph.types import BOOL, INT, ListType, TensorType
from ..symbols.funcgraph import FuncGraph
from ..symbols.symbolic import as_symbolic, value_of
from ..writes import histories
from . import loops
from .alternatives import zeros
from .dependence import dependences
from .graphs import append
from .joint import differentiate
from .made_leaves import MadeLeaves
from .parting import Parts, part
from .trips import Trip


def expand(node: Node, graph: FuncGraph, earlier: histories.Earlier, keys: Sequence[Any]) -> None:
    """Extend a ``While`` that is not recorded yet; ``keys`` say what its captured inputs stand for."""
    carried, body = node.kwargs["carried"], node.regions["body"]
    found = _found(body, earlier)
    places = {i for n in found for i in n.kwargs["places"]}
    if not places:
        return
    made = MadeLeaves(node, graph)
    for n in found:
        made.follow(n.kwargs["leaves"], n.location)
    taken: set[int] = set()
    routes = [_route(x, node, graph, keys, earlier, taken) for x in earlier.outside]
    state = loops.state_of(node, {*made.histories, *(i for r in routes for i in r)}, places)
    depends = dependences(body)
    once = not any(depends[i] & set(state) for i in state)
    body.outputs = body.outputs + made.flags
    body, reads = _without_reads(body)
    routes = [[*r, *(reads[i] for i in r if i in reads)] for r in routes]
    fixed = sorted({i for r in routes for i in r if i >= carried})
    need = [*state, *fixed, *made.histories]
    p = part(differentiate(body, need, state, fill=state, again=False), range(carried), True)
    _with_reads(p.forward, reads)
    sums = [need[k] for k in p.present if len(state) <= k < len(state) + len(fixed)]
    if any(n.kwargs["again"] for n in found) and (
        sums or any(i in state for r in routes for i in r)
    ):
        raise GradientError(
            "a gradient with create_graph=True that is taken inside of a staged loop goes through the loop's state back into "
            "earlier iterations. Take it after the loop, or detach() the state at the start of the body.",
            earlier.location,
        )
    leaves = made.kept(p, [need[k] for k in p.present])
    trip = Trip(p, node, state, sums, indexed=True, defer=False, leaves=leaves).graph
    context = _carry(node, graph, p, once)
    _Expansion(
        earlier, trip, routes, state, sums, leaves.places, p.kept, [v.type for v in context]
    ).run(node.regions["body"], context)


def _found(graph: Graph, earlier: histories.Earlier) -> list[Node]:
    """The nodes for one loop, in nested regions too."""
    own = [n for n in graph.nodes if n.op == histories.EARLIER and n.kwargs["loop"] == earlier.loop]
    return own + [n for m in graph.nodes for r in m.regions.values() for n in _found(r, earlier)]


def _route(
    x: Any,
    node: Node,
    graph: FuncGraph,
    keys: Sequence[Any],
    earlier: histories.Earlier,
    taken: set[int],
) -> list[int]:
    """The inputs of the loop by which a tensor enters it, but for those by which one of the same value does (``taken``)."""
    value, x = value_of(x, graph), as_symbolic(x)
    carried = node.kwargs["carried"]
    found = {i for i, a in enumerate(node.args) if a is value}
    found |= {carried + j for j, key in enumerate(keys) if key is x.storage_ and not x.chain}
    if not found:
        raise GradientError(
            "a gradient that is taken inside of a staged loop goes through the loop's state back to a view of a tensor that the loop "
            "uses. Take it after the loop, or detach() the state at the start of the body.",
            earlier.location,
        )
    own = sorted(found - taken)
    taken |= found
    return own


def _without_reads(body: Graph) -> tuple[Graph, dict[int, int]]:
    """A copy that takes what it reads of resources that it does not write as further inputs; resource -> that input."""
    made = copied(body, ordered=True)
    written = set(graph_effects(made).writes)
    place = {v: i for i, v in enumerate(made.inputs) if i not in written}
    read: dict[int, Value] = {}
    replaced: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in made.nodes:
        node.replace_inputs(lambda v: replaced.get(v, v))
        if node.op == "tg.read" and node.args[0] in place:
            value = read.setdefault(place[node.args[0]], Value(node.outputs[0].type))
            replaced[node.outputs[0]] = value
        else:
            nodes.append(node)
    made.nodes, made.outputs = nodes, [replaced.get(v, v) for v in made.outputs]
    count = len(made.inputs)
    made.inputs += read.values()
    made.input_names += [""] * len(read)
    return made, {i: count + k for k, i in enumerate(read)}


def _with_reads(body: Graph, reads: dict[int, int]) -> None:
    """Read the resources again, at the start."""
    values = {i: body.inputs[j] for i, j in reads.items()}
    count = len(body.inputs) - len(reads)
    body.inputs, body.input_names = body.inputs[:count], body.input_names[:count]
    for i, value in values.items():
        node = Node("tg.read", (body.inputs[i],), {}, [value.type])
        node.outputs, value.node = [value], node
        body.nodes.insert(0, node)


def _carry(node: Node, graph: FuncGraph, p: Parts, once: bool) -> list[Value]:
    """Push what the backward part needs and count the trips: both become state. Returns (count, lists, all inputs and reads) of the body.

    ``once``: only the last trip is gone through, so that is all that is kept.
    """
    carried, body, cond = node.kwargs["carried"], p.forward, node.regions["cond"]
    inputs = list(p.inputs)
    lists, count = [Value(ListType(v.type)) for v in p.saved], Value(INT)
    before = [append(body, "tg.list_new", type=v.type) for v in lists] if once else lists
    pushed = [loops.push(body, items, v, p.saved) for items, v in zip(before, p.saved)]
    kept = ("py.constant", 1) if once else ("py.add", count, 1)
    body.outputs = [*body.outputs[:carried], *pushed, append(body, *kept, type=INT)]
    own = [*lists, count]
    starts = [graph.emit("tg.list_new", type=v.type) for v in lists]
    starts.append(graph.emit("py.constant", 0, type=INT))
    for region, new in ((body, own), (cond, [Value(v.type) for v in own])):
        region.inputs = [*region.inputs[:carried], *new, *region.inputs[carried:]]
        region.input_names = [""] * len(region.inputs)
    node.regions["body"] = body
    node.args = (*node.args[:carried], *starts, *node.args[carried:])
    node.kwargs["carried"] = carried + len(own)
    node.outputs += [Value(v.type, node, carried + i) for i, v in enumerate(own)]
    return [count, *lists, *inputs]


@dataclass
class _Expansion:
    """``trip``: one iteration backwards. ``routes``: of each tensor outside, the inputs it enters by.
    ``leaves``: the state whose leaves gradients are asked of. ``kept``: the inputs that it needs besides. ``kinds``: of the context.
    """

    earlier: histories.Earlier
    trip: Graph
    routes: list[list[int]]
    state: list[int]
    sums: list[int]
    leaves: list[int]
    kept: list[int]
    kinds: list[Any]

    def run(self, graph: Graph, context: list[Value]) -> None:
        """Replace the nodes in a graph; ``context`` is what stands there for (count, lists, inputs of the body)."""
        made: dict[Value, Value] = {}
        nodes: list[Node] = []
        for node in graph.nodes:
            node.replace_inputs(lambda v: made.get(v, v))
            if node.op == histories.EARLIER and node.kwargs["loop"] == self.earlier.loop:
                block = Graph("block")
                outs = self._loop(block, node, context)
                for n in block.nodes:
                    n.grad, n.location = False, node.location
                nodes += block.nodes
                made.update(zip(node.outputs, outs))
                continue
            nodes.append(node)
            if any(_found(r, self.earlier) for r in node.regions.values()):
                for region in node.regions.values():
                    inner = [Value(kind) for kind in self.kinds]
                    region.inputs += inner
                    region.input_names += [""] * len(inner)
                    self.run(region, inner)
                node.args = (*node.args, *context)
        graph.nodes = nodes
        graph.outputs = [made.get(v, v) for v in graph.outputs]

    def _loop(self, graph: Graph, node: Node, context: list[Value]) -> list[Value]:
        """The ``While`` through the iterations so far, and from it the cotangents of the tensors outside."""
        trip = copied(self.trip, ordered=True)
        carried = len(trip.outputs)
        saved = len(trip.inputs) - carried - len(self.kept)
        count, lists, inputs = context[0], context[1 : 1 + saved], context[1 + saved :]
        given = dict(zip(node.kwargs["places"], node.args))
        starts = [given.get(i) or _zeros(graph, inputs[i]) for i in self.state]
        totals: list[Any] = [_zeros(graph, inputs[i]) for i in self.sums]
        for i in self.leaves:
            totals += [_zeros(graph, inputs[i]), True]
        fixed = [inputs[i] for i in self.kept]
        loop = Node(
            "While",
            (count, *starts, *totals, *lists, *fixed),
            {"carried": carried},
            [v.type for v in trip.inputs[:carried]],
            regions={"cond": _more(trip, len(starts)), "body": trip},
        )
        graph.nodes.append(loop)
        by_input = dict(zip([*self.state, *self.sums], loop.outputs[1:]))
        found = [
            self._total(graph, [by_input[i] for i in route if i in by_input], out)
            for route, out in zip(self.routes, node.outputs)
        ]
        first = 1 + len(starts) + len(self.sums)
        for i in node.kwargs["leaves"]:
            g, open_ = loop.outputs[first + 2 * self.leaves.index(i) :][:2]
            found += [g, append(graph, "py.not", open_, type=BOOL)]
        return found

    def _total(self, graph: Graph, parts: list[Value], out: Value) -> Value:
        if not parts:
            return zeros(graph, out.type, None)
        total = parts[0]
        for part_ in parts[1:]:
            total = append(graph, "aten.add.Tensor", total, part_, type=total.type)
        return total


def _zeros(graph: Graph, like: Value) -> Value:
    static = isinstance(like.type, TensorType) and None not in like.type.shape
    return zeros(graph, like.type, None if static else like)


def _more(trip: Graph, count: int) -> Graph:
    """Whether iterations are left, and a cotangent that is not zero."""
    cond = Graph("cond")
    cond.inputs = [Value(v.type) for v in trip.inputs]
    cond.input_names = [""] * len(cond.inputs)
    left = append(cond, "py.gt", cond.inputs[0], 0, type=BOOL)
    cotangents = cond.inputs[1 : 1 + count]
    if all(isinstance(v.type, TensorType) for v in cotangents):
        some: Value | None = None
        for v in cotangents:
            assert isinstance(v.type, TensorType)
            kind = TensorType(torch.bool, (), v.type.device)
            mask = append(
                cond,
                "aten.ne.Scalar",
                v,
                0,
                type=TensorType(torch.bool, v.type.shape, v.type.device),
            )
            one = append(
                cond, "py.bool", append(cond, "aten.any.default", mask, type=kind), type=BOOL
            )
            some = one if some is None else append(cond, "py.or_", some, one, type=BOOL)
        if some is not None:
            left = append(cond, "py.and_", left, some, type=BOOL)
    cond.outputs = [left]
    return cond


histories.EXPAND = expand
