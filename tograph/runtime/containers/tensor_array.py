"""``tg.TensorArray``: tensors by position, with value semantics; unwritten cells are 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...errors import InvalidArgumentError, StructureError
from ..graph import ops
from ..graph.types import INT, ListType, TensorType, join
from ..symbols.funcgraph import Ref, current_graph, is_tracing, user_location
from ..symbols.misuse import check_flag, check_whole
from ..symbols.symbolic import value_of
from ..values.specs import dimensions
from ..values.structure import Handle
from .content import Content, as_index, as_tensor, check_dtype, type_of
from .tensor_list import TensorList


class TensorArray(Content):
    """A functional array of tensors: ``write`` returns the new array. Cells that were never written are 0.

    ``dtype``: of the cells. ``size``: their number. ``dynamic_size``: whether a write may be past the end.
    ``element_shape``: of a cell. ``infer_shape``: whether all cells have one shape.

    Example::

        ta = tg.TensorArray(torch.float32, size=3)
        for i in tg.range(3):
            ta = ta.write(i, x * i)
        return ta.stack()
    """

    def __init__(
        self,
        dtype: torch.dtype,
        size: Any = 0,
        dynamic_size: bool = False,
        element_shape: Sequence[int | None] | None = None,
        infer_shape: bool = True,
        _content: Any = None,
    ):
        check_dtype(dtype, "TensorArray")
        check_flag(dynamic_size, "TensorArray", "dynamic_size")
        check_flag(infer_shape, "TensorArray", "infer_shape")
        self.dtype, self.dynamic_size, self.infer_shape = dtype, dynamic_size, infer_shape
        self.element_shape = dimensions(element_shape)
        self.content = _content if _content is not None else self._reserve(size)

    def _reserve(self, size: Any) -> Any:
        check_whole(size, "TensorArray", "size")
        if isinstance(size, int) and size < 0:
            raise InvalidArgumentError(
                f"the size of a TensorArray is not negative: {size}", user_location()
            )
        if not is_tracing():
            return (None,) * int(size)
        graph = current_graph()
        element = None if self.element_shape is None else TensorType(self.dtype, self.element_shape)
        return Handle(
            Ref(graph.emit("tg.list_reserve", as_index(size), type=ListType(element)), graph)
        )

    def _with(self, content: Any, shape: Any = None) -> TensorArray:
        shape = self.element_shape if shape is None else shape
        return TensorArray(self.dtype, 0, self.dynamic_size, shape, self.infer_shape, content)

    def __tograph_flatten__(self):
        return (self.dtype, self.dynamic_size, self.infer_shape), [self.content]

    @staticmethod
    def __tograph_unflatten__(aux, parts):
        content = parts[0]
        element = content.type.element if isinstance(content, Handle) else None
        shape = element.shape if element is not None else None
        return TensorArray(aux[0], 0, aux[1], shape, aux[2], content)

    def _known(self) -> TensorType | None:
        """The type of the cells; None before one is written, where no shape was given."""
        element = self.content.type.element if isinstance(self.content, Handle) else None
        if element is not None:
            return element
        if self.element_shape is not None:
            return TensorType(self.dtype, self.element_shape)
        written = (
            next((v for v in self.content if v is not None), None)
            if isinstance(self.content, tuple)
            else None
        )
        return None if written is None else type_of(written)

    def _cell(self) -> TensorType:
        if (known := self._known()) is not None:
            return known
        raise StructureError(
            "the cells of this TensorArray have no known shape yet: nothing was written to it. Give it an element_shape, or "
            "assign what write returns (`cells = cells.write(i, x)`), which is a new array",
            user_location(),
        )

    def _fill(self) -> tuple[Any, ...]:
        known = self._known() if self._staged() else None
        shape = self.element_shape if known is None else known.shape
        return self.dtype, shape, torch.device("cpu")

    def _joined(self, first: int) -> TensorType:
        """The type of all cells together, whose own dimensions begin with ``first``."""
        known = self._known() if self._staged() else None
        sizes = () if known is None else known.shape[first:]
        return TensorType(self.dtype, (None, *sizes))

    def write(self, index: Any, value: Any) -> TensorArray:
        """The array with ``value`` in a cell; OutOfRangeError outside of a fixed size."""
        value = as_tensor(value, self.dtype)
        self._check_dtype(value)
        limit = None if self.dynamic_size else self._limit()
        if not self._staged():
            self._check_shape(value)
            return self._with(
                ops.lookup("tg.array_write").run(self.content, as_index(index), value, limit)
            )
        new = type_of(value)
        old = self.content.type.element if isinstance(self.content, Handle) else None
        element = new if old is None else join(old, new)
        if element is None or (
            self.infer_shape
            and old is not None
            and None not in old.shape
            and old.shape != new.shape
        ):
            raise self._unfit(old, new)
        content = self._make("array_write", as_index(index), value, limit, type=ListType(element))
        return self._with(content, element.shape)

    def _unfit(self, old: Any, new: Any) -> StructureError:
        return StructureError(f"this TensorArray holds cells of {old}, not {new}", user_location())

    def _check_shape(self, value: torch.Tensor) -> None:
        """A real cell has the declared shape, and that of the other cells where they have one shape."""
        written = next((v for v in self.content if v is not None), None)
        if self.element_shape is not None:
            known = TensorType(self.dtype, self.element_shape)
        elif self.infer_shape and written is not None:
            known = type_of(written)
        else:
            return
        new = type_of(value)
        joined = join(known, new)
        if joined is None or joined.shape != known.shape:
            raise self._unfit(known, new)

    def _check_dtype(self, value: torch.Tensor) -> None:
        if value.dtype != self.dtype:
            raise StructureError(
                f"this TensorArray holds {self.dtype}, not {value.dtype}", user_location()
            )

    def _limit(self) -> Any:
        if not self._staged():
            return len(self.content)
        graph = current_graph()
        return graph.emit("tg.list_size", self._value(), type=INT)

    def read(self, index: Any) -> torch.Tensor:
        """A cell."""
        return self._tensor(
            "array_read",
            as_index(index),
            *self._fill(),
            type=self._cell() if self._staged() else TensorType(self.dtype, ()),
        )

    def size(self) -> Any:
        """The number of cells, as a tensor."""
        n = self._count()
        return torch.scalar_tensor(n, dtype=torch.int64)

    def stack(self) -> torch.Tensor:
        """All cells along a new first dimension."""
        return self._tensor("array_stack", *self._fill(), type=self._joined(0))

    def concat(self) -> torch.Tensor:
        """All cells one behind the other along their first dimension."""
        return self._tensor("array_concat", *self._fill(), type=self._joined(1))

    def unstack(self, value: torch.Tensor) -> TensorArray:
        """An array of the rows of ``value``; StructureError for those of another dtype, or another shape than ``element_shape``."""
        made = TensorList.from_tensor(value)
        self._check_dtype(value)
        row = TensorType(self.dtype, type_of(value).shape[1:])
        if self.element_shape is not None:
            given = TensorType(self.dtype, self.element_shape)
            joined = join(given, row)
            if joined is None or joined.shape != given.shape:
                raise self._unfit(given, row)
        return self._with(made.content, tuple(value.shape[1:]))

    def split(self, value: torch.Tensor, lengths: Any) -> TensorArray:
        """An array of pieces of ``value`` of the given lengths; StructureError for another dtype."""
        self._check_dtype(value)
        if not is_tracing():
            return self._with(
                ops.lookup("tg.list_split").run(value, lengths), (None, *value.shape[1:])
            )
        graph = current_graph()
        lengths = value_of(lengths, graph) if isinstance(lengths, torch.Tensor) else list(lengths)
        element = TensorType(self.dtype, (None, *value.shape[1:]))
        made = graph.emit("tg.list_split", value_of(value, graph), lengths, type=ListType(element))
        return self._with(Handle(Ref(made, graph)), element.shape)

    def gather(self, indices: Any) -> torch.Tensor:
        """The cells of the given indices, stacked."""
        if not isinstance(indices, torch.Tensor):
            places = [as_tensor(i, torch.int64) for i in indices]
            indices = torch.stack(places) if places else torch.zeros(0, dtype=torch.int64)
        return self.stack().index_select(0, indices)

    def scatter(self, indices: Any, value: torch.Tensor) -> TensorArray:
        """The array with the rows of ``value`` in the cells of the given indices."""
        out: TensorArray = self
        places = indices.unbind(0) if isinstance(indices, torch.Tensor) else list(indices)
        if type(len(value)) is int and len(value) != len(places):
            raise InvalidArgumentError(
                f"scatter of {len(value)} rows into {len(places)} cells: give an index for each row",
                user_location(),
            )
        for k, i in enumerate(places):
            out = out.write(i, value[k])
        return out

    def __repr__(self) -> str:
        return f"TensorArray({self.dtype}, {self.content!r})"
