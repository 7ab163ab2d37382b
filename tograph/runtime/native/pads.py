"""Padding by a number is joining with tensors of that number: what grows that way is written at its end only."""

from __future__ import annotations

from typing import Any

import torch

from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.rewrite import copied, map_graphs
from ..graph.types import TensorType
from .groups import CAT

_PAD = "aten.constant_pad_nd.default"


def joined(graph: Graph) -> Graph:
    """``graph``, or a copy of it in which paddings of one dimension are concatenations."""
    if not any(n.op == _PAD for n in all_nodes(graph)):
        return graph
    made = copied(graph)
    map_graphs(made, _rewrite)
    return made


def _rewrite(graph: Graph) -> None:
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op == _PAD:
            nodes += _join(node)
        nodes.append(node)
    graph.nodes = nodes


def _join(node: Node) -> list[Node]:
    """Make a padding a concatenation, where one dimension gets longer; the nodes that make its parts. One that gets shorter is a part of it."""
    x, pads, *rest = node.args
    kind, value = x.type, rest[0] if rest else node.kwargs.get("value", 0)
    if not isinstance(kind, TensorType) or not all(type(n) is int for n in pads):
        return []
    dims = [len(kind.shape) - 1 - i // 2 for i in range(0, len(pads), 2) if pads[i] or pads[i + 1]]
    if len(dims) != 1:
        return []
    (d,) = dims
    at = 2 * (len(kind.shape) - 1 - d)
    counts, opened = pads[at : at + 2], None in (*kind.shape[:d], *kind.shape[d + 1 :])
    if max(counts) <= 0 and opened and kind.shape[d] is not None:
        return _part(node, x, d, -counts[0], kind.shape[d] + counts[1])
    if min(counts) < 0 or (opened and not kind.shape[d]):
        return []
    nodes: list[Node] = []
    before, after = (
        [_like(node, x, d, n, value, nodes) if opened else _filled(node, kind, d, n, value, nodes)] if n else []
        for n in counts
    )  # fmt: skip
    node.op, node.args, node.kwargs = CAT, ([*before, x, *after], d), {}
    return nodes


def _filled(node: Node, kind: TensorType, d: int, count: int, value: Any, nodes: list[Node]) -> Value:  # fmt: skip
    """``count`` times the number, in dimension ``d``."""
    shape = [*kind.shape[:d], count, *kind.shape[d + 1 :]]
    kwargs = {"dtype": kind.dtype, "device": torch.device(kind.device)}
    return _add(nodes, node, "aten.full.default", (shape, value), kwargs, kind, tuple(shape))


def _like(node: Node, x: Value, d: int, count: int, value: Any, nodes: list[Node]) -> Value:
    """The same, where the sizes of other dimensions are those that ``x`` has when the graph runs."""
    kind: Any = x.type
    for op, args, n in (
        ("aten.slice.Tensor", (d, 0, 1), 1),
        ("aten.expand.default", ([count if i == d else -1 for i in range(len(kind.shape))],), count),
        ("aten.full_like.default", (value,), count),
    ):  # fmt: skip
        x = _add(nodes, node, op, (x, *args), {}, kind, (*kind.shape[:d], n, *kind.shape[d + 1 :]))
    return x


def _part(node: Node, x: Value, d: int, first: int, last: int) -> list[Node]:
    nodes: list[Node] = []
    kind: Any = x.type
    shape = (*kind.shape[:d], max(last - first, 0), *kind.shape[d + 1 :])
    part = _add(nodes, node, "aten.slice.Tensor", (x, d, first, last), {}, kind, shape)
    node.op, node.args, node.kwargs = "aten.clone.default", (part,), {}
    return nodes


def _add(nodes: list[Node], place: Node, op: str, args: tuple, kwargs: dict[str, Any], kind: TensorType, shape: tuple) -> Value:  # fmt: skip
    made = TensorType(kind.dtype, shape, kind.device)
    nodes.append(Node(op, args, kwargs, [made], location=place.location))
    return nodes[-1].outputs[0]
