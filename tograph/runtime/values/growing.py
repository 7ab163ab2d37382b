"""``StagedList``: the Python list of converted code, which can become a list of the graph.

List displays, comprehensions and list arguments of a traced function are of this class. It is a plain list until a staged
branch or loop changes its length; then its content is a graph value (a ``Handle`` of ``ListType``), appends are
functional pushes, ``len`` and items are staged. The object stays the same, so every name and attribute that holds it sees the
change. What leaves the function is a plain list again.

Items that are tuples, named tuples or frozen dataclasses of tensors and numbers are kept in columns, one list of the graph for
each leaf (``Columns``). Tensors that are in such a list may not change in place any more (``listed``).

Invariants: while ``handle`` is set the storage of the list itself is empty, and all columns have one length. Python's messages,
``isinstance`` and ``x.__class__`` take it for a ``list``; only ``type(x)`` in code that is not converted tells it from one.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from ...errors import StructureError
from ..graph.ir import Value
from ..graph.types import ListType
from ..inference.shapes import SYMBOLS
from ..symbols import funcgraph
from ..symbols.funcgraph import FuncGraph, Ref, current_graph, is_tracing, user_location
from . import inner_lists, listed, structure
from .flattening import flatten
from .joins import join
from .list_content import ListContent, as_index
from .listed import item_values
from .records import Columns, element_of, fitted, item_of, named
from .structure import Handle, Leaf, Spec, Tree, is_growing, leaf_types, spec_of


class StagedList(ListContent):
    """A list whose content may be a value of the graph."""

    __hash__ = None

    def __init__(self, items: Any = ()):
        if isinstance(items, StagedList):
            self.token_, self.moves = items.token, items.moves
        if is_growing(items):
            super().__init__()
            self._hold(items.columns, items.record)
        else:
            super().__init__(items)

    @property
    def __class__(self) -> type:
        return list

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

    def append(self, x: Any) -> None:
        if self.handle is None:
            super().append(x)
            return
        values = self._item_values(x)
        inner_lists.settle_pushed(x, self)
        self._update("list_push", items=values)

    def insert(self, index: Any, x: Any) -> None:
        self._open_for(index)
        if self.handle is None:
            super().insert(index, x)
            return
        values = self._item_values(x)
        inner_lists.settle(x, self.item_spec, self, None)
        self._update("list_insert", as_index(index), items=values)

    def extend(self, items: Any) -> None:
        items = items.in_order() if isinstance(items, ListContent) else items
        if self.handle is None and not is_growing(items):
            super().extend(items)
            return
        if is_growing(items):
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
        given = staged_content(items, joined)
        self._update("list_extend", items=inner_lists.copies(given).values(current_graph()))

    def pop(self, index: Any = -1) -> Any:
        if list.__len__(self):
            self._open_for(index)
        return self.take(index)

    def _open_for(self, index: Any) -> None:
        """Become a list of the graph where the index of a change is known only when the graph runs."""
        at = as_index(index)
        if self.handle is None and isinstance(at, Value):
            self.become(as_staged(self))

    def __getitem__(self, index: Any) -> Any:
        if self.handle is None:
            found = super().__getitem__(index)
            return StagedList(found) if isinstance(index, slice) else found
        return self.sliced(index) if isinstance(index, slice) else self.item(index)

    def sliced(self, bounds: slice) -> StagedList:
        """A list of some of the items of a list of the graph."""
        made = StagedList(self)
        made._update("list_slice", *[as_index(b) for b in (bounds.start, bounds.stop, bounds.step)])
        return inner_lists.copies(made)

    def __setitem__(self, index: Any, x: Any) -> None:
        if self.handle is None:
            super().__setitem__(index, x)
            return
        if isinstance(index, slice):
            raise self._cannot("be written by slices")
        if inner_lists.is_there(x, self, index):
            return
        values = self._item_values(x)
        inner_lists.settle(x, self.item_spec, self, None)
        self._update("list_set", as_index(index), items=values)

    def copy(self) -> StagedList:
        return inner_lists.copies(StagedList(self))

    def replace(self, other: list) -> None:
        """Take over the content of another list, as a change that all see who hold this one."""
        self.become(other)

    def __copy__(self) -> StagedList:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> StagedList:
        made = memo[id(self)] = type(self)(self if self.handle is not None else ())
        for x in list.__iter__(self):
            list.append(made, deepcopy(x, memo))
        return made

    def clear(self) -> None:
        super().clear()
        self._let_go()

    def __add__(self, other: Any) -> Any:
        if not issubclass(other.__class__, list):
            return self._not_joined(other)
        made = inner_lists.copies(StagedList(self))
        made.extend(other)
        return made

    def __radd__(self, other: Any) -> Any:
        if not issubclass(other.__class__, list):
            return NotImplemented
        made = StagedList(other)
        made.extend(self)
        return made

    def _not_joined(self, other: Any) -> Any:
        """What ``+`` gives with something that is no list: what that makes of it, or Python's TypeError."""
        kind = other.node.kind if isinstance(other, SYMBOLS) else other.__class__
        if hasattr(type(other), "__radd__") and kind not in (bool, int, float, complex):
            made = type(other).__radd__(other, self)
            if made is not NotImplemented:
                return made
        name = kind.__name__
        raise TypeError(f'can only concatenate list (not "{name}") to list')

    def __iadd__(self, other: Any) -> Any:
        self.extend(other)
        return self

    def __imul__(self, count: Any) -> Any:
        self.replace(self * count)
        return self

    def __mul__(self, count: Any) -> Any:
        if self.handle is None and not hasattr(type(count), "__index__"):
            return self._not_repeated(count)
        if self.handle is None:
            return StagedList(super().__mul__(count))
        if type(count) is not int:
            return self._refuse("be repeated a number of times that depends on data")
        made = as_staged(StagedList())
        for _ in range(count):
            made.extend(self)
        return made

    __rmul__ = __mul__

    @staticmethod
    def _not_repeated(count: Any) -> Any:
        if hasattr(type(count), "__rmul__") and not isinstance(count, (float, complex)):
            return NotImplemented
        name = count.__class__.__name__
        raise TypeError(f"can't multiply sequence by non-int of type {name!r}")

    def __iter__(self):
        return (
            self._followed()
            if self.plain
            else self._refuse("be iterated outside of converted code")
        )

    def _followed(self):
        """The items as Python's own iterator gives them, which ends where the storage is empty."""
        for item in super().__iter__():
            yield item
            if self.handle is not None:
                self.refuse_change()

    def refuse_change(self) -> None:
        """StagingError: the list changed while a built-in function was taking its items."""
        self._refuse(
            "change where zip(), map() or another built-in goes over it: loop over the list itself, or over a copy"
        )

    def given_to(self, name: str) -> None:
        """StagingError for a list of the graph: the function reads the memory of lists, where this one has nothing."""
        if self.handle is not None:
            self._refuse(f"be given to {name!r}")

    def __len__(self) -> int:
        return (
            super().__len__()
            if self.plain
            else self._refuse("tell its length outside of converted code")
        )

    def __bool__(self) -> bool:
        return (
            super().__len__() > 0
            if self.plain
            else self._refuse("be a condition of unconverted code")
        )

    def __repr__(self) -> str:
        return (
            super().__repr__()
            if self.handle is None
            else f"<{self.handle.type}, known when the graph runs>"
        )

    def __reduce_ex__(self, protocol: Any):
        return list, (list(self),)


