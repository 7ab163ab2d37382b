"""What dicts and sets of the graph do (``runtime.values.tables``): keys are looked up by comparison, when the graph runs.

A set has no order that the graph could know, but for one of integers (``set_order``): what would show one is refused.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import torch

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import user_location
from ..runtime.values import locations
from ..runtime.values.growing import StagedList
from ..runtime.values.structure import TaggedUnion
from ..runtime.values.tables import (
    StagedDict,
    StagedSet,
    StagedTable,
    is_table,
    view,
)
from . import growing_lists, set_order
from .calls import call
from .if_stmt import if_stmt
from .staging import is_staged
from .union import apply


def position(x: StagedTable, key: Any) -> Any:
    """The place of a key, -1 without it."""
    if isinstance(key, torch.Tensor):
        raise StagingError(
            "a tensor is a key by its identity: use its number, int(x) or x.item(), as the key",
            user_location(),
        )
    if type(key) is not TaggedUnion and (
        type(key).__hash__ is None or issubclass(key.__class__, (list, dict, set))
    ):
        raise TypeError(f"unhashable type: {key.__class__.__name__!r}")
    if x.item_spec is None:
        return -1
    return growing_lists.position(x.keys_list(), key)


def contains(x: StagedTable, key: Any) -> Any:
    return position(x, key) >= 0


def changing(x: StagedTable) -> None:
    """Note that the items of ``x`` change here."""
    journal.record(locations.contents(x))


def _where(at: Any, absent: Callable[[], Any], found: Callable[[], Any]) -> Any:
    """What one of two functions gives; they change nothing but tables."""
    if not is_staged(at):
        return absent() if at < 0 else found()
    return control_flow.staged_if(control_flow.predicate(at < 0, "subscript"), absent, found)


def no_such(key: Any) -> Callable[[], Any]:
    """What raises KeyError for a key that is not there, with the key that it is."""
    return lambda: apply(_raise_key, key)


def _raise_key(key: Any) -> None:
    raise KeyError(key)


def _add(x: StagedTable, item: Any) -> None:
    changing(x)
    StagedList.append(x, item)


def add(x: StagedSet, item: Any) -> None:
    """``x.add(item)``"""
    _where(position(x, item), lambda: _add(x, item), lambda: None)


def setitem(x: StagedDict, key: Any, value: Any) -> None:
    """``x[key] = value``: a new key is the last one, one that is there stays where it is."""
    at = position(x, key)

    def put() -> None:
        changing(x)
        StagedList.__setitem__(x, at, (x.keys_list().item(at), value))

    _where(at, lambda: _add(x, (key, value)), put)


def getitem(x: StagedDict, key: Any) -> Any:
    """``x[key]``"""
    if isinstance(x, set):
        raise TypeError("'set' object is not subscriptable")
    if x.python is defaultdict and x.default_factory is not None:
        return _setdefault(x, key, lambda: call(x.default_factory))
    at = position(x, key)
    if x.python is Counter:
        return _where(at, lambda: 0, lambda: x.item(at)[1])

    _where(at, no_such(key), lambda: None)
    return x.item(at)[1]  # not in a branch: a list that it is keeps its place


def get(x: StagedDict, key: Any, default: Any = None) -> Any:
    at = position(x, key)
    return _where(at, lambda: default, lambda: x.item(at)[1])


def _setdefault(x: StagedDict, key: Any, made: Callable[[], Any]) -> Any:
    at = position(x, key)
    _where(at, lambda: _add(x, (key, made())), lambda: None)
    last = x.length() - 1
    return x.item(_where(at, lambda: last, lambda: at))[1]


def setdefault(x: StagedDict, key: Any, default: Any = None) -> Any:
    return _setdefault(x, key, lambda: default)


def _taken(x: StagedTable, at: Any) -> Any:
    loses(x)
    changing(x)
    return x.take(at)


def _drop(x: StagedTable, at: Any) -> None:
    _taken(x, at)


def delitem(x: StagedDict, key: Any) -> None:
    """``del x[key]``; of a ``Counter`` also without the key."""
    at = position(x, key)
    absent = (lambda: None) if x.python is Counter else no_such(key)
    _where(at, absent, lambda: _drop(x, at))


def pop(x: StagedTable, *args: Any) -> Any:
    if isinstance(x, StagedSet):
        x.in_order()
    key, *default = args
    at = position(x, key)

    absent = (lambda: default[0]) if default else no_such(key)
    return _where(at, absent, lambda: _taken(x, at)[1])


def popitem(x: StagedDict, last: bool = True) -> Any:
    def empty() -> None:
        raise KeyError("popitem(): dictionary is empty")

    if_stmt(x.length() == 0, empty, None, ())
    return _taken(x, -1 if last else 0)


def move_to_end(x: StagedDict, key: Any, last: bool = True) -> None:
    at = position(x, key)

    def move() -> None:
        item = _taken(x, at)
        StagedList.insert(x, x.length() if last else 0, item)

    _where(at, no_such(key), move)


def discard(x: StagedSet, item: Any) -> None:
    at = position(x, item)
    _where(at, lambda: None, lambda: _drop(x, at))


def remove(x: StagedSet, item: Any) -> None:
    delitem(x, item)


def loses(x: StagedTable) -> None:
    """Note that the order of ``x`` is no longer that of items that came one after the other."""
    if isinstance(x, StagedSet):
        x.only_added = False


def clear(x: StagedTable) -> None:
    loses(x)
    changing(x)
    x.clear()


def keys_of(x: Any) -> Any:
    """What going over a table gives: its keys in order; of a set it is refused, unless that follows from them."""
    if isinstance(x, StagedSet):
        return set_order.ordered(x) if set_order.is_told(x) else x.in_order()
    return view(x, "keys")


def items_in(x: Any) -> Any:
    """The keys of a table, the items of a set among them, for who asks for no order; anything else as it is."""
    return x.keys_list() if is_table(x) else x
