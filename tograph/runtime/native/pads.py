"""Padding by a number is joining with tensors of that number: what grows that way is written at its end only."""

from __future__ import annotations

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
    """Make a padding a concatenation, where one dimension gets longer and the sizes of the others are known; the nodes that make its parts."""
    x, pads, *rest = node.args
    kind, value = x.type, rest[0] if rest else node.kwargs.get("value", 0)
    if not isinstance(kind, TensorType) or not all(type(n) is int and n >= 0 for n in pads):
        return []
    dims = [len(kind.shape) - 1 - i // 2 for i in range(0, len(pads), 2) if pads[i] or pads[i + 1]]
    if len(dims) != 1 or any(n is None for d, n in enumerate(kind.shape) if d != dims[0]):
        return []
    (d,) = dims
    at = 2 * (len(kind.shape) - 1 - d)
    made = [_filled(node, kind, d, n, value) if n else None for n in pads[at : at + 2]]
    before, after = ([] if n is None else n.outputs for n in made)
    node.op, node.args, node.kwargs = CAT, ([*before, x, *after], d), {}
    return [n for n in made if n is not None]


def _filled(node: Node, kind: TensorType, d: int, count: int, value: float | Value) -> Node:
    """The node that makes ``count`` times the number, in dimension ``d``."""
    shape = (*kind.shape[:d], count, *kind.shape[d + 1 :])
    kwargs = {"dtype": kind.dtype, "device": torch.device(kind.device)}
    made = TensorType(kind.dtype, shape, kind.device)
    return Node("aten.full.default", (list(shape), value), kwargs, [made], location=node.location)
