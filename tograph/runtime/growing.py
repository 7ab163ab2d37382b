"""``StagedList``: the Python list of converted code, which can become a list of the graph.

List displays, comprehensions and list arguments of a traced function are of this class. It is a plain list until a staged
branch or loop changes its length; then its content is a graph value (a ``Handle`` of ``ListType``), appends are
functional pushes, ``len`` and items are staged. The object stays the same, so every name and attribute that holds it sees the
change. What leaves the function is a plain list again.

Items that are tuples, named tuples or frozen dataclasses of tensors and numbers are kept in columns, one list of the graph for
each leaf (``Columns``). Tensors that are in such a list may not change in place any more (``listed``).

Invariant: while ``handle`` is set the storage of the list itself is empty, and all columns have one length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..errors import StagingError, StructureError
from . import funcgraph, listed, pytrees, structure, types
from .flattening import flatten, symbolic, unflatten
from .funcgraph import FuncGraph, Ref, current_graph, is_tracing, user_location
from .ir import Value
from .joins import join
from .records import Columns, item_of, named
from .scalars import scalar
from .shapes import SYMBOLS
from .structure import Handle, Leaf, Spec, Tree, leaf_types, spec_of
from .symbolic import scalar_of
from .types import INT, ListType, TensorType, Type


class StagedList(list):
    """A list whose content may be a value of the graph."""

    handle: Handle | None = None  # the first column
    columns: tuple[Handle, ...] = ()
    record: Columns | None = None
    kind_ = "list"  # what messages call it
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, items: Any = ()):
        if isinstance(items, StagedList) and items.handle is not None:
            super().__init__()
            self._hold(items.columns, items.record)
        else:
            super().__init__(items)

    def _hold(self, columns: Sequence[Handle], record: Columns | None) -> StagedList:
        """Become a list of the graph."""
        self.columns, self.record = tuple(columns), record
        self.handle = self.columns[0]
        return self

    def _let_go(self) -> None:
        self.handle, self.columns, self.record = None, (), None

    def become(self, other: list) -> None:
        """Take over the content of another list."""
        super().__setitem__(
            slice(None), list.copy(other) if isinstance(other, StagedList) else other
        )
        if isinstance(other, StagedList) and other.handle is not None:
            self._hold(other.columns, other.record)
        else:
            self._let_go()

    # ---- as a part of structures

    def __tograph_flatten__(self):
        if self.handle is None:
            return None, list(self)
        return self.record or "staged", list(self.columns)

    @classmethod
    def __tograph_unflatten__(cls, aux, parts):
        if aux is None:
            return cls(parts) if is_tracing() else cls._plain(parts)
        record = aux if isinstance(aux, Columns) else None
        if not isinstance(parts[0], Handle):
            return cls._plain(parts[0] if record is None else record.items(parts))
        return cls()._hold(parts, record)

    @classmethod
    def _plain(cls, items: Any) -> Any:
        """What leaves the function."""
        return list(items)

    # ---- staged operations

    @property
    def element(self) -> Type:
        found = self.handle.type.element if self.handle is not None else None
        if found is None:
            raise StructureError("the items of an empty list have no type yet", user_location())
        return found

    @property
    def item_spec(self) -> Spec | None:
        """What every item is; None for a list that was empty so far."""
        if self.record is not None:
            return self.record.spec([h.type.element for h in self.columns])
        found = self.handle.type.element if self.handle is not None else None
        return None if found is None else Leaf(found)

    def values(self, graph: FuncGraph) -> list[Value]:
        """The columns as values of ``graph``."""
        return [graph.resolve(h.ref) for h in self.columns]

    def _update(self, op: str, *args: Any, items: Sequence[Value] = ()) -> None:
        """``op`` on every column, with the column's value of ``items`` as the last argument."""
        graph = current_graph()
        made = []
        for i, value in enumerate(self.values(graph)):
            new = items[i : i + 1]
            element = new[0].type if new else value.type.element
            if new and isinstance(new[0].type, ListType):
                element = new[0].type.element
            if value.type.element is not None and element is not None:
                element = types.join(value.type.element, element)
            made.append(
                Handle(
                    Ref(
                        graph.emit(f"tg.{op}", value, *args, *new, type=ListType(element)),
                        graph,
                    )
                )
            )
        self._hold(made, self.record)

    def _item_values(self, x: Any) -> list[Value]:
        """The parts of an item as values of the columns' types, with as many columns as it has parts."""
        graph = current_graph()
        given = item_of(spec_of(x))
        if given is None:
            raise self._cannot("hold anything but tensors, numbers and tuples of these")
        known = self.item_spec
        joined = given if known is None else item_of(join(known, given))
        if joined is None:
            raise StructureError(
                f"a list of {named(known)} in a staged loop or branch cannot take a {named(given)}",
                user_location(),
            )
        if known is None and not isinstance(joined, Leaf):
            self._hold(self.columns * len(leaf_types(joined)), Columns(joined))
        return item_values(x, joined, graph)

    def _cannot(self, what: str) -> StagingError:
        return StagingError(
            f"a {self.kind_} that grows in a staged loop or branch cannot {what}; use append, pop, insert, extend, indices, len, iteration "
            "and torch.stack, or a tg.TensorList",
            user_location(),
        )

    def length(self) -> Any:
        """The number of items: staged when the content is."""
        if self.handle is None:
            return super().__len__()
        graph = current_graph()
        return scalar(graph.emit("tg.list_size", self.values(graph)[0], type=INT), graph)

    __tograph_len__ = length

    def append(self, x: Any) -> None:
        if self.handle is None:
            super().append(x)
            return
        self._update("list_push", items=self._item_values(x))

    def insert(self, index: Any, x: Any) -> None:
        if self.handle is None:
            super().insert(index, x)
            return
        self._update("list_insert", _index(index), items=self._item_values(x))

    def extend(self, items: Any) -> None:
        if self.handle is None and not (isinstance(items, StagedList) and items.handle is not None):
            super().extend(items)
            return
        if isinstance(items, StagedList) and items.handle is not None:
            self._extend_staged(items)
            return
        for x in items:
            self.append(x)

    def _extend_staged(self, items: StagedList) -> None:
        mine = self.item_spec if self.handle is not None else element_of(spec_of(self))
        other = items.item_spec
        if other is None:
            return
        joined = other if mine is None else item_of(join(mine, other))
        if joined is None:
            raise StructureError(
                f"a list of {named(mine)} in a staged loop or branch cannot take a {named(other)}",
                user_location(),
            )
        self.become(staged_content(self, joined))
        self._update("list_extend", items=items.values(current_graph()))

    def pop(self, index: Any = -1) -> Any:
        return self.take(index)

    def take(self, index: Any) -> Any:
        """The item at an index, which leaves the list."""
        if self.handle is None:
            return list.pop(self, index)
        graph, spec = current_graph(), self._typed()
        nodes = [
            graph.add("tg.list_pop", (v, _index(index)), None, (v.type, v.type.element))
            for v in self.values(graph)
        ]
        self._hold([Handle(Ref(n.outputs[0], graph)) for n in nodes], self.record)
        return self._item(spec, [n.outputs[1] for n in nodes], graph)

    def item(self, index: Any) -> Any:
        graph, spec = current_graph(), self._typed()
        at = _index(index)
        values = [graph.emit("tg.list_get", v, at, type=v.type.element) for v in self.values(graph)]
        return self._item(spec, values, graph)

    def _typed(self) -> Spec:
        if self.item_spec is None:
            raise StructureError("the items of an empty list have no type yet", user_location())
        return self.item_spec

    def _item(self, spec: Spec, values: list[Value], graph: FuncGraph) -> Any:
        return unflatten(spec, iter(values), lambda v: listed.taken(symbolic(v, graph)))

    def __getitem__(self, index: Any) -> Any:
        if self.handle is None:
            found = super().__getitem__(index)
            return StagedList(found) if isinstance(index, slice) else found
        return self.sliced(index) if isinstance(index, slice) else self.item(index)

    def sliced(self, bounds: slice) -> StagedList:
        """A list of some of the items of a list of the graph."""
        made = StagedList(self)
        made._update("list_slice", *[_index(b) for b in (bounds.start, bounds.stop, bounds.step)])
        return made

    def __setitem__(self, index: Any, x: Any) -> None:
        if self.handle is None:
            super().__setitem__(index, x)
            return
        if isinstance(index, slice):
            raise self._cannot("be written by slices")
        self._update("list_set", _index(index), items=self._item_values(x))

    def copy(self) -> StagedList:
        return StagedList(self)

    def clear(self) -> None:
        super().clear()
        self._let_go()

    def __add__(self, other: Any) -> Any:
        made = StagedList(self)
        made.extend(other)
        return made

    def __radd__(self, other: Any) -> Any:
        if not isinstance(other, list):
            return NotImplemented
        made = StagedList(other)
        made.extend(self)
        return made

    def __iadd__(self, other: Any) -> Any:
        self.extend(other)
        return self

    def __mul__(self, count: Any) -> Any:
        if self.handle is None:
            return StagedList(super().__mul__(count))
        if type(count) is not int:
            return self._refuse("be repeated a number of times that depends on data")
        made = as_staged(StagedList())
        for _ in range(count):
            made.extend(self)
        return made

    __rmul__ = __mul__

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

    def __ne__(self, other: object) -> bool:
        return super().__ne__(other) if self.handle is None else self._refuse("be compared")

    def __lt__(self, other: Any) -> bool:
        return super().__lt__(other) if self.handle is None else self._refuse("be ordered")

    def __le__(self, other: Any) -> bool:
        return super().__le__(other) if self.handle is None else self._refuse("be ordered")

    def __gt__(self, other: Any) -> bool:
        return super().__gt__(other) if self.handle is None else self._refuse("be ordered")

    def __ge__(self, other: Any) -> bool:
        return super().__ge__(other) if self.handle is None else self._refuse("be ordered")

    def __reversed__(self):
        return super().__reversed__() if self.handle is None else self._refuse("be reversed")

    def __repr__(self) -> str:
        return super().__repr__() if self.handle is None else f"<symbolic {self.handle.type}>"

    def _refuse(self, what: str) -> Any:
        raise self._cannot(what)

    def __reduce_ex__(self, protocol: Any):
        return list, (list(self),)

    def stack(self) -> torch.Tensor:
        """``torch.stack`` of the items."""
        return self._joined("tg.list_stack", lambda shape: (None, *shape))

    def cat(self) -> torch.Tensor:
        """``torch.cat`` of the items."""
        return self._joined("tg.list_concat", lambda shape: (None, *shape[1:]))

    @property
    def rank(self) -> int:
        """How many dimensions the items have, which are tensors."""
        element = self.element if self.record is None else tuple
        if not isinstance(element, TensorType):
            raise TypeError(f"expected Tensor as element 0 in argument 0, but got {element}")
        return len(element.shape)

    def _joined(self, op: str, shape: Any) -> torch.Tensor:
        graph = current_graph()
        self.rank  # noqa: B018  the items are tensors
        element = self.element
        assert isinstance(element, TensorType)
        rest = shape(element.shape)
        args = (element.dtype, tuple(n or 0 for n in rest[1:]), torch.device(element.device))
        kind = TensorType(element.dtype, rest, element.device)
        return symbolic(graph.emit(op, self.values(graph)[0], *args, type=kind), graph)


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
        i = scalar_of(i)
    return i.node.value(current_graph()) if isinstance(i, SYMBOLS) else i