StagedList.__name__ = "list"  # in messages of Python
_REFUSED = {
    "__contains__": "be searched", "__eq__": "be compared", "__ne__": "be compared", "__lt__": "be ordered", "__le__": "be ordered",
    "__gt__": "be ordered", "__ge__": "be ordered", "__reversed__": "be reversed",
    **{name: f"do {name}()" for name in ("remove", "reverse", "sort", "index", "count")},
}  # fmt: skip
for _name, _what in _REFUSED.items():
    _plain = getattr(list, _name)

    def _method(self, *args: Any, _plain: Any = _plain, _what: str = _what, **kwargs: Any) -> Any:
        return _plain(self, *args, **kwargs) if self.handle is None else self._refuse(_what)

    _method.__name__ = _name
    setattr(StagedList, _name, _method)
for _name in ("append", "insert", "extend", "pop", "take", "replace", "clear", "remove", "reverse", "sort", "__setitem__", "__delitem__"):  # fmt: skip
    setattr(StagedList, _name, inner_lists.following(getattr(StagedList, _name)))


def check_attribute(x: Any, name: str, writes: bool = False) -> None:
    """AttributeError for a name that Python's list, deque or tuple does not have; none can be written."""
    if isinstance(x, StagedList) and (writes or not hasattr(x.__class__, name)):
        raise AttributeError(f"{x.__class__.__name__!r} object has no attribute {name!r}")


def staged_content(x: StagedList, item: Spec | None) -> StagedList:
    """The list with its content as values of the current graph; ``item`` is what every item is."""
    if x.handle is not None:
        if item is None or isinstance(item, Leaf) or x.record == Columns(item):
            return x
        return StagedList()._hold(fitted(x.columns, x.item_spec, item), Columns(item))
    graph = current_graph()
    rows = [item_values(v, item, graph) for v in list.__iter__(x)] if item is not None else []
    for v in list.__iter__(x) if rows else ():
        inner_lists.settle(v, item, x, None)
    kinds = [None] if item is None else leaf_types(item)
    made = [
        graph.emit("tg.list_of", *(row[i] for row in rows), type=ListType(kind))
        for i, kind in enumerate(kinds)
    ]
    record = None if item is None or isinstance(item, Leaf) else Columns(item)
    return StagedList()._hold([Handle(Ref(v, graph)) for v in made], record)


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


def flatten_list(x: StagedList, spec: Tree, graph: FuncGraph) -> list[Any]:
    """``flatten`` of a list into a staged one."""
    made = staged_content(x, element_of(spec))
    return [v for h, part in zip(made.columns, spec.parts) for v in flatten(h, part, graph)]


structure.STAGED.lists, structure.STAGED.flatten_list = StagedList, flatten_list
structure.STAGED.records = Columns
funcgraph.WRITES = listed.writes
