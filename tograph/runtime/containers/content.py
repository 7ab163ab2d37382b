"""What the list-like types share: a handle of the graph while tracing, a Python list of tensors outside."""

from __future__ import annotations

from typing import Any

import torch

from .. import ops
from ..funcgraph import Ref, current_graph, is_tracing
from ..infer import meta_of, tensor_type
from ..scalars import scalar
from ..shapes import SYMBOLS
from ..structure import Handle, symbolic
from ..symbolic import SymTensor, as_symbolic, scalar_of, value_of
from ..types import INT, ListType, TensorType, Type


def type_of(x: torch.Tensor) -> TensorType:
    return tensor_type(x.meta if isinstance(x, SymTensor) else meta_of(x))


def as_tensor(x: Any, dtype: torch.dtype) -> torch.Tensor:
    if isinstance(x, torch.Tensor):
        return x
    return (
        torch.scalar_tensor(x, dtype=dtype)
        if isinstance(x, (bool, int, float, *SYMBOLS))
        else torch.as_tensor(x, dtype=dtype)
    )


def as_index(i: Any) -> Any:
    """An index as an op takes it: a value or a number."""
    if isinstance(i, torch.Tensor):
        i = scalar_of(i) if is_tracing() else int(i)
    return i.node.value(current_graph()) if isinstance(i, SYMBOLS) else i


class Content:
    """The content of a container: a tuple, or a graph value while tracing."""

    __slots__ = ()
    content: Any

    def _value(self) -> Any:
        graph = current_graph()
        if isinstance(self.content, Handle):
            return graph.resolve(self.content.ref)
        items = tuple(value_of(as_symbolic(x), graph) for x in self.content)
        element = type_of(self.content[0]) if self.content else None
        return graph.emit("tg.list_of", *items, type=ListType(element))

    def _staged(self) -> bool:
        return isinstance(self.content, Handle) or is_tracing()

    def _make(self, op: str, *args: Any, type: Type) -> Any:
        """The content that a list op gives."""
        if not self._staged():
            return ops.lookup(f"tg.{op}").run(self.content, *args)
        graph = current_graph()
        args = tuple(value_of(a, graph) if isinstance(a, torch.Tensor) else a for a in args)
        return Handle(Ref(graph.emit(f"tg.{op}", self._value(), *args, type=type), graph))

    def _tensor(self, op: str, *args: Any, type: TensorType) -> Any:
        """The tensor that a list op gives."""
        if not self._staged():
            return ops.lookup(f"tg.{op}").run(self.content, *args)
        graph = current_graph()
        return symbolic(graph.emit(f"tg.{op}", self._value(), *args, type=type), graph)

    def _count(self) -> Any:
        if not self._staged():
            return len(self.content)
        graph = current_graph()
        return scalar(graph.emit("tg.list_size", self._value(), type=INT), graph)
