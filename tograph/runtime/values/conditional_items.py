"""Items of sets that are there on some paths only, and dicts whose order depends on a staged condition.

The set itself holds every item that may be there; which of them are, beside it, is a union of True and ``MISSING`` for each.
What is known here ends with the outermost trace.
"""

from __future__ import annotations

import threading
from typing import Any

from ...errors import StagingError
from ..symbols.funcgraph import user_location
from ..symbols.journal import MISSING, Location, active, key_place


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
    """StagingError for a dict, or a container with one, the order of whose keys depends on a staged condition."""
    plain_dict = issubclass(type(x), dict)
    if plain_dict and is_unordered(x):
        raise StagingError(
            "the order of the keys of this dict depends on a staged condition, so they cannot be listed here: set the key on every path",
            user_location(),
        )
    if id(x) in around:  # a container may hold itself
        return
    plain = isinstance(x, (list, tuple)) and getattr(x, "handle", None) is None
    for part in dict.values(x) if plain_dict else x if plain else ():
        need_order(part, (*around, id(x)))
