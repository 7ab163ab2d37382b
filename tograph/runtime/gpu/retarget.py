"""A graph as it would be on another device: for looking at GPU plans where there is no GPU.

Tensors of the source device move, in types and in the arguments of ops that make tensors; nothing else changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ..graph.ir import Graph
from ..graph.rewrite import copied
from ..graph.types import ListType, OptionalType, TensorType, Type


def retarget(graph: Graph, device: str, source: str = "cpu") -> Graph:
    """A copy of ``graph`` with all tensors of ``source`` on ``device``. Example: ``retarget(cf.graph, "cuda:0")``."""
    made = copied(graph)
    _move(made, device, source)
    return made


def _move(graph: Graph, device: str, source: str) -> None:
    for v in graph.inputs:
        v.type = _type(v.type, device, source)
    for node in graph.nodes:
        for v in node.outputs:
            v.type = _type(v.type, device, source)
        node.args = _argument(node.args, device, source)
        node.kwargs = _argument(node.kwargs, device, source)
        for region in node.regions.values():
            _move(region, device, source)


def _type(kind: Type, device: str, source: str) -> Type:
    if isinstance(kind, TensorType):
        return replace(kind, device=device) if kind.device == source else kind
    if isinstance(kind, (ListType, OptionalType)) and kind.element is not None:
        return replace(kind, element=_type(kind.element, device, source))
    return kind


def _argument(x: Any, device: str, source: str) -> Any:
    if isinstance(x, torch.device):
        return torch.device(device) if str(x) == source else x
    if isinstance(x, (list, tuple)):
        return type(x)(_argument(e, device, source) for e in x)
    if isinstance(x, dict):
        return {k: _argument(e, device, source) for k, e in x.items()}
    return x
