"""``tg.TensorList``: a list of tensors of one type, with value semantics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...errors import StructureError
from ..graph import ops
from ..graph.types import ListType, TensorType, join
from ..symbols.funcgraph import Ref, current_graph, is_tracing, user_location
from ..symbols.symbolic import value_of
from ..values.flattening import symbolic
from ..values.specs import dimensions
from ..values.structure import Handle
from .content import Content, as_index, as_tensor, check_dtype, type_of


class TensorList(Content):
    """An immutable list of tensors of one dtype.

    ``dtype``: of the elements. ``element_shape``: with None for unknown sizes, or None.

    Example: ``l = tg.TensorList(torch.float32, []); l = l.push(x); l, last = l.pop()``
    """

    def __init__(
        self,
        dtype: torch.dtype,
        element_shape: Sequence[int | None] | None = None,
        _content: Any = None,
    ):
        check_dtype(dtype, "TensorList")
        self.dtype = dtype
        self.element_shape = dimensions(element_shape)
        self.content = _content if _content is not None else self._empty()

    def _empty(self) -> Any:
        if not is_tracing():
            return ()
        graph = current_graph()
        return Handle(Ref(graph.emit("tg.list_new", type=ListType(self._element())), graph))

    def _element(self) -> TensorType | None:
        return None if self.element_shape is None else TensorType(self.dtype, self.element_shape)

    def _with(self, content: Any) -> TensorList:
        return TensorList(self.dtype, self.element_shape, content)

    def __tograph_flatten__(self):
        """While tracing the content is one value: as the state of a loop the list may grow."""
        content = self.content
        if is_tracing() and not isinstance(content, Handle):
            content = Handle(Ref(self._value(), current_graph()))
        return (self.dtype, self.element_shape), [content]

    def _value(self) -> Any:
        if isinstance(self.content, tuple) and not self.content:
            return current_graph().emit("tg.list_new", type=ListType(self._element()))
        return super()._value()

    @staticmethod
    def __tograph_unflatten__(aux, parts):
        return TensorList(aux[0], aux[1], parts[0])

    def _elements(self, v: torch.Tensor | None = None) -> TensorType | None:
        known = self.content.type.element if isinstance(self.content, Handle) else None
        if known is None:
            known = self._element() or (
                type_of(self.content[0])
                if isinstance(self.content, tuple) and self.content
                else None
            )
        if v is None:
            return known
        new = type_of(v)
        if known is None:
            return new
        joined = join(known, new)
        if joined is None:
            raise StructureError(f"a list of {known} cannot take a {new}", user_location())
        return joined

    def _checked(self, v: Any) -> torch.Tensor:
        v = as_tensor(v, self.dtype)
        if v.dtype != self.dtype:
            raise StructureError(
                f"this TensorList holds {self.dtype}, not {v.dtype}", user_location()
            )
        declared, new = self._element(), type_of(v)
        if declared is not None:
            joined = join(declared, new)
            if joined is None or joined.shape != declared.shape:
                raise StructureError(f"a list of {declared} cannot take a {new}", user_location())
        return v

    def push(self, v: Any) -> TensorList:
        """The list with ``v`` behind its last element."""
        v = self._checked(v)
        return self._with(self._make("list_push", v, type=ListType(self._elements(v))))

    def pop(self) -> tuple[TensorList, torch.Tensor]:
        """(the list without its last element, that element); IndexError when it is empty."""
        if not self._staged():
            rest, last = ops.lookup("tg.list_pop").run(self.content, -1)
            return self._with(rest), last
        graph = current_graph()
        element = self._known()
        node = graph.add("tg.list_pop", (self._value(), -1), None, (ListType(element), element))
        return self._with(Handle(Ref(node.outputs[0], graph))), symbolic(node.outputs[1], graph)

    def _known(self) -> TensorType:
        element = self._elements()
        if element is None:
            raise StructureError(
                "the elements of this TensorList have no known type yet: nothing was pushed to it. Give it an element_shape, or "
                "assign what push returns (`items = items.push(x)`), which is a new list",
                user_location(),
            )
        return element

    def get(self, i: Any) -> torch.Tensor:
        """The ``i``-th element; OutOfRangeError when there is none."""
        return self._tensor(
            "list_get",
            as_index(i),
            type=self._known() if self._staged() else TensorType(self.dtype, ()),
        )

    def set(self, i: Any, v: Any) -> TensorList:
        """The list with ``v`` as its ``i``-th element."""
        v = self._checked(v)
        if not self._staged():
            return self._with(ops.lookup("tg.list_set").run(self.content, as_index(i), v))
        return self._with(self._make("list_set", as_index(i), v, type=ListType(self._elements(v))))

    def stack(self) -> torch.Tensor:
        """All elements along a new first dimension."""
        element = self._elements()
        shape = element.shape if element else self.element_shape
        kind = TensorType(self.dtype, (None, *(shape or ())))
        return self._tensor(
            "list_stack",
            self.dtype,
            shape and tuple(0 if n is None else n for n in shape),
            torch.device("cpu"),
            type=kind,
        )

    def size(self) -> Any:
        """The number of elements."""
        return self._count()

    @staticmethod
    def from_tensor(t: torch.Tensor) -> TensorList:
        """A list of the rows of ``t``."""
        if not isinstance(t, torch.Tensor) or t.dim() == 0:
            raise StructureError(
                f"a list is made of the rows of a tensor of at least one dimension, not of {t!r}",
                user_location(),
            )
        shape = tuple(n if type(n) is int else None for n in t.shape[1:])
        if not is_tracing():
            return TensorList(t.dtype, shape, tuple(t.unbind(0)))
        graph = current_graph()
        element = TensorType(t.dtype, shape, str(t.device))
        content = Handle(
            Ref(
                graph.emit("tg.list_from_tensor", value_of(t, graph), type=ListType(element)), graph
            )
        )
        return TensorList(t.dtype, shape, content)

    def __repr__(self) -> str:
        return f"TensorList({self.dtype}, {self.content!r})"
