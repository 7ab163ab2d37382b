"""Items of sets that are there on some paths only, and dicts whose order depends on a staged condition.

The set itself holds every item that may be there; which of them are, beside it, is a union of True and ``MISSING`` for each.
What is known here ends with the outermost trace.
"""

from __future__ import annotations

import threading
from typing import Any

from ...errors import Location as Site
from ...errors import StagingError
from ..symbols.funcgraph import user_location
from ..symbols.journal import MISSING, Location, active, key_place
from . import tables
from .structure import Leaf, is_growing, is_union, spec_of


class _Conditions(threading.local):
    """By the ids of sets and dicts: items that are there on some paths only, and dicts whose order is not known."""

    def __init__(self) -> None:
        self.members: dict[int, tuple[Any, dict[Any, Any]]] = {}
        self.unordered: dict[int, Any] = {}


_conditions = _Conditions()


def forget() -> None:
    """A trace has ended: no container holds anything conditional, unless it is one inside of another trace."""
    if not active():
        _conditions.members.clear()
        _conditions.unordered.clear()


def conditional(x: set) -> dict[Any, Any]:
    """The items of a set that are there on some paths only, each with a union of True and ``MISSING``."""
    found = _conditions.members.get(id(x))
    return found[1] if found is not None else {}


def member(x: set, item: Any) -> Any:
    """True, ``MISSING``, or a union of both: whether an item is in a set."""
    held = conditional(x)
    return held.get(item, True if item in x else MISSING)


def item_of(x: set, item: Any) -> Location:
    """One item of a set."""

    def set_(value: Any) -> None:
        held = conditional(x)
        held.pop(item, None)
        if value is MISSING:
            x.discard(item)
            return
        x.add(item)
        if value is not True:
            _conditions.members.setdefault(id(x), (x, held))[1][item] = value

    made = Location(key_place(x, item), f"item {item!r}", lambda: member(x, item), set_, x)
    made.name_key = item
    return made


def unorder(x: dict) -> None:
    """The order of the keys of a dict depends on a staged condition from here on."""
    _conditions.unordered[id(x)] = x


def unordered() -> dict[int, Any]:
    """The dicts the order of whose keys depends on a staged condition, to put back what is known here by ``reorder``."""
    return dict(_conditions.unordered)


def reorder(before: dict[int, Any]) -> None:
    _conditions.unordered = before


def is_unordered(x: dict) -> bool:
    return id(x) in _conditions.unordered


def need_order(x: Any, around: tuple[int, ...] = ()) -> None:
    """StagingError for a dict, or a container with one, the order of whose keys depends on a staged condition; a table of the graph has it."""
    plain_dict = issubclass(type(x), dict)
    if plain_dict and is_unordered(x):
        error = StagingError(
            "the order of the keys of this dict depends on a staged condition, so they cannot be listed here: set the key on every path",
            user_location(),
        )
        error.table = table_of(x)
        raise error
    if id(x) in around:  # a container may hold itself
        return
    plain = isinstance(x, (list, tuple)) and not is_growing(x)
    for part in dict.values(x) if plain_dict else x if plain else ():
        need_order(part, (*around, id(x)))


def table_of(x: Any) -> Site | None:
    """Where a dict was made that a table of the graph can stand for, which has an order of its keys in every run; None for others."""
    return tables.site_of(x) if issubclass(type(x), dict) and _of_one_kind(x) else None


def _of_one_kind(x: dict) -> bool:
    keys = {type(k) for k in dict.keys(x)}
    held = [o for v in dict.values(x) for o in (v.options_ if is_union(v) else [v])]
    specs = [spec_of(v) for v in held if v is not MISSING]
    kinds = {s.type if isinstance(s, Leaf) else getattr(s, "cls", type(s)) for s in specs}
    return len(kinds) < 2 and len(keys) < 2 and keys <= {int, str, float}


def given_out(x: Any) -> None:
    """Begin again with a table, where one can be, for a dict of ``need_order`` in what a function returns."""
    if _conditions.unordered:
        try:
            need_order(x)
        except StagingError as error:
            if error.table is not None:
                raise
