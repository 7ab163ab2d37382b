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
from .groups import CLONE
from .views import VIEWS

_COPIES = frozenset(["aten.reshape.default", "aten._unsafe_view.default", CLONE])


Steps = tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...]


@dataclass(frozen=True)
class View:
    """A result: what ``nodes`` make, one after the other, of the tensor ``base``."""

    base: Value
    nodes: tuple[Node, ...]

    @property
    def steps(self) -> Steps:
        """The ops that make it, each with what it takes besides the tensor."""
        return tuple((n.op, n.args[1:], n.kwargs) for n in self.nodes)


def view(x: torch.Tensor, steps: Steps) -> Any:
    """The view of a tensor."""
    for op, args, kwargs in steps:
        x = ops.lookup(op).run(x, *args, **kwargs)
    return x


def taken(graph: Graph, count: int | None, everywhere: bool = False) -> dict[Value, View]:
    """The results among the first ``count`` that share memory with another one, as views; all that can be with ``everywhere``."""
    found = {v: _view(v) for v in dict.fromkeys(graph.outputs[:count])}
    inputs, users = set(graph.inputs), dict[Value, int]()
    for x in found.values():
        users[x.base] = users.get(x.base, 0) + 1
    return {
        v: x for v, x in found.items()
        if x.nodes and x.base not in inputs and (everywhere or users[x.base] > 1)
    }  # fmt: skip


def _view(v: Value) -> View:
    """``v`` as a view of what it is taken of; of itself where it is none."""
    nodes: list[Node] = []
    while v.node is not None and v.node.op in VIEWS and v.node.op not in _COPIES:
        node = v.node
        if node.inputs != [node.args[0]] or len(node.outputs) != 1:
            break
        nodes.append(node)
        v = node.args[0]
    return View(v, tuple(reversed(nodes)))


def turned(
    outputs: Sequence[Value], views: dict[Value, View], orders: dict[Value, tuple[int, ...]]
) -> tuple[dict[Value, View], list[Node]]:
    """(``views`` where the code gives some tensors with their dims in other ``orders``, the nodes that give these)."""
    made: dict[Value, tuple[Value, Node]] = {}
    nodes = []
    for v, order in orders.items():
        shape = tuple(v.type.shape[d] for d in order)
        node = Node("aten.permute.default", (v, list(order)), types=[replace(v.type, shape=shape)])
        back = Node("aten.permute.default", (node.outputs[0], sorted(range(len(order)), key=order.__getitem__)), types=[v.type])  # fmt: skip
        nodes.append(node)
        made[v] = node.outputs[0], back
    found = dict(views)
    for v in outputs:
        view = views.get(v, View(v, ()))
        if view.base in made:
            base, back = made[view.base]
            found[v] = View(base, (back, *view.nodes))
    return found, nodes


def without(outputs: Sequence[Value], views: Mapping[Value, View]) -> list[Value]:
    """The values that the code is to give."""
    return list(dict.fromkeys(views[v].base if v in views else v for v in outputs))