def staged_content(x: StagedList, item: Spec | None) -> StagedList:
    """The list with its content as values of the current graph; ``item`` is what every item is."""
    if x.handle is not None:
        if x.item_spec is None and item is not None and not isinstance(item, Leaf):
            return StagedList()._hold(x.columns * len(leaf_types(item)), Columns(item))
        return x
    graph = current_graph()
    rows = [item_values(v, item, graph) for v in list.__iter__(x)] if item is not None else []
    kinds = [None] if item is None else leaf_types(item)
    made = [
        graph.emit("tg.list_of", *(row[i] for row in rows), type=ListType(kind))
        for i, kind in enumerate(kinds)
    ]
    record = None if item is None or isinstance(item, Leaf) else Columns(item)
    return StagedList()._hold([Handle(Ref(v, graph)) for v in made], record)


def item_values(x: Any, item: Spec, graph: FuncGraph) -> list[Value]:
    """The graph values of an item; from here on its tensors may not change in place."""
    for part in _leaves(x):
        listed.appended(part)
    return flatten(x, item, graph)


def _leaves(x: Any) -> list[Any]:
    found = pytrees.parts_of(x) if not isinstance(x, (torch.Tensor, *SYMBOLS)) else None
    return [x] if found is None else [leaf for part in found[1] for leaf in _leaves(part)]


