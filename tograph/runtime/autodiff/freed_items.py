"""Gradients that come to what may be freed by an item of a list, and by that alone: which item it is only the run knows.

Of a node of autograd that ends in one item of a list the run looks at what comes to it: what is not zero has come by that item, so that a node which was
freed is torch's error. A staged construct that has put several items in a list is one node for all of them: whether two items share what was
saved is not known then, and the run is refused. A gradient that is zeros there frees nothing, and needs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ...errors import GradientError
from ..gradients import optional_grads
from ..graph.ir import Value
from ..graph.rewrite import lead
from ..graph.types import BOOL, INT, ListType
from ..symbols.funcgraph import FuncGraph, Ref, current_graph, user_location
from ..symbols.symbolic import value_of
from ..writes import freed, list_histories
from .apart_items import puts_one, read_once
from .by_items import by_items_alone, in_order, takes_items

_REFUSED = (
    "a gradient goes through items that a staged loop or branch has put in a list, behind another gradient that went through items of that list and freed what they have "
    "saved: whether that is the same is not known. Specify retain_graph=True in the first, or add up the items and take one gradient."
)
_IN_LOOP = (
    "a gradient that is taken inside of a staged loop goes through an item of a list from before the loop, and frees what that has saved: whether an earlier iteration "
    "has freed the same is not known. Specify retain_graph=True, or add up the items and take one gradient."
)
Cotangents = Sequence[tuple[int, torch.Tensor]]  # each with the output of the node that it comes to


def by_items(outputs: Sequence[torch.Tensor], nodes: Sequence[Any]) -> Sequence[Any]:
    """Those of ``nodes`` that a gradient of ``outputs`` comes to by items of lists, that another one has freed so, or that put such items in."""
    order = in_order([o.grad_fn for o in outputs if o.grad_fn is not None])
    partly = current_graph().root.freed_by

    def alone(node: Any) -> bool:
        return by_items_alone(outputs, order, lambda found, _: found is node)

    return [n for n in nodes if n in partly or alone(n)]


@contextmanager
def _arriving(
    nodes: Sequence[Any], outputs: Sequence[torch.Tensor], again: Sequence[Any]
) -> Iterator[freed.Arrived]:
    """As of ``freed.ARRIVING``."""
    arrived: freed.Arrived = {}
    here = current_graph()

    def hook_of(node: Any) -> Any:
        def hook(grads: Sequence[Any]) -> None:
            if current_graph() is here:
                arrived[node] = [(k, g) for k, g in enumerate(grads) if g is not None]
                if node in again:
                    _refuse(node, arrived[node], here)

        return node.register_prehook(hook)

    handles = [hook_of(n) for n in {*_not_surely(nodes, outputs), *again}]
    try:
        yield arrived
    finally:
        for handle in handles:
            handle.remove()


def _not_surely(nodes: Sequence[Any], outputs: Sequence[torch.Tensor]) -> list[Any]:
    """Those of ``nodes`` that ``outputs`` lead to by items of lists only."""
    if not any(takes_items(n) for n in nodes):
        return []
    roots = [o.grad_fn for o in outputs if o.grad_fn is not None]
    surely = set(roots)
    for node in in_order(roots):
        if node in surely and not takes_items(node):
            surely.update(n for n, _ in node.next_functions)
    # whether a staged construct saves is known behind the gradient
    return [n for n in nodes if n not in surely and (hasattr(n, "call") or freed.saves(n))]


def _refuse(node: Any, grads: Cotangents, graph: FuncGraph) -> None:
    """An error of a run in which what comes to a node is not zero, and was not zero in a gradient that has freed it."""
    before = graph.root.freed_by.get(node) if graph.within(graph.root.freed[node]) else None
    if _gives_items(node) and before is not None:
        _refuse_items(node, grads, before, graph)
        return
    fails = _some(grads, graph)
    if fails is not None and before is not None:
        fails = _both(fails, _some(before, graph), graph)
    _fail(fails, "RuntimeError", freed.MESSAGE, graph)


def _refuse_items(node: Any, grads: Cotangents, before: Cotangents, graph: FuncGraph) -> None:
    """The same of a construct that has put items into lists: an item that was freed, or may share what was."""
    for n, g in grads:
        for k, b in before:
            own = n == k and puts_one(node.call.node, node.indices[n])
            same = _same(node, n, g, b, graph) if own else None
            if same is not None:
                _fail(same, "RuntimeError", freed.MESSAGE, graph)
            else:
                fails = _both(_some([(n, g)], graph), _some([(k, b)], graph), graph)
                _fail(fails, "tg.GradientError", _REFUSED, graph)


def _same(node: Any, n: int, g: torch.Tensor, b: torch.Tensor, graph: FuncGraph) -> Value | None:
    """Whether a run has numbers that are not zero in two cotangents of one item that a loop has put in."""
    loop = node.call.node
    given = graph.resolve(Ref(loop.args[lead(loop) + node.indices[n]], node.call.graph))
    first = graph.emit("tg.list_size", given, type=INT)
    return list_histories.both(_value(g, graph), _value(b, graph), first, graph)


def _both(a: Value | None, b: Value | None, graph: FuncGraph) -> Value | None:
    return None if a is None or b is None else graph.emit("py.and_", a, b, type=BOOL)


def _fail(fails: Value | None, kind: str, text: str, graph: FuncGraph) -> None:
    if fails is not None:
        optional_grads.check(graph.emit("py.not", fails, type=BOOL), kind, text)


def _gives_items(node: Any) -> bool:
    call = getattr(node, "call", None)
    return call is not None and any(isinstance(v.type, ListType) for v in call.node.outputs)


def _value(g: torch.Tensor, graph: FuncGraph) -> Value:
    return value_of(g.detach(), graph)


def _some(grads: Cotangents, graph: FuncGraph) -> Value | None:
    """Whether a run has a number in one of some cotangents that is not zero."""
    found: Value | None = None
    for _, g in grads:
        with torch.no_grad():
            value = _value(g, graph)
            if isinstance(value.type, ListType):
                there = list_histories.look(value, graph)
            else:
                there = graph.emit("py.bool", value_of((g.detach() != 0).any(), graph), type=BOOL)
        found = there if found is None else graph.emit("py.or_", found, there, type=BOOL)
    return found


def _once(outputs: Sequence[torch.Tensor], nodes: Sequence[Any], body: FuncGraph) -> bool:
    """As of ``freed.ONCE``."""
    read = read_once(outputs, body)
    once = body.root.once
    # another reading may be, in a later iteration, what this one is now
    if read is not None and all(once.get((body, n), read) == read for n in nodes):
        once.update(dict.fromkeys(((body, n) for n in nodes), read))
        return True
    if body.settled:
        raise GradientError(_IN_LOOP, user_location())
    return False


freed.ARRIVING, freed.ONCE = _arriving, _once
