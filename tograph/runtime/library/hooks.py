"""Gradient hooks of tensors in a graph: ``register_hook`` and ``retain_grad`` while tracing.

torch's own hook of a symbolic tensor acts on gradients that are taken while its graph is recorded. For gradients that
are taken of the graph, later or from outside, the hook is a node too: an identity whose gradient is what the hook makes
of the cotangent. Every use of the tensor's value, before and after the registration, becomes a use of that node's output.

Invariant: ``sources`` of the output is the tensor itself, so torch's history does not go through the node, and
each gradient passes the hook once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...errors import GradientError
from ..control_flow.picking import Picked, flat
from ..gradients import optional_grads
from ..gradients.own_gradients import HOOK
from ..graph.ir import Graph, Node, Value
from ..guarding import reads
from ..symbols.funcgraph import FuncGraph, Ref, current_graph, is_tracing, user_location
from ..symbols.symbolic import SymTensor, value_of
from ..values import flattening
from ..values.structure import is_union
from ..writes import hooked, list_reads
from . import custom, required


class Handle:
    """What ``register_hook`` returns: ``remove()`` takes the hook away again."""

    def __init__(self, plain: Any, x: SymTensor, node: Node | None, graph: FuncGraph):
        self._plain, self._x, self._node, self._graph = plain, x, node, graph

    def remove(self) -> None:
        """Remove the hook; GradientError in another branch or loop body than that of ``register_hook``."""
        self._plain.remove()
        if self._node is None:
            return
        if current_graph() is not self._graph:
            raise GradientError(
                "a gradient hook is removed in another branch, loop body or function than the one that registered it",
                user_location(),
            )
        node, self._node = self._node, None
        source, made = node.args[1], node.outputs[0]
        graph = self._graph.graph
        graph.nodes.remove(node)
        hooked.forget(node, self._graph)
        _replace(graph, made, source)
        stand_for(self._x, made, source, self._graph)


def register(x: torch.Tensor, hook: Callable[[Any], Any]) -> Any:
    """``x.register_hook(hook)``."""
    if not is_tracing():
        return _REGISTER(x, hook)
    graph = current_graph()
    if not isinstance(x, SymTensor):
        raise GradientError(
            "a hook is registered on a tensor that was made outside of the function, which would happen once, while the function "
            "is traced. Call register_hook outside of the function.",
            user_location(),
        )
    reads.follow_grad_mode()
    # torch's own nodes call hooks with None; of what a staged construct gives each is a tensor of its own
    staged = hasattr(x.grad_fn, "call")
    plain = _REGISTER(x, lambda g: None if g is None and staged else _applied(hook, g))
    value = value_of(x, graph)
    if not _own(x, graph):
        raise GradientError(
            "register_hook inside of a staged branch or loop, on a tensor that was made outside of it: whether the hook is there "
            "would depend on a value. Register it where the tensor is made, with a hook that tests the condition.",
            user_location(),
        )
    if list_reads.may_be_item(x):
        raise GradientError(_ITEM, user_location())
    options = _options(x)
    optional_grads.check(required.required(x), "RuntimeError", _UNREQUIRED)
    node = _node(x, value, hook)
    _place(graph.graph, node, value)
    _bypassed(x, node, value, graph)
    if options:
        hooked.note(node, {value_of(o, graph) for o in options}, graph)
    stand_for(x, value, node.outputs[0], graph)
    return Handle(plain, x, node, graph)


def _options(x: SymTensor) -> list[SymTensor]:
    """The tensors that a name may be, where a staged condition decides which."""
    picked = x.storage_
    if isinstance(picked, Picked) and not x.chain:
        return flat(picked.which, picked.options)[1]
    return []


def refuse(x: Any, why: str) -> None:
    """Refuse gradients through a tensor that are taken of the graph, not while it is recorded."""
    if not isinstance(x, SymTensor):
        return
    graph = current_graph()
    value = value_of(x, graph)
    node = _refusing(x, value, why)
    _place(graph.graph, node, value)
    stand_for(x, value, node.outputs[0], graph)


NAME = HOOK
_ITEM = (
    "register_hook on what may be an item of a list whose length depends on data: it would not see the gradients that come to the tensor by other names, or by another reading. "
    "Register it where the item is made, before it is put in the list."
)
_UNREQUIRED = "cannot register a hook on a tensor that doesn't require gradient"


def check_given(graph: FuncGraph, outputs: Sequence[Value]) -> None:
    """An error for an argument that leaves a function which has registered a hook on it: as itself it has none, and with one it is another tensor."""
    for v in outputs:
        node, first = v.node, v
        while first.node is not None and first.node.kwargs.get("name") == HOOK:
            first = first.node.args[1]
        if first.node is not None and first.node.op == "tg.read":
            first = first.node.args[0]
        if node is not None and node.kwargs.get("name") == HOOK and first in graph.graph.inputs:
            raise GradientError(_GIVEN, node.location)


_GIVEN = (
    "a hook is registered on an argument, which the function returns or keeps: there the hook would stay for what is computed of it later. Register it outside of the function, "
    "or return a tensor that is computed of the argument (`x * 1`)."
)


def _applied(hook: Callable[[Any], Any], g: Any) -> Any:
    """The cotangent that a hook makes of ``g``: None means that it stays."""
    made = custom.CONVERT(hook)(g)
    if is_union(made):
        options = [g if o is None else o for o in made.options_]
        return flattening.choose(made.tag_, options, current_graph())
    return g if made is None else made


def _own(x: SymTensor, graph: FuncGraph) -> bool:
    if x.storage_.argument is not None:
        return graph.outer is None
    return x.storage_.home is graph or (x.ref is not None and x.ref.graph is graph)


def _node(x: SymTensor, value: Value, hook: Callable[[Any], Any]) -> Node:
    refused: dict[str, Any] = {}
    try:
        region = custom.gradient_region([value], lambda g: _applied(hook, g), [x], [0])
    except GradientError as error:
        # It still acts on gradients that are taken while this graph is recorded: refused is only what the node is for.
        region = custom.gradient_region([value], lambda g: g, [x], [0])
        refused = {"refused": error.args[0]}
    return custom.call_of([value], [value], region.graph, NAME, **refused)


def _place(graph: Graph, node: Node, value: Value) -> None:
    """Put a node in front of the first use of ``value``, whose uses become uses of its output.

    What the hook itself is computed from keeps the value.
    """
    needed = ancestors(node)
    rest = [n for n in graph.nodes if value in n.inputs and n is not node and n not in needed]
    first = graph.nodes.index(rest[0]) if rest else len(graph.nodes) - 1
    if not needed.isdisjoint(graph.nodes[first:-1]):
        raise GradientError(
            "a hook is registered on a tensor that was used before, and the hook uses values that were computed later. Register it "
            "before the first use of the tensor.",
            user_location(),
        )
    graph.nodes.remove(node)
    _take_instead(rest, value, node.outputs[0])
    graph.nodes.insert(first, node)


def _bypassed(x: SymTensor, node: Node, value: Value, graph: FuncGraph) -> None:
    """Refuse gradients that come to ``x`` by way of what its hook is computed from: they would pass by the hook."""
    needed = ancestors(node)
    users = [n for n in graph.graph.nodes if value in n.inputs and n in needed]
    users = [n for n in users if n.grad and n.op != "aten.detach.default"]
    if not users:
        return
    nodes, first = graph.graph.nodes, graph.graph.nodes.index(users[0])
    before = len(nodes)
    other = graph.emit("aten.alias.default", value, type=value.type)  # a tensor of its own to torch
    guard = _refusing(x, other, _BYPASSED)
    made, nodes[before:] = nodes[before:], []
    nodes[first:first] = made
    for user in users:
        user.replace_inputs(lambda v: guard.outputs[0] if v is value else v)


_BYPASSED = "a gradient comes to a tensor with a hook by way of values that the hook itself is computed from: detach what it uses"


def _refusing(x: SymTensor, value: Value, why: str) -> Node:
    """A node that gives a value as it is, and that no gradient passes."""
    region = custom.gradient_region([value], lambda g: g, [x], [0])
    return custom.call_of([value], [value], region.graph, NAME, refused=why)


def ancestors(node: Node) -> set[Node]:
    """The nodes that a node's inputs are computed by."""
    seen: set[Node] = set()
    todo = [v.node for v in node.inputs]
    while todo:
        n = todo.pop()
        if n is not None and n not in seen:
            seen.add(n)
            todo += [v.node for v in n.inputs]
    return seen


