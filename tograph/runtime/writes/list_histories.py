"""Lists of the graph that a loop carries, in a gradient that is taken in its body: items of earlier iterations have their history there.

That is not followed. A list at the start of an iteration is a function of what it may depend on (``begun``), so that items read from it require
grad, and a gradient of something else goes past it. A cotangent that comes to it is an error where it is not zero: of items
that the iteration itself has put in, the ops of lists leave zeros for all others (``_Zeros`` sees it in the graph, else a run looks).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ...errors import GradientError
from ..graph.families import ZEROS
from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import lead
from ..graph.types import BOOL, TensorType
from ..symbols.carrier import carrier
from ..symbols.funcgraph import FuncGraph, current_graph, user_location
from ..symbols.symbolic import value_of

_END = 2**63 - 1
_REFUSED = (
    "a gradient that is taken inside of a staged loop goes through items of a list that were put in before this iteration. "
    "Take it after the loop, or detach() what is put in the list."
)


def begun(value: Value, graph: FuncGraph, behind: Sequence[torch.Tensor]) -> None:
    """The list ``value`` as an iteration begins has items with a history, which leads to the tensors ``behind``."""
    if behind:
        with torch.enable_grad():
            graph.sources[value] = _Begun.apply(value, graph, *behind)


class _Begun(torch.autograd.Function):
    """A list as an iteration begins."""

    @staticmethod
    def forward(ctx: Any, value: Value, graph: FuncGraph, *behind: torch.Tensor) -> Any:
        ctx.set_materialize_grads(False)
        ctx.count, ctx.looked, ctx.items_of = len(behind), False, value
        return carrier(value, graph)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if grad is not None:
            ctx.looked = _refuse(value_of(grad, current_graph())) or ctx.looked
        return None, None, *[None] * ctx.count


def led_to(nodes: Iterable[Any]) -> list[Any]:
    """The lists of earlier iterations among ``nodes`` of autograd. Behind a gradient they know whether a run ``looked`` at a cotangent."""
    found = [n for n in nodes if isinstance(n, _Begun._backward_cls)]
    for node in found:
        node.looked = False
    return found


def _refuse(cotangent: Value) -> bool:
    """An error where a cotangent is not zero, and where that is to be differentiated again; whether a run has to look."""
    if _Zeros().all(cotangent):
        return False
    if torch.is_grad_enabled():
        raise GradientError(_REFUSED, user_location())
    graph = current_graph()
    past = graph.emit("py.not", look(cotangent, graph), type=BOOL)
    node = graph.add("tg.assert", (past, "tg.GradientError", (_REFUSED,)))
    node.location = node.location or user_location()
    return True


def look(cotangent: Value, graph: FuncGraph) -> Value:
    """Whether a run has a number in a cotangent that is not zero."""
    item = getattr(cotangent.type, "element", None)
    if not isinstance(item, TensorType) or None in item.shape:
        return graph.emit("tg.handle_any", cotangent, type=BOOL)
    there, some = _there(cotangent, item, graph), TensorType(torch.bool, (), item.device)
    return graph.emit("py.bool", graph.emit("aten.any.default", there, type=some), type=BOOL)


def both(a: Value, b: Value, first: Value, graph: FuncGraph) -> Value | None:
    """Whether a run has numbers that are not zero at one place, from ``first`` on, of two cotangents of a list; None where it is not asked."""
    item = getattr(a.type, "element", None)
    if not isinstance(item, TensorType) or None in item.shape:
        return None
    some = TensorType(torch.bool, (), item.device)
    rows = TensorType(torch.bool, (None,), item.device)
    found = [_there(x, item, graph) for x in (a, b)]
    if item.shape:
        dims = list(range(1, len(item.shape) + 1))
        found = [graph.emit("aten.any.dims", x, dims, type=rows) for x in found]
    same = graph.emit("aten.logical_and.default", *found, type=rows)
    same = graph.emit("aten.slice.Tensor", same, 0, first, _END, type=rows)
    return graph.emit("py.bool", graph.emit("aten.any.default", same, type=some), type=BOOL)


def _there(cotangent: Value, item: TensorType, graph: FuncGraph) -> Value:
    """For each number of the items whether it is not zero."""
    rows = TensorType(item.dtype, (None, *item.shape), item.device)
    device = torch.device(item.device)
    whole = graph.emit("tg.list_stack", cotangent, item.dtype, item.shape, device, type=rows)
    flags = TensorType(torch.bool, rows.shape, item.device)
    return graph.emit("aten.ne.Scalar", whole, 0, type=flags)


class _Zeros:
    """What the graph tells of cotangents; ``given``: what stands for the inputs of regions."""

    def __init__(self) -> None:
        self.given: dict[Value, Any] = {}

    def found(self, x: Any) -> Any:
        """What a region is given for a value."""
        while isinstance(x, Value) and x in self.given:
            x = self.given[x]
        return x

    def all(self, x: Any) -> bool:
        """Whether a cotangent is zeros."""
        v = self.found(x)
        node = v.node if isinstance(v, Value) else None
        if node is None:
            return False
        if node.op == "tg.handle_add":
            return all(map(self.all, node.args))
        if node.op == "tg.list_pop" and v.index == 0:
            return self.beside(node.args[0], node.args[1])
        if node.op == "tg.list_set":
            return self.all(node.args[2]) and self.beside(node.args[0], node.args[1])
        if node.op == "If":
            return all(self._left(node, r, v.index) for r in node.regions.values())
        return node.op in ("tg.handle_zeros", *ZEROS)

    def _left(self, node: Node, region: Graph, index: int) -> bool:
        self.given.update(zip(region.inputs, node.args[lead(node) :]))
        return index < len(region.outputs) and self.all(region.outputs[index])

    def beside(self, x: Any, at: Any) -> bool:
        """The same for all items but the one at an index."""
        v = self.found(x)
        node = v.node if isinstance(v, Value) else None
        if node is None:
            return False
        if node.op == "tg.handle_add":
            return all(self.beside(a, at) for a in node.args)
        if node.op == "tg.list_set" and self._same(node.args[1], at):
            return self.beside(node.args[0], at)
        if node.op == "tg.list_push" and self._same(-1, at):
            return self.all(node.args[0])
        if node.op == "tg.list_spread" and self._same(-1, at):
            return node.args[1:4] == (-1, None, None) and self.beside(node.args[0], at)
        return self.all(v)

    def _same(self, a: Any, b: Any) -> bool:
        a, b = self.found(a), self.found(b)
        return a is b or (type(a) is int and type(b) is int and a == b)
