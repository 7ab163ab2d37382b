"""Lists of the graph that a loop carries, in a gradient that is taken in its body: items of earlier iterations have their history there.

That is not followed. A list at the start of an iteration is a function of what it may depend on (``begun``), so that items read from it require
grad, and a gradient of something else goes past it. A cotangent that comes to it is an error where it is not zero: of items
that the iteration itself has put in, the ops of lists leave zeros for all others (``_zeros`` sees it in the graph, else a run looks).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ...errors import GradientError
from ..graph.ir import Value
from ..graph.types import BOOL
from ..symbols.carrier import carrier
from ..symbols.funcgraph import FuncGraph, current_graph, user_location
from ..symbols.symbolic import value_of

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
        ctx.count, ctx.looked = len(behind), False
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
    if _zeros(cotangent):
        return False
    if torch.is_grad_enabled():
        raise GradientError(_REFUSED, user_location())
    graph = current_graph()
    past = graph.emit("py.not", graph.emit("tg.handle_any", cotangent, type=BOOL), type=BOOL)
    node = graph.add("tg.assert", (past, "tg.GradientError", (_REFUSED,)))
    node.location = node.location or user_location()
    return True


def _zeros(v: Any) -> bool:
    """Whether the graph tells that a cotangent is zeros."""
    node = v.node if isinstance(v, Value) else None
    if node is None:
        return False
    if node.op == "tg.handle_add":
        return all(map(_zeros, node.args))
    if node.op == "tg.list_pop" and v.index == 0:
        return _zeros_beside(node.args[0], node.args[1])
    if node.op == "tg.list_set":
        return _zeros(node.args[2]) and _zeros_beside(node.args[0], node.args[1])
    return node.op in ("tg.handle_zeros", "aten.zeros_like.default")


def _zeros_beside(v: Any, at: Any) -> bool:
    """The same for all items but the one at an index."""
    node = v.node if isinstance(v, Value) else None
    if node is None:
        return False
    if node.op == "tg.handle_add":
        return all(_zeros_beside(a, at) for a in node.args)
    if node.op == "tg.list_set" and _same(node.args[1], at):
        return _zeros_beside(node.args[0], at)
    if node.op == "tg.list_push" and _same(-1, at):
        return _zeros(node.args[0])
    if node.op == "tg.list_spread" and _same(-1, at) and node.args[1:4] == (-1, None, None):
        return _zeros_beside(node.args[0], at)
    return _zeros(v)


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is int and type(b) is int and a == b)
