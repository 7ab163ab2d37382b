"""Assertions and exceptions as a number: for systems without an op that fails.

Model. A number says which check failed first, 0 for none. It is threaded through branches and loops as a tensor that
is written into (``state.states`` makes results of that). Loops end as soon as it is not 0. Nothing else stops: what
follows runs with whatever values there are, and at the end the outputs are taken from a place that exists only
where nothing failed (``guard``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ...errors import Location
from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import add_input
from ..graph.types import BOOL, INT, ScalarType, TensorType
from .messages import exception_name, message

CODE = TensorType(torch.int64, ())
CHECKS = ("tg.raise", "tg.assert", "tg.reraise")


class Failure(NamedTuple):
    """One check: what it says, and where it is."""

    text: str
    location: Location | None


def failures(graph: Graph) -> list[Failure]:
    """Let ``graph`` take one more input, the number, and write into it; the checks in the order of their numbers."""
    found: list[Failure] = []
    if _checks(graph):
        code = Value(CODE)
        _threaded(graph, code, found)
        graph.inputs.append(code)
        graph.input_names = [*graph.input_names, *[""] * (len(graph.inputs) - len(graph.input_names))]  # fmt: skip
    return found


def has_checks(node: Node) -> bool:
    """Whether a node is a check, or holds one in its regions."""
    return node.op in CHECKS or any(map(_checks, node.regions.values()))


def _checks(graph: Graph) -> bool:
    return any(map(has_checks, graph.nodes))


def _threaded(graph: Graph, code: Value, found: list[Failure]) -> None:
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op in CHECKS:
            nodes += _noted(node, code, found)
            continue
        if any(map(_checks, node.regions.values())):
            for name, inner in add_input(node, code).items():
                _threaded(node.regions[name], inner, found)
            if node.op == "While":
                _end(node)
        nodes.append(node)
    graph.nodes = nodes


def _noted(node: Node, code: Value, found: list[Failure]) -> list[Node]:
    """Write the number of a check that fails, unless one has failed before."""
    kind, args = (node.args[1], node.args[2]) if node.op == "tg.assert" else (node.args[0], node.args[1] if node.op == "tg.raise" else ())  # fmt: skip
    found.append(Failure(f"{exception_name(kind)}: {message(args)}", node.location))
    nodes: list[Node] = []

    def emit(op: str, *args: Any, type: Any = CODE) -> Value:
        nodes.append(Node(op, args, None, [type], location=node.location, grad=False))
        return nodes[-1].outputs[0]

    old = emit("tg.read", code)
    new = emit("aten.where.ScalarSelf", emit("aten.eq.Scalar", old, 0, type=TensorType(torch.bool, ())), len(found), old)  # fmt: skip
    if node.op == "tg.assert":
        holds = node.args[0]
        if isinstance(holds, Value) and isinstance(holds.type, ScalarType):
            holds = emit("aten.scalar_tensor.default", holds, type=TensorType(torch.bool, ()))
        elif isinstance(holds, Value):
            holds = emit("aten.all.default", holds, type=TensorType(torch.bool, ()))
        new = emit("aten.where.self", holds, old, new) if isinstance(holds, Value) else old if holds else new  # fmt: skip
    nodes.append(Node("tg.assign", (code, new), None, (), location=node.location, grad=False))
    return nodes


def _end(node: Node) -> None:
    """Let a loop end when something has failed."""
    cond = node.regions["cond"]
    code = cond.inputs[-1]

    def emit(op: str, *args: Any, type: Any) -> Value:
        cond.nodes.append(Node(op, args, None, [type], location=node.location))
        return cond.nodes[-1].outputs[0]

    none = emit("py.eq", emit("py.int", code, type=INT), 0, type=BOOL)
    test = emit("py.bool", cond.outputs[0], type=BOOL)
    cond.outputs = [emit("py.and_", test, none, type=BOOL)]
