"""Gradients with respect to what a staged construct gives, where that is, on some path, a tensor from before it: ``a = w if c else 2 * w``, then a gradient of ``a * w``.

In eager PyTorch both names are one tensor there, and the gradient has what comes by either. An output of an ``If`` or ``While`` is a value of its
own, so the regions give a flag besides: where it holds, the gradient is that of the tensor from before. A ``While`` passes its state where it has no iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ...errors import GradientError
from ..graph.ir import Graph, Node, Value
from ..graph.ordering import always_fails
from ..graph.rewrite import ALTERNATIVES, add_input, copied, lead, splice
from ..graph.types import BOOL
from ..library import grads
from ..symbols.funcgraph import FuncGraph, Ref, current_graph, user_location
from ..writes import histories
from .connect import Call
from .graphs import append

Flag = bool | Value


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
        elif id(y) in joined and joined[id(y)].node in here.graph.nodes:
            found += [(i, *one, True) for one in _beside(y, joined[id(y)], here, outputs)]
    return found


def _beside(
    y: Any, value: Value, graph: FuncGraph, outputs: Sequence[torch.Tensor]
) -> Iterator[tuple[torch.Tensor, Value]]:
    origins = dict.fromkeys(v for v in _origins(value) if v in graph.sources)
    before = [v for v in origins if graph.sources[v].requires_grad]
    if not before:
        return
    used = histories.used(outputs, lambda node: node is y.grad_fn)
    for v in before:
        if histories.edge(graph.sources[v]) in used:
            flag = _Flags({v: True}).of(graph.graph, value)
            if isinstance(flag, Value):
                yield graph.sources[v], current_graph().resolve(Ref(flag, graph))


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
    skip = lead(node)
    places = {skip + k for r in _regions(node).values() for k in _inputs(r, r.outputs[v.index])}
    if node.op == "While":
        places.add(v.index)
    return [a for a in (node.args[k] for k in sorted(places)) if isinstance(a, Value)]


def _inputs(region: Graph, v: Value) -> set[int]:
    """The inputs of a region that a value of it may be."""
    if v in region.inputs:
        return {region.inputs.index(v)}
    return {k for a in _passed(v) for k in _inputs(region, a)}


def _follows(node: Node) -> bool:
    return node.op in (*ALTERNATIVES, "While", "Call") and "gradient" not in node.regions


def _regions(node: Node) -> dict[str, Graph]:
    return {k: r for k, r in node.regions.items() if k != "cond" and not always_fails(r)}


class _Flags:
    """Whether values are those ``known``, in their graphs."""

    def __init__(self, known: dict[Value, Flag]):
        self.known = known

    def of(self, graph: Graph, v: Value) -> Flag:
        if v not in self.known:
            self.known[v] = self._found(graph, v)
        return self.known[v]

    def _found(self, graph: Graph, v: Value) -> Flag:
        node = v.node
        if node is None or not _passed(v):
            return False
        if node.op == "tg.read":
            return self.of(graph, node.args[0])
        return self._state(graph, node, v) if node.op == "While" else self._chosen(graph, node, v)

    def _chosen(self, graph: Graph, node: Node, v: Value) -> Flag:
        """What the regions say, as a further output of their node."""
        rows: dict[str, Flag] = {}
        for name, region in _regions(node).items():
            out = region.outputs[v.index]
            for k in _inputs(region, out):
                flag = self.of(graph, node.args[lead(node) + k])
                inner = add_input(node, flag)[name] if isinstance(flag, Value) else flag
                self.known[region.inputs[k]] = inner
            rows[name] = self.of(region, out)
        if all(flag is False for flag in rows.values()):
            return False
        for name, region in node.regions.items():
            flag = rows.get(name, False)
            region.outputs.append(flag if isinstance(flag, Value) else append(region, "py.constant", flag, type=BOOL))  # fmt: skip
        node.outputs.append(Value(BOOL, node, len(node.outputs)))
        return node.outputs[-1]

    def _state(self, graph: Graph, node: Node, v: Value) -> Flag:
        """Whether a loop had no iteration, and its state began as one of the values."""
        body = node.regions["body"]
        if any(self.of(graph, node.args[k]) is not False for k in _inputs(body, body.outputs[v.index])):  # fmt: skip
            raise GradientError(_REFUSED, user_location())
        flag = self.of(graph, node.args[v.index])
        if flag is False:
            return False
        block = Graph("block")
        (some,) = splice(copied(node.regions["cond"], True), node.args, block.nodes, False)
        none = append(block, "py.not", some, type=BOOL)
        if isinstance(flag, Value):
            none = append(block, "py.and_", none, flag, type=BOOL)
        at = graph.nodes.index(node)
        graph.nodes[at:at] = block.nodes
        return none


_REFUSED = (
    "a gradient is asked for with respect to a tensor that a staged loop gives, which may be one from before the loop, of a value that was also computed from that "
    "one by another name. Take the gradient inside of the loop, or give the loop a copy (`a = w.clone()` for `a = w`)."
)

grads.PASSING = passing
