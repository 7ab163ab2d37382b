"""Gradients with respect to what a staged construct gives, where that is, on some path, a tensor from before it: ``a = w if c else 2 * w``, then a gradient of ``a * w``.

In eager PyTorch both names are one tensor there, and the gradient has what comes by either. An output of an ``If`` or ``While`` is a value of its
own, so the regions give a flag besides, which is state of a ``While``: where it holds, the gradient is that of the tensor from before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ..control_flow import leaf_names
from ..gradients import grad_fields
from ..graph.families import CONSTRUCTS
from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.ordering import always_fails
from ..graph.rewrite import add_input, add_state, lead
from ..graph.types import BOOL, Type
from ..library import grads
from ..symbols.funcgraph import FuncGraph, Ref, current_graph
from ..symbols.symbolic import SymTensor
from ..writes import iterations, two_names
from ..writes.edges import edge
from ..writes.edges import used as computed_from
from .connect import Call
from .graphs import append

Flag = int | Value  # a bool, or one of several numbers


def passing(
    outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
) -> list[tuple[int, torch.Tensor, Value, bool]]:
    """(i, x, flag, leaf) for the tensors x that ``inputs[i]`` may be and ``outputs`` were computed from by themselves; the last whose flag holds counts.

    ``leaf``: what a gradient ends at, so those of both names add up.
    """
    here, found = current_graph(), []
    joined = {id(x): value for x, value in here.root.joined}
    for i, y in enumerate(inputs):
        call = getattr(y.grad_fn, "call", None)
        if isinstance(call, Call):
            value = call.node.outputs[y.grad_fn.indices[y.output_nr]]
            found += [(i, *one, False) for one in _beside(y, value, call.graph, outputs)]
        elif id(y) in joined and here.within(graph := _home(y)):
            found += [(i, *one, True) for one in _beside(y, joined[id(y)], graph, outputs)]
    return found


def _home(y: Any) -> FuncGraph:
    """The graph that gives a leaf of regions."""
    return y.ref.graph


def _beside(
    y: Any, value: Value, graph: FuncGraph, outputs: Sequence[torch.Tensor]
) -> Iterator[tuple[torch.Tensor, Value]]:
    origins = dict.fromkeys(v for v in _origins(value) if v in graph.sources)
    before = [v for v in origins if graph.sources[v].requires_grad]
    if not before:
        return
    # What a node computed of a leaf that it gives leads through it, too.
    own = value.node in current_graph().root.tokens
    used = computed_from(outputs, lambda node: node is y.grad_fn and not own)
    for v in before:
        if edge(graph.sources[v]) in used:
            flag = Flags({v: True}).of(graph.graph, value)
            if isinstance(flag, Value):
                yield graph.sources[v], current_graph().resolve(Ref(flag, graph))


def stands_for(y: Any) -> list[tuple[torch.Tensor, Ref]]:
    """(x, flag) for the leaves x from before a construct that a tensor which it gives may be; the last whose flag holds counts."""
    told = None if iterations.is_state(y.grad_fn) else leaf_names.chosen(y)
    if told is not None:
        return [(getattr(x, "shown_", x), flag) for x, flag in told if _may_be_leaf(x)]
    here = current_graph()
    # A view is none of them. Of one whose base an iteration gave its first history torch cannot tell a grad_fn.
    call = None if y._is_view() else getattr(y.grad_fn, "call", None)
    if isinstance(call, Call):
        value, graph = call.node.outputs[y.grad_fn.indices[y.output_nr]], call.graph
    elif any(x is y for x, _ in here.root.joined) and here.within(y.ref.graph):
        value, graph = next(v for x, v in here.root.joined if x is y), y.ref.graph
    else:
        return []
    if value.node is None or not _follows(value.node) or value.node not in graph.graph.nodes:
        return []
    found = []
    for v in dict.fromkeys(v for v in _origins(value) if v in graph.sources):
        x = graph.sources[v]
        if x.requires_grad and _may_be_leaf(x):
            flag = Flags({v: True}).of(graph.graph, value)
            if isinstance(flag, Value):
                found.append((getattr(x, "shown_", x), Ref(flag, graph)))
    return found


def _may_be_leaf(x: Any) -> bool:
    """Whether a tensor is a leaf, on some path at least."""
    own = iterations.is_leaf(x) or getattr(x, "sometimes_", False) or bool(getattr(x, "mixed_", ""))
    return own or (isinstance(x, SymTensor) and bool(grad_fields.HELD(x) or stands_for(x)))


def _origins(v: Value) -> Iterator[Value]:
    """The values of its graph that a value may be, from the last to the first."""
    for arg in _passed(v):
        yield arg
        yield from _origins(arg)


def _passed(v: Value) -> list[Value]:
    """The arguments of its node that a value may be."""
    node = v.node
    if node is not None and node.op == "tg.read":
        return [node.args[0]]
    if node is None or not _follows(node):
        return []
    skip, state = lead(node), closed(node, v.index) if node.op == "While" else [v.index]
    regions = _regions(node).values()
    places = {skip + k for r in regions for i in state for k in inputs_of(r, r.outputs[i])}
    if node.op == "While":
        places.update(state)
    return [a for a in (node.args[k] for k in sorted(places)) if isinstance(a, Value)]


def inputs_of(region: Graph, v: Value) -> set[int]:
    """The inputs of a region that a value of it may be."""
    if v in region.inputs:
        return {region.inputs.index(v)}
    return {k for a in _passed(v) for k in inputs_of(region, a)}


def _follows(node: Node) -> bool:
    return node.op in CONSTRUCTS and "gradient" not in node.regions


def _regions(node: Node) -> dict[str, Graph]:
    return {k: r for k, r in node.regions.items() if k != "cond" and not always_fails(r)}


class Flags:
    """Whether values are those ``known``, in their graphs: of a graph, or of a region at any depth.

    ``kind``: of what is said of a value, which may be a number too; ``none``: what is said of one that is none of them.
    """

    kind: Type = BOOL
    none: Flag = False

    def __init__(self, known: dict[Value, Flag]):
        self.known = known

    def of(self, graph: Graph, v: Value) -> Flag:
        if v not in self.known:
            self.known[v] = self.found(graph, v)
        return self.known[v]

    def found(self, graph: Graph, v: Value) -> Flag:
        """What is said of a value that is not known."""
        node = v.node
        if node is None:
            return self.given(graph, v)
        if not (_passed(v) or (_follows(node) and self._makes(node))):
            return self.none
        if node.op == "tg.read":
            return self.of(graph, node.args[0])
        return self._state(graph, node, v) if node.op == "While" else self._chosen(graph, node, v)

    def given(self, graph: Graph, v: Value) -> Flag:
        """What is said of an input of a graph that is not known."""
        return self.none

    def _makes(self, node: Node) -> bool:
        """Whether a region of a node makes one of the values."""
        return any(map(self._own, _regions(node).values()))

    def _own(self, region: Graph) -> bool:
        nodes = set(all_nodes(region))
        return any(v.node in nodes for v, flag in self.known.items() if self._is_fixed(flag))

    def _is_fixed(self, flag: Flag) -> bool:
        """Whether a value is known to be one of them."""
        return not isinstance(flag, Value) and flag != self.none

    def _chosen(self, graph: Graph, node: Node, v: Value) -> Flag:
        """What the regions say, as a further output of their node."""
        rows: dict[str, Flag] = {}
        for name, region in _regions(node).items():
            out = region.outputs[v.index]
            for k in inputs_of(region, out):
                flag = self.of(graph, node.args[lead(node) + k])
                inner = add_input(node, flag)[name] if isinstance(flag, Value) else flag
                self.known[region.inputs[k]] = inner
            rows[name] = self.of(region, out)
        if all(flag == self.none for flag in rows.values()):
            return self.none
        for name, region in node.regions.items():
            region.outputs.append(self._as_value(region, rows.get(name, self.none)))
        node.outputs.append(Value(self.kind, node, len(node.outputs)))
        return node.outputs[-1]

    def _state(self, graph: Graph, node: Node, v: Value) -> Flag:
        """Whether the state of a loop ends as one of the values: state of the loop itself where an iteration may change it."""
        state = closed(node, v.index)
        body, skip = node.regions["body"], node.kwargs["carried"]
        starts = {k: self.of(graph, node.args[k]) for k in state}
        for k in sorted({k for i in state for k in inputs_of(body, body.outputs[i])}):
            if k < skip:
                continue
            flag = self.of(graph, node.args[k])
            self.known[body.inputs[k]] = (
                add_input(node, flag)["body"] if isinstance(flag, Value) else flag
            )
        if all(flag == self.none for flag in starts.values()) and not self._entered(body, state):
            return self.none
        inner = {k: Value(self.kind) for k in state}
        self.known.update((body.inputs[k], flag) for k, flag in inner.items())
        found = [self._as_value(body, self.of(body, body.outputs[k])) for k in state]
        begin = [self._as_start(node, graph, starts[k]) for k in state]
        behind = add_state(node, list(inner.values()), found, begin)
        self.known.update((node.outputs[k], end) for k, end in zip(state, behind))
        return self.known[v]

    def _entered(self, body: Graph, state: Sequence[int]) -> bool:
        """Whether an iteration may leave one of the values in ``state``."""
        if self._own(body):
            return True
        found = (k for i in state for k in inputs_of(body, body.outputs[i]))
        return any(self.known.get(body.inputs[k], self.none) != self.none for k in found)

    def _as_value(self, graph: Graph, flag: Flag) -> Value:
        made = isinstance(flag, Value)
        return flag if made else append(graph, "py.constant", flag, type=self.kind)

    def _as_start(self, node: Node, graph: Graph, flag: Flag) -> Value:
        """A flag as what a loop begins with."""
        if isinstance(flag, Value):
            return flag
        made = Node("py.constant", (flag,), {}, [self.kind], location=node.location)
        graph.nodes.insert(graph.nodes.index(node), made)
        return made.outputs[0]


def closed(node: Node, place: int) -> list[int]:
    """The places of a loop's state whose tensors may come to ``place``."""
    body, found, todo = node.regions["body"], {place}, [place]
    while todo:
        more = {k for k in inputs_of(body, body.outputs[todo.pop()]) if k < node.kwargs["carried"]}
        todo += more - found
        found |= more
    return sorted(found)


grads.PASSING = passing
grad_fields.STANDS_FOR = stands_for
two_names.STANDS_FOR = lambda y: [x for x, _ in grad_fields.STANDS_FOR(y)] if isinstance(y, SymTensor) else []  # fmt: skip
