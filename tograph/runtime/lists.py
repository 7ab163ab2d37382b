"""Containers with value semantics: ``TensorList``, ``TensorArray`` and ``Optional``. They may be state and results.

Every method that changes a container returns a new one. While tracing, the content is a graph value (a ``Handle``);
outside it is a tuple of tensors, and the methods run at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from . import ops
from .funcgraph import Ref, current_graph, is_tracing
from .infer import meta_of, tensor_type
from .scalars import ScalarNode, scalar, staged
from .shapes import SYMBOLS
from .specs import TensorSpec
from .structure import Handle, symbolic
from .symbolic import SymTensor, as_symbolic, scalar_of, value_of
from .types import BOOL, INT, ListType, OptionalType, TensorType, Type, join


def _type_of(x: torch.Tensor) -> TensorType:
    return tensor_type(x.meta if isinstance(x, SymTensor) else meta_of(x))


def _as_tensor(x: Any, dtype: torch.dtype) -> torch.Tensor:
    if isinstance(x, torch.Tensor):
        return x
    return (
        torch.scalar_tensor(x, dtype=dtype)
        if isinstance(x, (bool, int, float, *SYMBOLS))
        else torch.as_tensor(x, dtype=dtype)
    )


def _index(i: Any) -> Any:
    """An index as an op takes it: a value or a number."""
    if isinstance(i, torch.Tensor):
        i = scalar_of(i) if is_tracing() else int(i)
    return i.node.value(current_graph()) if isinstance(i, SYMBOLS) else i


class _Content:
    """The content of a container: a tuple, or a graph value while tracing."""

    __slots__ = ()
    content: Any

    def _value(self) -> Any:
        graph = current_graph()
        if isinstance(self.content, Handle):
            return graph.resolve(self.content.ref)
        items = tuple(value_of(as_symbolic(x), graph) for x in self.content)
        element = _type_of(self.content[0]) if self.content else None
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


class TensorList(_Content):
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
        self.dtype = dtype
        self.element_shape = None if element_shape is None else tuple(element_shape)
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
        return (self.dtype, self.element_shape), [self.content]

    @staticmethod
    def __tograph_unflatten__(aux, parts):
        return TensorList(aux[0], aux[1], parts[0])

    def _elements(self, v: torch.Tensor | None = None) -> TensorType | None:
        known = self.content.type.element if isinstance(self.content, Handle) else None
        if known is None:
            known = self._element() or (
                _type_of(self.content[0])
                if isinstance(self.content, tuple) and self.content
                else None
            )
        if v is None:
            return known
        new = _type_of(v)
        if known is None:
            return new
        joined = join(known, new)
        if joined is None:
            raise TypeError(f"a list of {known} cannot take a {new}")
        return joined

    def _checked(self, v: Any) -> torch.Tensor:
        v = _as_tensor(v, self.dtype)
        if v.dtype != self.dtype:
            raise TypeError(f"this TensorList holds {self.dtype}, not {v.dtype}")
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
            raise TypeError(
                "the elements of this TensorList have no known type yet: give it an element_shape"
            )
        return element

    def get(self, i: Any) -> torch.Tensor:
        """The ``i``-th element; OutOfRangeError when there is none."""
        return self._tensor(
            "list_get",
            _index(i),
            type=self._known() if self._staged() else TensorType(self.dtype, ()),
        )

    def set(self, i: Any, v: Any) -> TensorList:
        """The list with ``v`` as its ``i``-th element."""
        v = self._checked(v)
        if not self._staged():
            return self._with(ops.lookup("tg.list_set").run(self.content, _index(i), v))
        return self._with(self._make("list_set", _index(i), v, type=ListType(self._elements(v))))

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

    __len__ = None
    __tograph_len__ = size

    def __repr__(self) -> str:
        return f"TensorList({self.dtype}, {self.content!r})"


class TensorArray(_Content):
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
        self.dtype, self.dynamic_size, self.infer_shape = dtype, dynamic_size, infer_shape
        self.element_shape = None if element_shape is None else tuple(element_shape)
        self.content = _content if _content is not None else self._reserve(size)

    def _reserve(self, size: Any) -> Any:
        if not is_tracing():
            return (None,) * int(size)
        graph = current_graph()
        element = None if self.element_shape is None else TensorType(self.dtype, self.element_shape)
        return Handle(
            Ref(graph.emit("tg.list_reserve", _index(size), type=ListType(element)), graph)
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

    def _cell(self) -> TensorType:
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
        if written is not None:
            return _type_of(written)
        raise TypeError(
            "the cells of this TensorArray have no known shape yet: give it an element_shape"
        )

    def _fill(self) -> tuple[Any, ...]:
        shape = (
            self._cell().shape
            if self._staged() or self.element_shape is not None
            else self.element_shape
        )
        return self.dtype, None if shape is None else tuple(shape), torch.device("cpu")

    def write(self, index: Any, value: Any) -> TensorArray:
        """The array with ``value`` in a cell; OutOfRangeError outside of a fixed size."""
        value = _as_tensor(value, self.dtype)
        if value.dtype != self.dtype:
            raise TypeError(f"this TensorArray holds {self.dtype}, not {value.dtype}")
        limit = None if self.dynamic_size else self._limit()
        if not self._staged():
            return self._with(
                ops.lookup("tg.array_write").run(self.content, _index(index), value, limit)
            )
        new = _type_of(value)
        old = self.content.type.element if isinstance(self.content, Handle) else None
        element = new if old is None else join(old, new)
        if element is None or (
            self.infer_shape
            and old is not None
            and None not in old.shape
            and old.shape != new.shape
        ):
            raise TypeError(f"this TensorArray holds cells of {old}, not {new}")
        content = self._make("array_write", _index(index), value, limit, type=ListType(element))
        return self._with(content, element.shape)

    def _limit(self) -> Any:
        if not self._staged():
            return len(self.content)
        graph = current_graph()
        return graph.emit("tg.list_size", self._value(), type=INT)

    def read(self, index: Any) -> torch.Tensor:
        """A cell."""
        return self._tensor(
            "array_read",
            _index(index),
            *self._fill(),
            type=self._cell() if self._staged() else TensorType(self.dtype, ()),
        )

    def size(self) -> Any:
        """The number of cells, as a tensor."""
        n = self._count()
        return torch.scalar_tensor(n, dtype=torch.int64)

    def stack(self) -> torch.Tensor:
        """All cells along a new first dimension."""
        shape = self._cell().shape if self._staged() else ()
        return self._tensor(
            "array_stack", *self._fill(), type=TensorType(self.dtype, (None, *shape))
        )

    def concat(self) -> torch.Tensor:
        """All cells one behind the other along their first dimension."""
        rest = self._cell().shape[1:] if self._staged() else ()
        return self._tensor(
            "array_concat", *self._fill(), type=TensorType(self.dtype, (None, *rest))
        )

    def unstack(self, value: torch.Tensor) -> TensorArray:
        """An array of the rows of ``value``."""
        return self._with(TensorList.from_tensor(value).content, tuple(value.shape[1:]))

    def split(self, value: torch.Tensor, lengths: Any) -> TensorArray:
        """An array of pieces of ``value`` of the given lengths."""
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
        rows = self.stack()
        return rows.index_select(
            0, indices if isinstance(indices, torch.Tensor) else torch.tensor(indices)
        )

    def scatter(self, indices: Any, value: torch.Tensor) -> TensorArray:
        """The array with the rows of ``value`` in the cells of the given indices."""
        out: TensorArray = self
        places = indices.unbind(0) if isinstance(indices, torch.Tensor) else list(indices)
        for k, i in enumerate(places):
            out = out.write(i, value[k])
        return out

    def __repr__(self) -> str:
        return f"TensorArray({self.dtype}, {self.content!r})"


class Optional:
    """A value that may be absent.

    Example: ``o = tg.Optional.from_value(x)``; ``o.has_value()``; ``o.get_value()``.
    """

    def __init__(self, content: Any, spec: Any):
        self.content, self.spec = content, spec

    @staticmethod
    def from_value(value: Any) -> Optional:
        """An Optional that holds ``value``."""
        if not is_tracing():
            return Optional((value,), None)
        graph = current_graph()
        if not isinstance(value, torch.Tensor):
            value = torch.as_tensor(value)
        kind = OptionalType(_type_of(value))
        return Optional(
            Handle(Ref(graph.emit("tg.optional_some", value_of(value, graph), type=kind), graph)),
            None,
        )

    @staticmethod
    def empty(spec: TensorSpec) -> Optional:
        """An Optional without a value; ``spec`` says of which type one would be."""
        if not is_tracing():
            return Optional((), None)
        graph = current_graph()
        kind = OptionalType(TensorType(spec.dtype, spec.shape or (), str(spec.device)))
        return Optional(Handle(Ref(graph.emit("tg.optional_none", type=kind), graph)), None)

    def __tograph_flatten__(self):
        return None, [self.content]

    @staticmethod
    def __tograph_unflatten__(aux, parts):
        return Optional(parts[0], None)

    def has_value(self) -> Any:
        """Whether there is a value, as a bool tensor."""
        if not isinstance(self.content, Handle):
            return torch.tensor(bool(self.content))
        graph = current_graph()
        node = staged(
            ScalarNode(
                bool,
                Ref(
                    graph.emit("tg.optional_has", graph.resolve(self.content.ref), type=BOOL), graph
                ),
            )
        )
        return torch.scalar_tensor(node, dtype=torch.bool)

    def get_value(self) -> Any:
        """The value; an error at run time when there is none."""
        if not isinstance(self.content, Handle):
            return ops.lookup("tg.optional_get").run(self.content)
        graph = current_graph()
        kind = self.content.type.element
        return symbolic(
            graph.emit("tg.optional_get", graph.resolve(self.content.ref), type=kind), graph
        )

    def __repr__(self) -> str:
        return f"Optional({self.content!r})"
