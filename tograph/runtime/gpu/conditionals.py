"""Loops and branches as conditional nodes: the steps around them and those of their bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..ir import Graph, Node, Value
from ..types import BOOL, ScalarType, TensorType
from .places import Places
from .plan import Conditional, Place, Set, Step, dtype_name


class Conditionals(Places):
    """Needs of the planner: the steps of a graph and of a node."""

    _graph: Callable[..., list[Step]]
    _node: Callable[[Node], list[Step]]

    def _while(self, node: Node) -> list[Step]:
        carried = node.kwargs["carried"]
        cond, body = node.regions["cond"], node.regions["body"]
        state = [self._buffer(v) for v in node.outputs]
        start = self._copies(state, [self.place(a, v.type) for a, v in zip(node.args, state)], node)
        rest = [self.place(a, v.type) for a, v in zip(node.args[carried:], cond.inputs[carried:])]
        for graph in (cond, body):
            self.where |= zip(graph.inputs, [*state, *rest], strict=True)
        first = self._graph(cond)
        test = self._truth(cond.outputs[0], node)
        first, pred = [*first, *test[0]], test[1]
        inside = self._graph(body, state)
        inside += self._copies(state, [self.place(v) for v in body.outputs], node)
        handle = next(self.handles)
        inside += [*self._graph(cond), *test[0], Set(handle, pred, node.location)]
        return [*start, *first, Conditional("while", handle, pred, [inside], node.location)]

    def _truth(self, value: Any, node: Node) -> tuple[list[Step], Place]:
        """(steps that make it, a bool cell) of a condition."""
        at = self.place(value)
        if dtype_name(at) == "bool":
            return [], at
        assert isinstance(at, Value)
        kind = TensorType(torch.bool, (), self.plan.device)
        op, args = ("py.bool", (at,)) if isinstance(at.type, ScalarType) else ("aten.ne.Scalar", (at, 0))  # fmt: skip
        made = Node(op, args, {}, [BOOL if op == "py.bool" else kind], location=node.location)
        return self._node(made), self.place(made.outputs[0])

    def _if(self, node: Node) -> list[Step]:
        return self._branches(node, "if", [node.regions["then"], node.regions["orelse"]])

    def _case(self, node: Node) -> list[Step]:
        return self._branches(node, "switch", list(node.regions.values()))

    def _branches(self, node: Node, kind: str, graphs: list[Graph]) -> list[Step]:
        outs = [self._buffer(v) for v in node.outputs]
        bodies = []
        for graph in graphs:
            self.where |= zip(graph.inputs, [self.place(a, v.type) for a, v in zip(node.args[1:], graph.inputs)])  # fmt: skip
            body = self._graph(graph)
            body += self._copies(outs, [self.place(v) for v in graph.outputs], node)
            bodies.append(body)
        test: list[Step] = []
        cell = self.place(node.args[0])
        if kind == "if":
            test, cell = self._truth(node.args[0], node)
        return [*test, Conditional(kind, next(self.handles), cell, bodies, node.location)]

    CONDITIONAL: dict[str, Any] = {"While": _while, "If": _if, "Case": _case}
