"""``StagedList``: the Python list of converted code, which can become a list of the graph.

List displays, comprehensions and list arguments of a traced function are of this class. It is a plain list until a staged
branch or loop changes its length; then its content is a graph value (a ``Handle`` of ``ListType``), appends are
functional pushes, ``len`` and items are staged. The object stays the same, so every name and attribute that holds it sees the
change. What leaves the function is a plain list again.

Invariant: while ``handle`` is set the storage of the list itself is empty.
"""

from __future__ import annotations

from typing import Any

import torch

from ..errors import StagingError, StructureError
from . import structure
from .funcgraph import FuncGraph, Ref, current_graph, is_tracing, user_location
from .scalars import scalar
from .shapes import SYMBOLS
from .structure import (
    Choice,
    Handle,
    Leaf,
    Spec,
    Tree,
    flatten,
    join,
    leaf_value,
    spec_of,
    symbolic,
)
from .types import INT, ListType, ScalarType, TensorType, Type


class StagedList(list):
    """A list whose content may be a value of the graph."""

    handle: Handle | None = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, items: Any = ()):
        if isinstance(items, StagedList) and items.handle is not None:
            super().__init__()
            self.handle = items.handle
        else:
            super().__init__(items)

    def become(self, other: list) -> None:
        """Take over the content of another list."""
        super().__setitem__(
            slice(None), list.copy(other) if isinstance(other, StagedList) else other
        )
        self.handle = other.handle if isinstance(other, StagedList) else None

    # ---- as a part of structures

    def __tograph_flatten__(self):
        return (None, list(self)) if self.handle is None else ("staged", [self.handle])

    @staticmethod
    def __tograph_unflatten__(aux, parts):
        if aux is None:
            return StagedList(parts) if is_tracing() else list(parts)
        if not isinstance(parts[0], Handle):
            return list(parts[0])
        made = StagedList()
        made.handle = parts[0]
        return made

    # ---- staged operations

    @property
    def element(self) -> Type:
        found = self.handle.type.element if self.handle is not None else None
        if found is None:
            raise StructureError("the items of an empty list have no type yet", user_location())
        return found

    def _value(self, graph: FuncGraph) -> Any:
        return graph.resolve(self.handle.ref)  # type: ignore[union-attr]

    def _update(self, op: str, *args: Any, element: Type | None = None) -> None:
        graph = current_graph()
        kind = ListType(element or self.handle.type.element)  # type: ignore[union-attr]
        made = graph.emit(f"tg.{op}", self._value(graph), *args, type=kind)
        self.handle = Handle(Ref(made, graph))

    def _item_value(self, x: Any) -> tuple[Any, Type]:
        """An item as a value of the element type."""
        graph = current_graph()
        spec = spec_of(x)
        if not isinstance(spec, Leaf):
            raise self._cannot("hold anything but tensors and numbers")
        known = self.handle.type.element  # type: ignore[union-attr]
        joined = spec if known is None else join(Leaf(known), Leaf(spec.type))
        if isinstance(joined, Choice):
            raise StructureError(
                f"a list of {known} in a staged loop or branch cannot take a {spec.type}",
                user_location(),
            )
        return leaf_value(x, joined.type, graph), joined.type

    def _cannot(self, what: str) -> StagingError:
        return StagingError(
            f"a list that grows in a staged loop or branch cannot {what}; use append, pop, insert, extend, indices, len, iteration "
            "and torch.stack, or a tg.TensorList",
            user_location(),
        )

    def length(self) -> Any:
        """The number of items: staged when the content is."""
        if self.handle is None:
            return super().__len__()
        graph = current_graph()
        return scalar(graph.emit("tg.list_size", self._value(graph), type=INT), graph)

    __tograph_len__ = length

    def append(self, x: Any) -> None:
        if self.handle is None:
            super().append(x)
            return
        value, kind = self._item_value(x)
        self._update("list_push", value, element=kind)

    def insert(self, index: Any, x: Any) -> None:
        if self.handle is None:
            super().insert(index, x)
            return
        value, kind = self._item_value(x)
        self._update("list_insert", _index(index), value, element=kind)

    def extend(self, items: Any) -> None:
        if self.handle is None and not (isinstance(items, StagedList) and items.handle is not None):
            super().extend(items)
            return
        if self.handle is None:
            self.become(staged_content(self, items.element))
        if isinstance(items, StagedList) and items.handle is not None:
            self._update("list_extend", items._value(current_graph()))
            return
        for x in items:
            self.append(x)

    def pop(self, index: Any = -1) -> Any:
        if self.handle is None:
            return super().pop(index)
        graph = current_graph()
        node = graph.add(
            "tg.list_pop",
            (self._value(graph), _index(index)),
            None,
            (self.handle.type, self.element),
        )
        self.handle = Handle(Ref(node.outputs[0], graph))
        return symbolic(node.outputs[1], graph)

    def item(self, index: Any) -> Any:
        graph = current_graph()
        return symbolic(
            graph.emit("tg.list_get", self._value(graph), _index(index), type=self.element), graph
        )

    def __getitem__(self, index: Any) -> Any:
        if self.handle is None:
            found = super().__getitem__(index)
            return StagedList(found) if isinstance(index, slice) else found
        if isinstance(index, slice):
            graph = current_graph()
            bounds = [_index(b) for b in (index.start, index.stop, index.step)]
            made = StagedList()
            value = graph.emit("tg.list_slice", self._value(graph), *bounds, type=self.handle.type)
            made.handle = Handle(Ref(value, graph))
            return made
        return self.item(index)

    def __setitem__(self, index: Any, x: Any) -> None:
        if self.handle is None:
            super().__setitem__(index, x)
            return
        if isinstance(index, slice):
            raise self._cannot("be written by slices")
        value, kind = self._item_value(x)
        self._update("list_set", _index(index), value, element=kind)

    def copy(self) -> StagedList:
        return StagedList(self)

    def clear(self) -> None:
        super().clear()
        self.handle = None

    def __add__(self, other: Any) -> Any:
        made = StagedList(self)
        made.extend(other)
        return made

    def __iadd__(self, other: Any) -> Any:
        self.extend(other)
        return self

    def __mul__(self, count: Any) -> Any:
        return (
            StagedList(super().__mul__(count))
            if self.handle is None
            else self._refuse("be repeated")
        )

    def __iter__(self):
        return (
            super().__iter__()
            if self.handle is None
            else self._refuse("be iterated outside of converted code")
        )

    def __len__(self) -> int:
        return (
            super().__len__()
            if self.handle is None
            else self._refuse("tell its length outside of converted code")
        )

    def __contains__(self, x: Any) -> bool:
        return super().__contains__(x) if self.handle is None else self._refuse("be searched")

    def __bool__(self) -> bool:
        return (
            super().__len__() > 0
            if self.handle is None
            else self._refuse("be a condition of unconverted code")
        )

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) if self.handle is None else self._refuse("be compared")

    def __repr__(self) -> str:
        return super().__repr__() if self.handle is None else f"<symbolic {self.handle.type}>"

    def _refuse(self, what: str) -> Any:
        raise self._cannot(what)

    def __reduce_ex__(self, protocol: Any):
        return list, (list(self),)

    def stack(self, dim: int = 0) -> torch.Tensor:
        """``torch.stack`` of the items."""
        return self._joined("tg.list_stack", dim, lambda shape: (None, *shape))

    def cat(self, dim: int = 0) -> torch.Tensor:
        """``torch.cat`` of the items."""
        return self._joined("tg.list_concat", dim, lambda shape: (None, *shape[1:]))

    def _joined(self, op: str, dim: int, shape: Any) -> torch.Tensor:
        graph = current_graph()
        element = self.element
        if not isinstance(element, TensorType):
            raise TypeError(f"expected Tensor as element 0 in argument 0, but got {element}")
        if dim != 0:
            raise self._cannot(f"be joined along dimension {dim}")
        rest = shape(element.shape)
        args = (element.dtype, tuple(n or 0 for n in rest[1:]), torch.device(element.device))
        kind = TensorType(element.dtype, rest, element.device)
        return symbolic(graph.emit(op, self._value(graph), *args, type=kind), graph)


