"""Results that are views: made from the tensor they are views of, as eager PyTorch makes them.

Native code gives tensors of their own. Where two results share memory (``return y, y[0]``), or one has other strides than a new tensor
(``return y.t()``), the code gives the tensor behind them, and the views are taken of it afterwards. A view whose place only the run
knows is not among these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..graph import ops
from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import carried, passed
from .groups import CLONE
from .views import VIEWS

_COPIES = frozenset(["aten.reshape.default", "aten._unsafe_view.default", CLONE])
_VIEWS = (VIEWS.keys() | {"aten.as_strided.default", "aten.view.dtype"}) - _COPIES


Steps = tuple[tuple[str, tuple[Any, ...], dict[str, Any], int], ...]


@dataclass(frozen=True)
class View:
    """A result: the last of ``values``, which their nodes make one of the other, the first of the tensor ``base``."""

    base: Value
    values: tuple[Value, ...]

    @property
    def steps(self) -> Steps:
        """The ops that make it, each with what it takes besides the tensor, and which of its outputs counts."""
        made = [(v.node, v) for v in self.values]
        return tuple((n.op, n.args[1:], n.kwargs, n.outputs.index(v)) for n, v in made if n)


def view(x: torch.Tensor, steps: Steps) -> Any:
    """The view of a tensor."""
    for op, args, kwargs, i in steps:
        made = ops.lookup(op).run(x, *args, **kwargs)
        x = made if isinstance(made, torch.Tensor) else made[i]
    return x


def taken(graph: Graph, count: int | None, everywhere: bool = False) -> dict[Value, View]:
    """The results among the first ``count`` that share memory with another one, as views; all that can be with ``everywhere``."""
    found = {v: _view(v) for v in dict.fromkeys(graph.outputs[:count])}
    inputs, users = set(graph.inputs), dict[Value, int]()
    for x in found.values():
        users[x.base] = users.get(x.base, 0) + 1
    return {
        v: x for v, x in found.items()
        if x.values and x.base not in inputs and (everywhere or users[x.base] > 1)
    }  # fmt: skip


def _view(v: Value) -> View:
    """``v`` as a view of what it is taken of; of itself where it is none."""
    values: list[Value] = []
    while v.node is not None and v.node.op in _VIEWS:
        node = v.node
        if node.inputs != [node.args[0]]:
            break
        values.append(v)
        v = node.args[0]
    return View(v, tuple(reversed(values)))


def laid_out(
    outputs: Sequence[Value], views: dict[Value, View], orders: dict[Value, tuple[int, ...]], sizes: dict[Value, tuple[int, ...]]
) -> tuple[dict[Value, View], list[Node]]:  # fmt: skip
    """(``views`` where the code gives some tensors with their dims in other ``orders``, or as part of larger ones, the nodes that give these)."""
    made = {v: _turned(v, order) for v, order in orders.items()}
    made |= {v: _within(v, size) for v, size in sizes.items()}
    found = dict(views)
    for v in outputs:
        view = views.get(v, View(v, ()))
        if view.base in made:
            nodes, back = made[view.base]
            found[v] = View(nodes[-1].outputs[0], (*back, *view.values))
    return found, [node for nodes, _ in made.values() for node in nodes]


def _turned(v: Value, order: tuple[int, ...]) -> tuple[list[Node], list[Value]]:
    """A tensor with its dims in another order, and the tensor as a view of that."""
    shape = tuple(v.type.shape[d] for d in order)
    node = Node("aten.permute.default", (v, list(order)), types=[replace(v.type, shape=shape)])
    back = Node("aten.permute.default", (node.outputs[0], sorted(range(len(order)), key=order.__getitem__)), types=[v.type])  # fmt: skip
    return [node], [back.outputs[0]]


def _within(v: Value, size: tuple[int, ...]) -> tuple[list[Node], list[Value]]:
    """A larger tensor that has a tensor as its first part, and the way to that."""
    shape = list(v.type.shape)
    pads = [k for n, m in zip(reversed(size), reversed(shape)) for k in (0, n - m)]
    own = Node("tg.apart", (v,), types=[v.type])
    node = Node("aten.constant_pad_nd.default", (own.outputs[0], pads), types=[replace(v.type, shape=size)])  # fmt: skip
    x, back, now = node.outputs[0], list[Value](), list(size)
    for d, n in enumerate(shape):
        if now[d] != n:
            now[d] = n
            cut = Node("aten.slice.Tensor", (x, d, 0, n), types=[replace(v.type, shape=tuple(now))])
            x = cut.outputs[0]
            back.append(x)
    return [own, node], back


_MOVED = frozenset(["tg.identity", "tg.choose", "tg.read", "tg.written"])


def origins(v: Value) -> set[Value]:
    """The inputs of its graph that a value may be, or be a view of, or what is left in them by a write."""
    node = v.node
    if node is None:
        return {v}
    if node.regions:
        return _through_regions(node, v.index)
    written = node.op.startswith("update.") or "scatter" in node.op or node.op == "aten.copy.default"  # fmt: skip
    if node.op in _VIEWS or written:
        return origins(node.args[0])
    return set().union(*map(origins, node.inputs)) if node.op in _MOVED else set()


def _through_regions(node: Node, at: int) -> set[Value]:
    """The same of an output of a branch, a loop or a call."""
    args, state = passed(node), carried(node)
    todo, seen, found = [at], set[int](), set[Value]()
    while todo:
        i = todo.pop()
        if i in seen:
            continue
        seen.add(i)
        only = next(
            (r for r in ("body", "function") if r in node.regions and node.op != "Try"), None
        )
        regions = list(node.regions.values()) if only is None else [node.regions[only]]
        given = {args[i]} if state else set()
        for region in regions:
            for x in origins(region.outputs[i]):
                j = region.inputs.index(x)
                if j < state:
                    todo.append(j)
                given.add(args[j])
        found |= given
    return set().union(*(origins(x) for x in found if isinstance(x, Value)))


def is_lost(v: Value) -> bool:
    """Whether a result is a view, at a place that only the run knows, of what an ``If`` or a loop gives and may be an argument."""
    place = False
    while v.node is not None and v.node.op in _VIEWS:
        place |= v.node.inputs != [v.node.args[0]]
        v = v.node.args[0]
    return place and v.node is not None and bool(v.node.regions) and bool(origins(v))


def without(outputs: Sequence[Value], views: Mapping[Value, View]) -> list[Value]:
    """The values that the code is to give."""
    return list(dict.fromkeys(views[v].base if v in views else v for v in outputs))
