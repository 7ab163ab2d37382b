"""Gradients that come to a tensor by way of an item of a list, and by that alone in some run: is it there, or None?

Which of the items of a list were computed of a tensor the graph does not keep, so ``paths`` takes what is read from a list for computed of all that is in it, and the
gradient for zeros where that is not so. Eager PyTorch has None there, or an error. A run in which such a gradient is zeros is refused: one that is not zeros has come there.
Nothing is to be asked where each item that a list may ever hold was computed of the tensor, or what is differentiated surely was in another way.

Of each value it is known whether it ``may`` have been computed of a tensor, whether it may so by an item that was taken from a list of which others were not (``listed``), and whether
it ``surely`` was; of a list the last is that of all that it may hold. All of it is known while tracing, of branches and loops on all their paths together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ..gradients import optional_grads
from ..graph.families import ALTERNATIVES
from ..graph.ir import Graph, Node, Value
from ..graph.ordering import always_fails
from ..graph.rewrite import lead
from ..graph.types import BOOL, ListType
from ..library import grads
from ..symbols.carrier import differentiable
from ..symbols.funcgraph import current_graph
from ..symbols.symbolic import value_of
from ..writes import iterations
from .dependence import CELL, stops
from .paths import Way

_WHOLE = ("tg.list_stack", "tg.list_concat", "tg.list_push", "tg.list_insert", "tg.list_extend", "tg.list_reserve")  # what takes all that is in a list  # fmt: skip
_REFUSED = (
    "a gradient comes to a tensor by way of an item of a list whose length depends on data, and is zero in this call: whether that item was computed of the tensor, so "
    "that the gradient is zeros, or is None, is not known. Keep what is computed of different tensors in lists of their own, or ask for the gradient of what is not in a list."
)


class Led(NamedTuple):
    may: bool
    listed: bool
    surely: bool


NOT = Led(False, False, False)
IS = Led(True, False, True)


def check(
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    found: Sequence[Any],
    ways: Sequence[Way],
) -> None:
    """An error of a run in which a gradient among ``found`` is zeros, and may be None."""
    for x, g, way in zip(inputs, found, ways):
        if g is not None and way is not False and _doubtful(outputs, x):
            _not_zero(g, way)


def _not_zero(g: torch.Tensor, way: Way) -> None:
    graph = current_graph()
    with torch.no_grad():
        some = value_of((g.detach() != 0).any(), graph)
    there = graph.emit("py.bool", some, type=BOOL)
    if isinstance(way, Value):
        there = graph.emit("py.or_", there, graph.emit("py.not", way, type=BOOL), type=BOOL)
    optional_grads.check(there, "tg.GradientError", _REFUSED)


def _doubtful(outputs: Sequence[torch.Tensor], x: torch.Tensor) -> bool:
    """Whether a gradient of ``outputs`` may come to ``x`` by an item of a list alone."""
    order = in_order([o.grad_fn for o in outputs if o.grad_fn is not None])
    if x.grad_fn is None:
        return any(_is_leaf(node, x) for node in order) and by_items_alone(outputs, order, lambda node, _: _is_leaf(node, x))  # fmt: skip
    own = (x.grad_fn, x.output_nr)
    return by_items_alone(outputs, order, lambda *edge: edge == own)


def by_items_alone(
    outputs: Sequence[torch.Tensor], order: Sequence[Any], is_wanted: Callable[[Any, int], bool]
) -> bool:
    """Whether a gradient of ``outputs``, which lead to the nodes ``order``, may come to some of these by an item of a list alone."""
    if not any(takes_items(node) for node in order):
        return False
    known: dict[tuple[Any, int], Led] = {}
    counts: dict[Any, int] = {o.grad_fn: 0 for o in outputs}
    for node in order:
        for following, n in node.next_functions:
            counts[following] = max(counts.get(following, 0), n)
    for node in reversed(order):
        for n in range(max(counts[node], _place(node, outputs)) + 1):
            known[node, n] = _of_node(node, n, is_wanted, known)
    ends = [known.get((o.grad_fn, o.output_nr), NOT) for o in outputs]
    return any(e.listed for e in ends) and not any(e.surely for e in ends)


def _place(node: Any, outputs: Sequence[torch.Tensor]) -> int:
    return max((o.output_nr for o in outputs if o.grad_fn is node), default=0)


def _is_leaf(node: Any, x: torch.Tensor) -> bool:
    leaf = getattr(node, "variable", None)
    return leaf is not None and getattr(leaf, "shown_", leaf) is x


def _of_node(
    node: Any, n: int, is_wanted: Callable[[Any, int], bool], known: Mapping[tuple[Any, int], Led]
) -> Led:
    """An output of a node of autograd."""
    if is_wanted(node, n):
        return IS
    before = [known.get(edge, NOT) for edge in node.next_functions]
    call = getattr(node, "call", None)
    if call is not None:
        given = {call.inputs[i]: led for i, led in zip(call.tensors, before)}
        return led_to(call.node, given)[node.indices[n]]
    led = _any(before)
    if hasattr(node, "items_of"):  # where a gradient comes to these they are an error already
        return Led(led.may, False, True)
    if iterations.is_state(node) or iterations.past_of(node) is not None:
        return led._replace(surely=False)
    return led


def takes_items(node: Any) -> bool:
    """Whether a node of autograd takes items of lists."""
    return hasattr(node, "call") and _takes_items(node.call.node)


def in_order(roots: Sequence[Any]) -> list[Any]:
    """The nodes that some lead to, each before those that it leads to."""
    done: dict[Any, None] = {}
    seen = set()
    todo = [(node, False) for node in roots]
    while todo:
        node, left = todo.pop()
        if left:
            done[node] = None
        elif node not in seen:
            seen.add(node)
            todo.append((node, True))
            todo += [(n, False) for n, _ in node.next_functions if n is not None]
    return list(done)[::-1]


def _takes_items(node: Node) -> bool:
    """Whether something in a node is part of a list, and may not be all of it."""
    if not node.regions:
        return any(isinstance(v.type, ListType) for v in node.inputs) and node.op not in _WHOLE
    return any(_takes_items(n) for r in node.regions.values() for n in r.nodes)


def _any(found: Iterable[Led]) -> Led:
    """What is computed of all of these."""
    may, listed, surely = (any(x) for x in zip(NOT, *found))
    return Led(may, listed and not surely, surely)


def _of_paths(found: Sequence[Led]) -> Led:
    """What is the one or the other."""
    may, listed, _ = (any(x) for x in zip(NOT, *found))
    return Led(may, listed, all(x.surely for x in found))


def led_to(node: Node, known: Mapping[Value, Led]) -> list[Led]:
    """What is known of the outputs of a node from what is known of its inputs."""
    if stops(node):
        return [NOT] * len(node.outputs)
    if node.op == "While":
        return _loop(node, known)
    if node.regions and "gradient" not in node.regions:
        return _choice(node, known)
    led = [_given(v, known) for v in node.inputs if differentiable(v.type)]
    if node.op == CELL or node.op == "tg.written":
        return [_any(led)._replace(surely=False)] * len(node.outputs)
    if node.op == "tg.choose" or any(isinstance(v.type, ListType) for v in node.outputs):
        made = _of_paths(led)  # of an empty list all items are
    else:
        made = _any(led)
    if made.may and not made.surely and _takes_items(node):
        made = made._replace(listed=True)
    return [made] * len(node.outputs)


def _within(region: Graph, outer: Sequence[Led]) -> list[Led]:
    """The outputs of a region, from what its inputs are."""
    known = dict(zip(region.inputs, outer))
    for node in region.nodes:
        known.update(zip(node.outputs, led_to(node, known)))
    return [known.get(v, NOT) if differentiable(v.type) else NOT for v in region.outputs]


def _outer(node: Node, known: Mapping[Value, Led]) -> list[Led]:
    return [_given(a, known) if isinstance(a, Value) else NOT for a in node.args[lead(node) :]]


def _given(v: Value, known: Mapping[Value, Led]) -> Led:
    """An argument of a node: one without a history is not known, and may be an empty list."""
    node = v.node
    empty = node is not None and node.op in ("tg.list_new", "tg.list_of") and not node.inputs
    return known.get(v, NOT._replace(surely=True) if empty else NOT)


def _choice(node: Node, known: Mapping[Value, Led]) -> list[Led]:
    outer = _outer(node, known)
    regions = [r for r in node.regions.values() if not always_fails(r)]
    if node.op not in (*ALTERNATIVES, "Call"):
        return [_any(outer)._replace(surely=False)] * len(node.outputs)
    rows = [_within(r, outer) for r in regions]
    return [_of_paths([row[k] for row in rows if k < len(row)]) for k in range(len(node.outputs))]


def _loop(node: Node, known: Mapping[Value, Led]) -> list[Led]:
    """What is so before the loop and behind any iteration."""
    outer = _outer(node, known)
    count = node.kwargs["carried"]
    while True:
        after = _within(node.regions["body"], outer)[:count]
        joined = [_of_paths(pair) for pair in zip(outer[:count], after)]
        if joined == outer[:count]:
            return [*joined, *[NOT] * (len(node.outputs) - count)]
        outer[:count] = joined


grads.BY_ITEMS = check
