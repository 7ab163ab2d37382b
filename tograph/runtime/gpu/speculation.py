"""Branches that cost less when both sides are computed: they become ``where``.

A conditional node is set by a kernel of its own and breaks up the kernels around it: some microseconds, where a small kernel
takes one or two, and none if it is fused with its neighbours. So the two sides of an ``If`` are computed, and what the condition
says is chosen, if they are few pointwise ops and folds on little data which cannot fail and have no effect.

Numbers that a branch gives stay an ``If`` that only chooses: the kernels of numbers have branches inside.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import cannot_fail, replaced, splice
from ..graph.types import BOOL, ScalarType, TensorType, Type
from ..kernels.build import expressible
from ..kernels.views import VIEWS

MOST_NODES = 24  # of both sides
MOST_ELEMENTS = 1 << 15  # of a value
_NUMBERS = frozenset(["py.constant", "py.lt", "py.le", "py.gt", "py.ge", "py.eq", "py.ne", "py.add", "py.sub", "py.bool", "py.int", "py.float", "py.not"])  # fmt: skip
_SIMPLE = frozenset(["aten.scalar_tensor.default", "tg.constant", "tg.identity"])


def speculated(graph: Graph, device: str) -> Graph:
    """Change the small branches of a graph, inner ones first, and return it."""

    def sides(node: Node, nodes: list[Node]) -> list[Any] | None:
        return _both(node, nodes, device) if node.op == "If" and _worth(node) else None

    return replaced(graph, sides)


def _worth(node: Node) -> bool:
    inner = [n for r in node.regions.values() for n in r.nodes]
    values = [v for n in inner for v in (*n.inputs, *n.outputs)] + node.outputs
    if not all(_small(v.type) for v in values) or len(inner) > MOST_NODES:
        return False
    if all(_size(v.type) == 1 for v in values):
        return False  # a kernel of one program has branches
    return isinstance(node.args[0], Value) and all(map(_cheap, inner))


def _cheap(node: Node) -> bool:
    if node.regions:  # what is left of a branch that was speculated
        return node.op == "If" and not any(r.nodes for r in node.regions.values())
    known = node.op in _NUMBERS or node.op in _SIMPLE or node.op in VIEWS or expressible(node.op)
    return known and cannot_fail(node)


def _size(kind: Type) -> int:
    return math.prod(kind.shape) if isinstance(kind, TensorType) else 1


def _small(kind: Type) -> bool:
    if isinstance(kind, TensorType):
        return kind.shape is not None and None not in kind.shape and _size(kind) <= MOST_ELEMENTS
    return isinstance(kind, ScalarType)


def _both(node: Node, nodes: list[Node], device: str) -> list[Any]:
    """Append the nodes of both sides and of the choice; what stands for the outputs."""
    predicate, *given = node.args
    sides = [splice(node.regions[r], given, nodes, False) for r in ("then", "orelse")]
    truth = _tensor(predicate, nodes, device, node)
    chosen: dict[int, Any] = {}
    numbers = [i for i, v in enumerate(node.outputs) if isinstance(v.type, ScalarType) and not _same(*(s[i] for s in sides))]  # fmt: skip
    if numbers:
        chosen |= zip(numbers, _chosen(node, predicate, numbers, sides, nodes))
    for i, v in enumerate(node.outputs):
        if _same(sides[0][i], sides[1][i]):
            chosen[i] = sides[0][i]
        elif i not in chosen:
            made = Node("aten.where.self", (truth, sides[0][i], sides[1][i]), {}, [v.type], location=node.location)  # fmt: skip
            nodes.append(made)
            chosen[i] = made.outputs[0]
    return [chosen[i] for i in range(len(node.outputs))]


def _same(a: Any, b: Any) -> bool:
    return a is b and isinstance(a, Value)


def _tensor(predicate: Value, nodes: list[Node], device: str, node: Node) -> Value:
    """The condition as a bool tensor."""
    kind = TensorType(torch.bool, (), device)
    if isinstance(predicate.type, ScalarType):
        if predicate.type != BOOL:
            nodes.append(Node("py.bool", (predicate,), {}, [BOOL], location=node.location))
            predicate = nodes[-1].outputs[0]
        given = {"dtype": torch.bool, "device": torch.device(device)}
        made = Node("aten.scalar_tensor.default", (predicate,), given, [kind], location=node.location)  # fmt: skip
    elif predicate.type.dtype is torch.bool:
        return predicate
    else:
        made = Node("aten.ne.Scalar", (predicate, 0), {}, [kind], location=node.location)
    nodes.append(made)
    return made.outputs[0]


def _chosen(node: Node, predicate: Value, which: list[int], sides: list[list[Any]], nodes: list[Node]) -> list[Value]:  # fmt: skip
    """An ``If`` that chooses among numbers."""
    types = [node.outputs[i].type for i in which]
    regions = {}
    for name, first in (("then", 0), ("orelse", len(which))):
        made = Graph(node.regions[name].name)
        made.inputs = [Value(t) for t in (*types, *types)]
        made.outputs = made.inputs[first : first + len(which)]
        regions[name] = made
    args = (predicate, *(s[i] for s in sides for i in which))
    nodes.append(Node("If", args, {}, types, regions=regions, location=node.location))
    return nodes[-1].outputs
