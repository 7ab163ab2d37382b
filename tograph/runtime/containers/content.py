"""What the list-like types share: a handle of the graph while tracing, a Python list of tensors outside."""

from __future__ import annotations

from typing import Any

import torch

from ...errors import GraphBoolError, SignatureError, StructureError
from ..graph import ops
from ..graph.types import INT, ListType, TensorType, Type
from ..inference.infer import meta_of, tensor_type
from ..inference.shapes import SYMBOLS
from ..symbols.funcgraph import Ref, current_graph, is_tracing, user_location
from ..symbols.misuse import check_whole
from ..symbols.scalars import scalar
from ..symbols.symbolic import SymTensor, scalar_of, value_of
from ..values.flattening import symbolic
from ..values.structure import Handle


def type_of(x: torch.Tensor) -> TensorType:
    return tensor_type(x.meta if isinstance(x, SymTensor) else meta_of(x))


def as_tensor(x: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    """An element as a tensor; StructureError for what is none."""
    if isinstance(x, torch.Tensor):
        return x
    if isinstance(x, (bool, int, float, *SYMBOLS)) and dtype is not None:
        return torch.scalar_tensor(x, dtype=dtype)
    try:
        return torch.as_tensor(x, dtype=dtype)
    except (TypeError, ValueError, RuntimeError) as error:
        raise StructureError(
            f"an element is a tensor or a number, not {x!r}", user_location()
        ) from error


def check_dtype(dtype: Any, owner: str) -> None:
    if not isinstance(dtype, torch.dtype):
        raise SignatureError(
            f"the dtype of a {owner} must be a torch.dtype, not {dtype!r}", user_location()
        )


def as_index(i: Any) -> Any:
    """An index as an op takes it: a value or a number."""
    check_whole(i, "an array or list", "index")
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
        items = tuple(value_of(x, graph) for x in self.content)
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

    __tograph_len__ = _count

    def __len__(self) -> int:
        if self._staged():
            raise GraphBoolError(
                f"the length of a {type(self).__name__} is known only when the graph runs: use size()",
                user_location(),
            )
        return len(self.content)