def as_staged(x: StagedList) -> StagedList:
    """The list with its content as a value of the graph, whatever it is now."""
    if x.handle is not None:
        return x
    element = element_of(spec_of(x))
    item = None if element is None else item_of(element)
    if element is not None and item is None:
        raise StructureError(
            "a list of items of different kinds cannot be changed at a staged index",
            user_location(),
        )
    return staged_content(x, item)


# ---- joins of list contents


def element_of(spec: Spec) -> Any:
    """The join of the items of a list spec: None for an empty list, a Choice when items differ in kind."""
    if spec.aux == "staged":
        found = spec.parts[0].type.element
        return None if found is None else Leaf(found)
    if isinstance(spec.aux, Columns):
        return spec.aux.spec([p.type.element for p in spec.parts])
    out: Any = None
    for part in spec.parts:
        part = Leaf(part.type) if isinstance(part, Leaf) else item_of(part) or part
        out = part if out is None else join(out, part)
    return out


def join_lists(specs: list[Spec]) -> Spec | None:
    """A staged list that covers lists of different lengths; None when they are no such lists."""
    cls = getattr(specs[0], "cls", type(None))
    alike = issubclass(cls, StagedList) and all(isinstance(s, Tree) and s.cls is cls for s in specs)
    if not alike:
        return None
    element: Any = None
    for spec in specs:
        found = element_of(spec)
        if found is not None:
            element = found if element is None else join(element, found)
    if element is None:
        return Tree(cls, "staged", (Leaf(ListType(None)),))
    item = item_of(element)
    if item is None:
        return None
    parts = tuple(Leaf(ListType(kind)) for kind in leaf_types(item))
    return Tree(cls, "staged" if isinstance(item, Leaf) else Columns(item), parts)


def flatten_list(x: StagedList, spec: Tree, graph: FuncGraph) -> list[Any]:
    """``flatten`` of a list into a staged one."""
    made = staged_content(x, element_of(spec))
    return [v for h, part in zip(made.columns, spec.parts) for v in flatten(h, part, graph)]


structure.STAGED.lists, structure.STAGED.flatten_list = StagedList, flatten_list
structure.STAGED.records = Columns
funcgraph.WRITES = listed.writes