def _take_instead(nodes: Sequence[Node], old: Value, new: Value) -> None:
    """Let nodes take ``new`` for ``old``; so it stands in what autograd knows of those with regions, which asks by which inputs gradients come."""
    sources = current_graph().sources
    for node in nodes:
        node.replace_inputs(lambda v: new if v is old else v)
        tensors = (sources.get(v) for v in node.outputs) if node.regions else ()
        for call in {getattr(x.grad_fn, "call", None) for x in tensors if x is not None} - {None}:
            if call.node is node:
                call.inputs = [new if v is old else v for v in call.inputs]
                call.ways.clear()


def _replace(graph: Graph, old: Value, new: Value) -> None:
    _take_instead([n for n in graph.nodes if old in n.inputs], old, new)


def stand_for(x: SymTensor, old: Value, new: Value, graph: FuncGraph) -> None:
    """``x`` and its storage stand for ``new`` from here on; so does what torch has saved of ``x``, which is read anew."""
    storage = x.storage_
    if storage.ref is not None and storage.ref.value is old:
        storage.location().set(Ref(new, graph))
    if graph.known.get(storage) is old:
        graph.known[storage] = new
    x.ref, x.version = Ref(new, graph), storage.version
    graph.sources[new] = x


def again(node: Node, x: SymTensor, made: Value, gradient: Callable[[Any], Any]) -> SymTensor:
    """The hook ``node`` of a graph that is recorded again, as ``made``, on ``x``: what stands for its output."""

    def hook(g: Any) -> Any:
        if g is None:
            return None
        if "refused" in node.kwargs:
            raise GradientError(node.kwargs["refused"], node.location)
        return gradient(g)

    graph = current_graph()
    if x.requires_grad:
        _REGISTER(x, hook)
        stand_for(x, value_of(x, graph), made, graph)
    return x


_REGISTER = torch.Tensor.register_hook
SymTensor.register_hook = register