for _name in ("remove", "reverse", "sort", "index", "count"):
    _plain = getattr(list, _name)

    def _method(self, *args: Any, _plain: Any = _plain, _name: str = _name, **kwargs: Any) -> Any:
        return (
            _plain(self, *args, **kwargs) if self.handle is None else self._refuse(f"do {_name}()")
        )

    _method.__name__ = _name
    setattr(StagedList, _name, _method)


def _index(i: Any) -> Any:
    if isinstance(i, torch.Tensor):
        i = structure.scalar_index(i)
    return i.node.value(current_graph()) if isinstance(i, SYMBOLS) else i


def staged_content(x: StagedList, element: Type | None) -> StagedList:
    """The list with its content as a value of the current graph."""
    if x.handle is not None:
        return x
    graph = current_graph()
    values = (
        [leaf_value(v, element, graph) for v in list.__iter__(x)] if element is not None else []
    )
    made = StagedList()
    made.handle = Handle(Ref(graph.emit("tg.list_of", *values, type=ListType(element)), graph))
    return made


def as_staged(x: StagedList) -> StagedList:
    """The list with its content as a value of the graph, whatever it is now."""
    if x.handle is not None:
        return x
    element = element_of(spec_of(x))
    if element is not None and not isinstance(element, Leaf):
        raise StructureError(
            "a list of items of different kinds cannot be changed at a staged index",
            user_location(),
        )
    return staged_content(x, None if element is None else element.type)


# ---- joins of list contents


def element_of(spec: Spec) -> Any:
    """The join of the items of a list spec: a Leaf, None for an empty list, or a Choice when items differ in kind."""
    if spec.aux == "staged":
        found = spec.parts[0].type.element
        return None if found is None else Leaf(found)
    out: Any = None
    for part in spec.parts:
        part = Leaf(part.type) if isinstance(part, Leaf) else part
        out = part if out is None else join(out, part)
    return out


def join_lists(specs: list[Spec]) -> Spec | None:
    """A staged list that covers lists of different lengths; None when they are no such lists."""
    if not all(isinstance(s, Tree) and s.cls is StagedList for s in specs):
        return None
    element: Any = None
    for spec in specs:
        found = element_of(spec)
        if found is not None:
            element = found if element is None else join(element, found)
    if element is not None and not isinstance(element, Leaf):
        return None
    kind = None if element is None else element.type
    if kind is not None and not isinstance(kind, (TensorType, ScalarType)):
        return None
    return Tree(StagedList, "staged", (Leaf(ListType(kind)),))


def flatten_list(x: StagedList, spec: Tree, graph: FuncGraph) -> list[Any]:
    """``flatten`` of a list into a staged one."""
    made = staged_content(x, spec.parts[0].type.element)
    return flatten(made.handle, spec.parts[0], graph)


structure.LISTS = (StagedList, flatten_list)
