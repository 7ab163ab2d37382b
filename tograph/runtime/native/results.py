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
            found[v] = View(base, (back.outputs[0], *view.values))
    return found, nodes


def without(outputs: Sequence[Value], views: Mapping[Value, View]) -> list[Value]:
    """The values that the code is to give."""
    return list(dict.fromkeys(views[v].base if v in views else v for v in outputs))
