"""Results that are views: made from the tensor they are views of, as eager PyTorch makes them.

Native code gives tensors of their own. Where two results share memory (``return y, y[0]``), or one has other strides than a new tensor
(``return y.t()``), the code gives the tensor behind them, and the views are taken of it afterwards. So are views of an input that the code does not
write (``return x[0]``): at a place that only the run knows (``return x[scores.argmax()]``) the code gives the numbers that say which. Of another tensor, a view
at such a place is not among these.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..graph import ops
from ..graph.ir import Graph, Node, Value, map_values
from ..graph.ordering import node_effects
from ..graph.rewrite import carried, passed
from ..graph.types import INT
from .groups import CLONE
from .views import VIEWS

_COPIES = frozenset(["aten.reshape.default", "aten._unsafe_view.default", CLONE])
VIEW_OPS = (VIEWS.keys() | {"aten.as_strided.default", "aten.view.dtype"}) - _COPIES


Steps = tuple[tuple[str, tuple[Any, ...], dict[str, Any], int], ...]


@dataclass(frozen=True)
class View:
    """A result: the last of ``values``, which their nodes make one of the other, the first of the tensor ``base``."""

    base: Value
    values: tuple[Value, ...]

    def steps(self, places: Mapping[Value, int]) -> Steps:
        """The ops that make it, each with what it takes besides the tensor, and which of its outputs counts; numbers of the run by their places."""
        made = [(v.node, v) for v in self.values]
        return tuple(
            (n.op, map_values(lambda x: Place(places[x]), n.args[1:]), n.kwargs, n.outputs.index(v))
            for n, v in made if n
        )  # fmt: skip

    @property
    def numbers(self) -> list[Value]:
        """Those that say where it is, which only the run knows."""
        return [x for v in self.values if v.node for x in v.node.inputs[1:]]


@dataclass(frozen=True)
class Place:
    """Where a number of the run is among the inputs and outputs of the code."""

    at: int


def view(x: torch.Tensor, steps: Steps, known: Sequence[Any]) -> Any:
    """The view of a tensor. ``known``: the inputs and outputs of the code."""
    for op, args, kwargs, i in steps:
        made = ops.lookup(op).run(x, *(_filled(a, known) for a in args), **kwargs)
        x = made if isinstance(made, torch.Tensor) else made[i]
    return x


def _filled(arg: Any, known: Sequence[Any]) -> Any:
    if isinstance(arg, Place):
        return known[arg.at]
    return [_filled(a, known) for a in arg] if isinstance(arg, list) else arg


def taken(graph: Graph, count: int | None, everywhere: bool = False) -> dict[Value, View]:
    """The results among the first ``count`` that share memory with another one or with an input, as views; all that can be with ``everywhere``."""
    inputs, written = set(graph.inputs), written_inputs(graph)
    found = {v: _view(v, inputs - written) for v in dict.fromkeys(graph.outputs[:count])}
    users = dict[Value, int]()
    for x in found.values():
        users[x.base] = users.get(x.base, 0) + 1
    return {
        v: x for v, x in found.items()
        if x.values and x.base not in written and (everywhere or users[x.base] > 1 or x.base in inputs)
    }  # fmt: skip


def written_inputs(graph: Graph) -> set[Value]:
    """The inputs that the graph writes: what is left in them is another value than what it has taken."""
    if all(n.op == "tg.assign" or not node_effects(n).writes for n in graph.nodes):
        return {n.args[0] for n in graph.nodes if n.op == "tg.assign"}
    return set(graph.inputs)


def _view(v: Value, inputs: Container[Value]) -> View:
    """``v`` as a view of what it is taken of, at a known place unless that is one of ``inputs``; of itself where it is none."""
    values: list[Value] = []
    known = View(v, ())
    fixed = True
    while v.node is not None and v.node.op in VIEW_OPS:
        node = v.node
        if node.inputs[0] is not node.args[0] or not _is_placed(node):
            break
        fixed = fixed and len(node.inputs) == 1
        values.append(v)
        v = node.args[0]
        if fixed or v in inputs:
            known = View(v, tuple(reversed(values)))
    return known


def _is_placed(node: Node) -> bool:
    """Whether what a view takes besides its tensor are integers."""
    more = node.inputs[1:]
    return not more or (not node.kwargs and all(x.type == INT for x in more))


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
    if node.op in VIEW_OPS or written:
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
    while v.node is not None and v.node.op in VIEW_OPS:
        place |= v.node.inputs != [v.node.args[0]]
        v = v.node.args[0]
    return place and v.node is not None and bool(v.node.regions) and bool(origins(v))


def without(outputs: Sequence[Value], views: Mapping[Value, View]) -> list[Value]:
    """The values that the code is to give."""
    given = [views[v].base if v in views else v for v in outputs]
    return list(dict.fromkeys([*given, *(n for v in outputs if v in views for n in views[v].numbers)]))  # fmt: skip
