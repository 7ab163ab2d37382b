"""Loops and branches as conditional nodes: the steps around them and those of their bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.ordering import node_effects
from ..graph.rewrite import copied, splice
from ..graph.types import BOOL, ScalarType, TensorType
from .places import Places
from .plan import Conditional, Place, Set, Step, dtype_name


def _merged(cond: Graph, body: Graph, safe: set[Node]) -> Graph | None:
    """The body with the condition for the iteration behind it: its last output. None where the order of effects matters.

    So the condition becomes a part of the body's kernels, and is there when they are.
    """
    if any(node_effects(n).io for g in (cond, body) for n in g.nodes):
        return None
    made, test = copied(body), copied(cond)
    for old, new in ((body, made), (cond, test)):
        safe |= {b for a, b in zip(all_nodes(old), all_nodes(new), strict=True) if a in safe}
    carried = len(body.outputs)
    given = [*made.outputs, *made.inputs[carried:]]
    made.outputs = [*made.outputs, *splice(test, given, made.nodes, False)]
    return made


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
        pred = self._own(pred, first, node)
        following = _merged(cond, body, self.safe)
        if following is None:
            inside = self._graph(body, state)
            inside += self._copies(state, [self.place(v) for v in body.outputs], node)
            inside += self._graph(cond)
            test = self._truth(cond.outputs[0], node)
            inside += [*test[0], *self._copies([pred], [test[1]], node)]
        else:
            self.where |= zip(following.inputs, [*state, *rest], strict=True)
            inside = self._graph(following, state)
            *values, again = following.outputs
            test = self._truth(again, node)
            inside += test[0]
            inside += self._copies([*state, pred], [*map(self.place, values), test[1]], node)
        handle = next(self.handles)
        inside.append(Set(handle, pred, node.location))
        return [*start, *first, Conditional("while", handle, pred, [inside], node.location)]

    def _own(self, pred: Place, steps: list[Step], node: Node) -> Place:
        """The cell of a loop's condition, which its body writes: no state, no input, no constant."""
        cell = self._cell(pred)
        steps += self._copies([cell], [pred], node)
        return cell

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
