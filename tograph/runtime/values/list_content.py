"""The content of a list of the graph: its columns, and what is done with them when the graph runs.

``handle``: the first column, a graph value; None while the content is that of the plain list. ``columns``: one for each leaf of
an item; ``record`` tells how an item is made of its leaves, None for items of one leaf.

Invariant: while ``handle`` is set the storage of the list itself is empty, and all columns have one length.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from ...errors import StagingError, StructureError
from ..graph import types
from ..graph.ir import Value
from ..graph.types import INT, ListType, TensorType, Type
from ..inference.shapes import SYMBOLS
from ..symbols.descriptions import index_of
from ..symbols.funcgraph import FuncGraph, Ref, current_graph, user_location
from ..symbols.scalars import scalar
from . import inner_lists, listed
from .flattening import symbolic, unflatten
from .joins import join
from .list_lengths import known_length
from .listed import item_values
from .records import Columns, fitted, item_of, named
from .structure import Handle, Leaf, Spec, spec_of

_moves = itertools.count(1)


class ListContent(list):
    """A list whose items may be values of the graph."""

    handle: Handle | None = None
    columns: tuple[Handle, ...] = ()
    record: Columns | None = None
    kind_ = "list"  # what messages call it
    frozen = False  # it cannot change
    home: Any = None  # the place that it has in another list of the graph (``inner_lists``)
    token_: Any = None
    live: Any = None  # the items that have their place here
    moves = 0  # another number since its items got other places
    grew = False  # it was of the graph once, which stays so where a region's changes are undone

    def _hold(self, columns: Sequence[Handle], record: Columns | None) -> Any:
        """Become a list of the graph."""
        self.columns, self.record, self.grew = tuple(columns), record, True
        self.handle = self.columns[0]
        return self

    def in_order(self) -> Any:
        """What going over it gives."""
        return self

    @property
    def token(self) -> Any:
        """What a list and the notes of its content have in common."""
        self.token_ = self.token_ or object()
        return self.token_

    def _let_go(self) -> None:
        self.handle, self.columns, self.record = None, (), None

    def become(self, other: list) -> None:
        """Take over the content of another list."""
        before = isinstance(other, ListContent) and other.token_ is self.token
        self.moves = getattr(other, "moves", 0) if before else next(_moves)
        super().__setitem__(
            slice(None), list.copy(other) if isinstance(other, ListContent) else other
        )
        if isinstance(other, ListContent) and other.handle is not None:
            self._hold(other.columns, other.record)
        else:
            self._let_go()

    @property
    def plain(self) -> bool:
        """Whether its items are there to be looked at: it is Python's list still, or nothing has been put into it yet."""
        return self.handle is None or self.item_spec is None

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
            kinds = [h.type.element for h in self.columns]
            return None if None in kinds else self.record.spec(kinds)
        found = self.handle.type.element if self.handle is not None else None
        return None if found is None else Leaf(found)

    def values(self, graph: FuncGraph) -> list[Value]:
        """The columns as values of ``graph``."""
        return [graph.resolve(h.ref) for h in self.columns]

    def _update(self, op: str, *args: Any, items: Sequence[Value] = ()) -> None:
        """``op`` on every column, with the column's value of ``items`` as the last argument."""
        graph = current_graph()
        self.moves = self.moves if op in _AT_THE_END else next(_moves)
        made = []
        for i, value in enumerate(self.values(graph)):
            new = items[i : i + 1]
            element = new[0].type if new else value.type.element
            if new and op == "list_extend":
                element = new[0].type.element
            if value.type.element is not None and element is not None:
                element = self._of_both(value.type.element, element)
            made.append(
                Handle(
                    Ref(
                        graph.emit(f"tg.{op}", value, *args, *new, type=ListType(element)),
                        graph,
                    )
                )
            )
        self._hold(made, self.record)

    def _of_both(self, have: Type, given: Type) -> Type:
        """What covers the items of a column and a new one: numbers in a list of the graph do not become tensors."""
        found = types.join(have, given)
        if found is None:
            raise StructureError(
                f"a list of {have} in a staged loop or branch cannot take a {given}",
                user_location(),
            )
        return found

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
        if not isinstance(joined, Leaf) and self.record != Columns(joined):
            self._hold(fitted(self.columns, known, joined), Columns(joined))
        return item_values(x, joined, graph)

    def _cannot(self, what: str) -> StagingError:
        return StagingError(
            f"a {self.kind_} that grows in a staged loop or branch cannot {what}; use append, pop, insert, extend, indices, len, iteration "
            "and torch.stack, or a tg.TensorList",
            user_location(),
        )

    def length(self) -> Any:
        """The number of items: staged when the content is."""
        if self.plain:
            return super().__len__()
        graph = current_graph()
        return scalar(graph.emit("tg.list_size", self.values(graph)[0], type=INT), graph)

    __tograph_len__ = length

    def take(self, index: Any) -> Any:
        """The item at an index, which leaves the list."""
        if self.handle is None:
            unknown = not list.__len__(self) and isinstance(as_index(index), Value)
            return list.pop(self, -1 if unknown else index)
        graph, spec = current_graph(), self._typed()
        self.moves = next(_moves)
        nodes = [
            graph.add("tg.list_pop", (v, as_index(index)), None, (v.type, v.type.element))
            for v in self.values(graph)
        ]
        self._hold([Handle(Ref(n.outputs[0], graph)) for n in nodes], self.record)
        return inner_lists.let_go(self._item(spec, [n.outputs[1] for n in nodes], graph), spec)

    def item(self, index: Any, owner: Any = None, homes: bool = True) -> Any:
        """An item, whose place is in ``owner`` if that is another list of the same items; ``homes``: whether lists in it are told their place."""
        graph, spec = current_graph(), self._typed()
        at = as_index(index)
        values = [graph.emit("tg.list_get", v, at, type=v.type.element) for v in self.values(graph)]
        found = self._item(spec, values, graph)
        _note_read(found, graph.root.read_items)
        return (
            inner_lists.settle_read(found, spec, self if owner is None else owner, index)
            if homes
            else found
        )

    def put_part(self, index: Any, first: int, items: Sequence[Value]) -> None:
        """Write some columns of an item, from the ``first`` on."""
        graph, made = current_graph(), list(self.columns)
        for i, new in enumerate(items, first):
            value = graph.resolve(made[i].ref)
            kind = ListType(self._of_both(value.type.element, new.type))
            made[i] = Handle(Ref(graph.emit("tg.list_set", value, as_index(index), new, type=kind), graph))  # fmt: skip
        self._hold(made, self.record)

    def _typed(self) -> Spec:
        if self.item_spec is None:
            raise StructureError("the items of an empty list have no type yet", user_location())
        return self.item_spec

    def _item(self, spec: Spec, values: list[Value], graph: FuncGraph) -> Any:
        return unflatten(spec, iter(values), lambda v: listed.taken(symbolic(v, graph)))

    def stack(self) -> torch.Tensor:
        """``torch.stack`` of the items."""
        count = known_length(self.values(current_graph())[0])
        return self._joined("tg.list_stack", lambda shape: (count, *shape))

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

    def _refuse(self, what: str) -> Any:
        raise self._cannot(what)


_AT_THE_END = ("list_push", "list_extend", "list_reserve")


def as_index(i: Any) -> Any:
    if isinstance(i, torch.Tensor):
        i = index_of(i)
    if isinstance(i, (float, torch.SymFloat)):
        raise TypeError("'float' object cannot be interpreted as an integer")
    return i.node.value(current_graph()) if isinstance(i, SYMBOLS) else i


def _note_read(x: Any, noted: dict[int, Any]) -> None:
    """Note the lists and tuples in an item: another reading of it gives others."""
    if isinstance(x, (list, tuple)):
        noted[id(x)] = x
        for part in x if issubclass(type(x), tuple) else ():
            _note_read(part, noted)
