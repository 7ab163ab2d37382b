"""A gradient that is taken in the body of a loop and goes through the loop's state into earlier iterations.

The body records it as a node ``tg.earlier``: cotangents of the state at the start of an iteration -> cotangents of the tensors
outside that the state depends on. Here the loop saves what its iterations need to be gone through backwards, as for a
gradient taken after it (``loops``), and the node becomes a ``While`` over the iterations so far. The lists are
values: going through them in one iteration leaves them as they are for the next.

That loop ends when no cotangent is left: state that was detached some iterations ago costs those iterations only. Where an iteration
computes the state from no state (the loss of a training loop), the one before is all that is kept. Where a gradient of a leaf that an iteration made is asked for, each
cotangent has a flag that says whether there is one: zeros come to the leaf as a gradient, where nothing comes it has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import GradientError
from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import copied
from ..graph.types import BOOL, INT, ListType, TensorType, Type, is_static
from ..inference.infer import tensor_type
from ..symbols.funcgraph import FuncGraph
from ..symbols.symbolic import as_symbolic, value_of
from ..writes import iterations
from . import loops
from .alternatives import zeros
from .body_reads import with_reads, without_reads
from .dependence import dependences
from .graphs import append
from .joint import differentiate
from .leading import tell
from .made_leaves import Kept, MadeLeaves, any_of, any_open, stays_leaf
from .objects import without_gradient
from .orders import Orders
from .parting import Parts, part
from .paths import LEAF
from .trips import Trip


def expand(node: Node, graph: FuncGraph, earlier: iterations.Earlier, keys: Sequence[Any]) -> None:
    """Extend a ``While`` that is not recorded yet; ``keys`` say what its captured inputs stand for.

    Nodes whose state is not computed from what others give come first: for the others, these are then ops like any other.
    """

    def entries(k: int) -> list[int]:
        if k != iterations.REQUIRES:
            return _entries(earlier.outside[k], node, graph, keys, earlier)
        found = [_inputs_of(x, node, graph, keys) for x in earlier.outside]
        return [LEAF, *sorted(set().union(*found))]

    tell(node, graph, earlier, entries)
    while found := _found(node.regions["body"], earlier):
        every = {n.args[0].places for n in found}
        for chosen in (every, *({x} for x in sorted(every) if len(every) > 1)):
            if _extended(
                node, graph, earlier, keys, [n for n in found if n.args[0].places in chosen]
            ):
                break
        else:
            error = GradientError(_RISING, earlier.location)
            error.rising = True
            raise error


def _extended(
    node: Node,
    graph: FuncGraph,
    earlier: iterations.Earlier,
    keys: Sequence[Any],
    found: list[Node],
) -> bool:
    """Extend it for some of its nodes; False where what they go through is computed from what such a node gives."""
    carried, body = node.kwargs["carried"], node.regions["body"]
    places = {i for n in found for i in n.args[0].places}
    again = any(n.grad for n in found)
    made = MadeLeaves(node, graph)
    for n in found:
        made.follow(n.kwargs["leaves"], n.location)
    taken: set[int] = set()
    routes = [_route(x, node, graph, keys, earlier, taken) for x in earlier.outside]
    state = loops.state_of(node, {*made.histories, *(i for r in routes for i in r)}, places)
    depends = dependences(body)
    once = not any(depends[i] & set(state) for i in state)
    body.outputs = body.outputs + made.flags
    body, reads = without_reads(body)
    routes = [[*r, *(reads[i] for i in r if i in reads)] for r in routes]
    fixed = sorted({i for r in routes for i in r if i >= carried})
    need = [*state, *fixed, *made.histories]
    unsure = [i for i in state if made.tokens and isinstance(body.outputs[i].type, TensorType)]
    joint = differentiate(body, need, state, fill=state, again=again, unsure=unsure)
    if _rises(joint.backward, earlier):
        return False
    p = part(joint, range(carried), True, ways=bool(unsure))
    stays_leaf(node.regions["body"], p.forward, graph.root)
    with_reads(p.forward, reads)
    sums = [need[k] for k in p.present if len(state) <= k < len(state) + len(fixed)]
    leaves = made.kept(p, [need[k] for k in p.present])
    trip = Trip(p, node, state, sums, indexed=True, defer=False, leaves=leaves)
    context = _carry(node, graph, p, once)
    _Expansion(
        earlier,
        trip.graph,
        [*(None for _ in trip.unsure), *p.unsure],
        routes,
        state,
        sums,
        leaves,
        p.kept,
        [v.type for v in context],
        carried,
        places,
        [i for i in state if _has_items(node.args[i], graph)],
    ).run(node.regions["body"], context)
    return True


def _rises(nodes: Sequence[Node], earlier: iterations.Earlier) -> bool:
    """Whether a trip backwards goes through what such a node gives, in a way that is one of a higher order."""
    graph = Graph("backward")
    graph.nodes = list(nodes)
    return bool(_found(graph, earlier))


def _found(graph: Graph, earlier: iterations.Earlier) -> list[Node]:
    """The nodes for one loop, in nested regions too."""
    own = [n for n in graph.nodes if _is_for(n, earlier)]
    return own + [n for m in graph.nodes for r in m.regions.values() for n in _found(r, earlier)]


def _is_for(node: Node, earlier: iterations.Earlier) -> bool:
    return node.op == iterations.EARLIER and node.args[0].loop == earlier.loop


def _route(
    x: Any,
    node: Node,
    graph: FuncGraph,
    keys: Sequence[Any],
    earlier: iterations.Earlier,
    taken: set[int],
) -> list[int]:
    """The inputs of the loop by which a tensor enters it, but for those by which one of the same value does (``taken``)."""
    found = set(_entries(x, node, graph, keys, earlier))
    own = sorted(found - taken)
    taken |= found
    return own


def _entries(
    x: Any, node: Node, graph: FuncGraph, keys: Sequence[Any], earlier: iterations.Earlier
) -> list[int]:
    """The inputs of the loop that are a tensor from outside."""
    found = _inputs_of(x, node, graph, keys)
    if not found and x is not earlier.apart and not _is_left_out(x, node, graph):
        raise GradientError(
            "a gradient that is taken inside of a staged loop goes through the loop's state back to a view of a tensor that the loop "
            "uses. Take it after the loop, or detach() the state at the start of the body.",
            earlier.location,
        )
    return sorted(found)


def _is_left_out(x: Any, node: Node, graph: FuncGraph) -> bool:
    """Whether a tensor is a leaf that the loop does not take: what held it when an iteration began does so when it ends, and is no state (a parameter that code swaps for a while)."""
    value, x = value_of(x, graph), as_symbolic(x)
    if not x.is_leaf or x.chain or (value.node is not None and value.node.op != "tg.read"):
        return False
    held = value.node.args[0] if value.node is not None else value
    given = [a for a in node.args[: node.kwargs["carried"]] if isinstance(a, Value)]
    return not any(a.node is not None and held in a.node.inputs for a in given)


def _inputs_of(x: Any, node: Node, graph: FuncGraph, keys: Sequence[Any]) -> set[int]:
    value, x = value_of(x, graph), as_symbolic(x)
    carried = node.kwargs["carried"]
    found = {i for i, a in enumerate(node.args) if a is value}
    return found | {carried + j for j, key in enumerate(keys) if key is x.storage_ and not x.chain}


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
    """``trip``: one iteration backwards. ``told``: of the flags that it takes behind its sums, the state of whose cotangent one tells. ``routes``: of each tensor outside, the inputs it enters by.
    ``leaves``: the state whose leaves gradients are asked of. ``kept``: the inputs that it needs besides. ``kinds``: of the context. ``lists``: the state that begins as a list whose items have a history.
    """

    earlier: iterations.Earlier
    trip: Graph
    told: list[int | None]
    routes: list[list[int]]
    state: list[int]
    sums: list[int]
    leaves: Kept
    kept: list[int]
    kinds: list[Any]
    carried: int
    places: set[int]
    lists: list[int]

    def __post_init__(self) -> None:
        saved = len(self.trip.inputs) - len(self.trip.outputs) - len(self.kept)
        self.orders = Orders(
            self.earlier.loop,
            self._first,
            [tensor_type(as_symbolic(x).meta) for x in self.earlier.outside],
            self.kinds,
            [1 + j for j in range(saved)],
            [self.carried + j for j in range(saved)],
            [1 + saved + i for i in self.kept if i not in self.state],
            [[1 + saved + i for i in route] for route in self.routes],
        )

    def run(self, graph: Graph, context: list[Value]) -> None:
        """Replace the nodes in a graph; ``context`` is what stands there for (count, lists, inputs of the body)."""
        made: dict[Value, Value] = {}
        nodes: list[Node] = []
        for node in graph.nodes:
            node.replace_inputs(lambda v: made.get(v, v))
            if _is_for(node, self.earlier) and self.places.issuperset(node.args[0].places):
                block = Graph("block")
                outs = self._put(block, node, context)
                for n in block.nodes:
                    n.grad, n.location = node.grad, node.location
                if not node.grad:
                    without_gradient(block)
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

    def _put(self, graph: Graph, node: Node, context: list[Value]) -> list[Any]:
        past, given, outside = node.args
        if past.order > 1:
            return self.orders.put(graph, past, given, outside, context)
        starts, leaves = dict(zip(past.places, given)), node.kwargs["leaves"]
        return self._loop(graph, starts, leaves, context, node.grad)

    def _first(self, graph: Graph, places: Sequence[int], given: list[Value], context: list[Value]) -> list[Value]:  # fmt: skip
        return self._loop(graph, dict(zip(places, given)), (), context, True)

    def _loop(
        self,
        graph: Graph,
        given: dict[int, Value],
        leaves: Sequence[int],
        context: list[Value],
        again: bool,
    ) -> list[Value]:
        """The ``While`` through the iterations so far, and from it the cotangents of the tensors outside.

        It ends when there are no cotangents, or all are zeros, but not where it is to be differentiated (``again``): by these, too.
        """
        trip = copied(self.trip, ordered=True)
        carried = len(trip.outputs)
        saved = len(trip.inputs) - carried - len(self.kept)
        count, lists, inputs = context[0], context[1 : 1 + saved], context[1 + saved :]
        starts = [given.get(i) or _zeros(graph, inputs[i]) for i in self.state]
        totals: list[Any] = [_zeros(graph, inputs[i]) for i in self.sums]
        totals += self.leaves.starts([_zeros(graph, inputs[i]) for i in self.leaves.places])
        fixed = [inputs[i] for i in self.kept]
        flags = [i in given for i in self.told]
        loop = Node(
            "While",
            (count, *starts, *totals, *flags, *lists, *fixed),
            {"carried": carried},
            [v.type for v in trip.inputs[:carried]],
            regions={"cond": self._more(trip, len(totals), again), "body": trip},
        )
        graph.nodes.append(loop)
        by_input = dict(zip([*self.state, *self.sums], loop.outputs[1:]))
        for i in self.lists:
            some = append(graph, "tg.handle_any", by_input[i], type=BOOL)
            none = append(graph, "py.not", some, type=BOOL)
            graph.nodes.append(Node("tg.assert", (none, "tg.GradientError", (_ITEMS,))))
        found = [
            self._total(graph, [by_input[i] for i in route if i in by_input], out)
            for route, out in zip(self.routes, self.orders.outside)
        ]
        ends = loop.outputs[1 + len(starts) : 1 + len(starts) + len(totals)]
        by_leaf = dict(zip(self.leaves.places, self.leaves.split(ends)))
        for i in leaves:
            g, some, opens = by_leaf[i]
            found += [g, append(graph, "py.not", any_open(graph, opens), type=BOOL), some]
        return found

    def _more(self, trip: Graph, totals: int, again: bool) -> Graph:
        """Whether iterations are left, and a cotangent: one that is not zero, where no flags tell."""
        cond = Graph("cond")
        cond.inputs = [Value(v.type) for v in trip.inputs]
        cond.input_names = [""] * len(cond.inputs)
        left = append(cond, "py.gt", cond.inputs[0], 0, type=BOOL)
        cotangents, first = cond.inputs[1 : 1 + len(self.state)], 1 + len(self.state) + totals
        told = [cond.inputs[first + k] for k, i in enumerate(self.told) if i is not None]
        if not again and all(isinstance(v.type, TensorType) for v in cotangents):
            flags = told or [_not_zero(cond, v) for v in cotangents]
            if flags:
                left = append(cond, "py.and_", left, any_of(cond, flags), type=BOOL)
        cond.outputs = [left]
        return cond

    def _total(self, graph: Graph, parts: list[Value], kind: Type) -> Value:
        if not parts:
            return zeros(graph, kind, None)
        total = parts[0]
        for part_ in parts[1:]:
            total = append(graph, "aten.add.Tensor", total, part_, type=total.type)
        return total


def _has_items(begin: Any, graph: FuncGraph) -> bool:
    """Whether state begins as a list with items that have a history."""
    x = graph.sources.get(begin)
    return x is not None and not isinstance(begin.type, TensorType) and x.requires_grad


def _zeros(graph: Graph, like: Value) -> Value:
    static = is_static(like.type)
    return zeros(graph, like.type, None if static else like)


def _not_zero(graph: Graph, v: Value) -> Value:
    """Whether a tensor has an element that is not zero."""
    assert isinstance(v.type, TensorType)
    mask, one = (TensorType(torch.bool, shape, v.type.device) for shape in (v.type.shape, ()))
    some = append(graph, "aten.ne.Scalar", v, 0, type=mask)
    return append(graph, "py.bool", append(graph, "aten.any.default", some, type=one), type=BOOL)


_RISING = (
    "a gradient with create_graph=True that is taken inside of a staged loop goes through the loop's state back into earlier iterations, and through the gradients that "
    "these have taken: each is of a higher order than the one before. Detach what the state is computed of, take the gradient after the loop, or let the loop have "
    "few iterations, by a number that is known while tracing (`for _ in range(4)`, with a `break` where it may end before, `range(min(n, 4))`, `while i < n and i < 4`)."
)

_ITEMS = (
    "a gradient that is taken inside of a staged loop goes through the loop's state back to an item of a list that was there before the loop. Take it after the loop, read "
    "the item in the iteration that takes the gradient, or detach() it."
)

iterations.EXPAND = expand
