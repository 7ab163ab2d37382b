"""Tensors of one number that take their dtype and device from another tensor, ``x.new_zeros(3)``, are made without it.

Under a transform of torch.func the two differ, so this is a matter of native code.
"""

from __future__ import annotations

import torch

from ..graph.ir import Graph, Node, all_nodes
from ..graph.rewrite import copied
from ..graph.types import TensorType

_NUMBERS = {"aten.new_zeros.default": 0, "aten.new_ones.default": 1, "aten.new_full.default": None}


def created(graph: Graph) -> Graph:
    """``graph``, or a copy of it with ``full`` in their places."""
    if not any(n.op in _NUMBERS for n in all_nodes(graph)):
        return graph
    made = copied(graph)
    for node in all_nodes(made):
        if node.op in _NUMBERS and _is_plain(node):
            _fill(node)
    return made


def _is_plain(node: Node) -> bool:
    return not node.kwargs.get("pin_memory") and node.kwargs.get("layout") in (None, torch.strided)


def _fill(node: Node) -> None:
    kind, value = node.outputs[0].type, _NUMBERS[node.op]
    assert isinstance(kind, TensorType)
    node.op, node.args = "aten.full.default", (node.args[1], node.args[2] if value is None else value)  # fmt: skip
    node.kwargs = {"dtype": kind.dtype, "device": torch.device(kind.device)}
