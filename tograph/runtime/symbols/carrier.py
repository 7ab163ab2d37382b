"""Carriers: what stands in torch's autograd for a list or an optional of the graph.

torch's engine differentiates tensors only. A ``Carrier`` is a symbolic 0-d float tensor whose graph value is a list or an
optional: the engine passes it along, adds two of them (``tg.handle_add``, element by element) and knows nothing else about
it. The cotangent of a list is a list of as many cotangents; that of an optional is an optional that is present where it is.
"""

from __future__ import annotations

from typing import Any

import torch

from ..graph.ir import Value
from ..graph.types import ListType, OptionalType, TensorType, Type
from ..inference.shapes import Meta
from .funcgraph import FuncGraph, Ref, Storage, current_graph
from .symbolic import SymTensor, value_of

_META = Meta(torch.float32, (), (), 0, torch.device("cpu"))


class Carrier(SymTensor):
    """The stand-in of a list or an optional."""

    def __repr__(self, **kwargs: Any) -> str:
        return f"<carrier of {self.ref.value.type if self.ref else '?'}>"


def carrier(value: Value, graph: FuncGraph) -> Carrier:
    """A new carrier of a value of ``graph``."""
    ref = Ref(value, graph)
    return Carrier(_META, Storage(_META, ref, home=graph), (), ref)


def differentiable(kind: Type | None) -> bool:
    """Whether values of a type can have a gradient. A list whose elements are not known yet can."""
    if isinstance(kind, TensorType):
        return kind.dtype.is_floating_point or kind.dtype.is_complex
    return kind is None or (
        isinstance(kind, (ListType, OptionalType)) and differentiable(kind.element)
    )


def dispatch_carrier(func: Any, args: tuple) -> Any:
    """What the engine does with carriers."""
    name = func._schema.name
    if name in ("aten::detach", "aten::alias", "aten::clone"):
        x = args[0]
        return Carrier(_META, x.storage_, (), x.ref)
    if name == "aten::add" and isinstance(args[1], Carrier):
        graph = current_graph()
        values = [value_of(a, graph) for a in args[:2]]
        return carrier(graph.emit("tg.handle_add", *values, type=values[0].type), graph)
    if name in ("aten::is_same_size", "aten::_has_same_storage_numel"):
        return True
    raise NotImplementedError(f"{func} of a list")
