"""Sets whose items depend on a staged condition, and going over what sets and dicts hold there.

An item that is in a set on some paths only stays in Python's set, with a union of True and ``MISSING`` beside it (``conditional_items``),
as a key of a dict has one as its value. ``in``, ``len``, ``for`` and the methods below ask it; anything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import torch

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.guarding import reads
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import user_location
from ..runtime.symbols.journal import MISSING
from ..runtime.symbols.symbolic import SymTensor
from ..runtime.values import conditional_items, tables
from ..runtime.values.dict_views import SET_VIEWS
from ..runtime.values.growing import StagedList
from ..runtime.values.structure import holds_missing, is_growing, may_miss
from . import tensor_keys
from .logical import and_, not_, or_
from .new_keys import need_table
from .staging import is_staged, is_staged_key
from .union import distribute_missing, set_is_conditional, test_options

_PLAIN = (set, frozenset, list, StagedList, tuple, dict, range)


def is_conditional(x: Any) -> bool:
    """Whether something in a set or dict is there, or stands where it does, on some paths only."""
    if type(x) is set:
        return bool(conditional_items.conditional(x))
    return issubclass(type(x), dict) and (
        conditional_items.is_unordered(x) or holds_missing(dict.values(x))
    )


set_is_conditional(is_conditional)


def present(x: Any, item: Any) -> Any:
    """Whether an item is in a set, or a key in a dict: a bool, plain or staged."""
    held = dict.get(x, item, MISSING) if isinstance(x, dict) else conditional_items.member(x, item)
    return test_options(lambda v: v is not MISSING, held) if may_miss(held) else held is not MISSING


def _by_item(x: Any, others: tuple = ()) -> bool:
    """Whether a change of a set is recorded item by item."""
    if type(x) is not set or not all(map(_is_plain, others)):
        return False
    if any(is_staged(i) and not isinstance(i, torch.Tensor) for o in (x, *others) for i in o):
        return False
    return (
        journal.depth() > 1
        or bool(conditional_items.conditional(x))
        or any(map(is_conditional, others))
    )


def _is_plain(x: Any) -> bool:
    return type(x) in _PLAIN and not is_growing(x)


def _put(x: set, item: Any) -> None:
    tensor_keys.refuse_new(x, item)
    home = item.storage_.home if isinstance(item, SymTensor) else None
    if home is not None and home.outer is not None:
        raise StagingError(
            "a tensor that is made in a staged branch or loop is put into a set: outside of it it is another object. Use a list",
            user_location(),
        )
    conditional_items.item_of(x, item).set(True)


def _drop(x: set, item: Any) -> None:
    there = present(x, item)
    if there is not False:
        conditional_items.item_of(x, item).set(MISSING)


def _where(test: Any, change: Callable[[], None]) -> None:
    if is_staged(test):
        control_flow.staged_if(test, change, lambda: None)
    elif test:
        change()


def add(x: set, item: Any) -> Any:
    if is_staged_key(item):
        need_table(x)
    return _put(x, item) if _by_item(x, ((item,),)) else NotImplemented


def discard(x: set, item: Any) -> Any:
    if not _by_item(x, ((item,),)):
        return NotImplemented
    _look(x)
    return _drop(x, item)


def remove(x: set, item: Any) -> Any:
    if not _by_item(x, ((item,),)):
        return NotImplemented
    _look(x)
    there = present(x, item)

    def absent() -> None:
        raise KeyError(item)

    if is_staged(there):
        control_flow.staged_if(there, lambda: None, absent)
    elif not there:
        absent()
    _drop(x, item)
    return None


def clear(x: set) -> Any:
    if not _by_item(x):
        return NotImplemented
    _look(x)
    for item in list(x):
        _drop(x, item)
    return None


def update(x: set, *others: Any) -> Any:
    """``x |= other``"""
    for other in others:
        if tables.is_table(other) or (_is_plain(other) and any(map(is_staged_key, other))):
            need_table(x)
    if not _by_item(x, others):
        return NotImplemented
    for other in others:
        for test, item in entries_of(other):
            _where(test, lambda item=item: _put(x, item))
    return None


def difference_update(x: set, *others: Any) -> Any:
    """``x -= other``"""
    if not _by_item(x, others):
        return NotImplemented
    _look(x)
    for other in others:
        for test, item in entries_of(other):
            _where(test, lambda item=item: _drop(x, item))
    return None


def intersection_update(x: set, *others: Any) -> Any:
    """``x &= other``"""
    if not _by_item(x, others):
        return NotImplemented
    _look(x)
    for other in others:
        rest = {item: test for test, item in entries_of(other)}
        for item in list(x):
            test = rest.get(item, False)
            if is_staged(test):
                control_flow.staged_if(test, lambda: None, lambda item=item: _drop(x, item))
            elif not test:
                _drop(x, item)
    return None


def symmetric_difference_update(x: set, other: Any) -> Any:
    """``x ^= other``"""
    if not _by_item(x, (other,)):
        return NotImplemented
    _look(x)
    for test, item in entries_of(set(other) if not is_conditional(other) else other):
        _where(test, lambda item=item: _flip(x, item))
    return None


def _flip(x: set, item: Any) -> None:
    there = present(x, item)
    if is_staged(there):
        control_flow.staged_if(there, lambda: _drop(x, item), lambda: _put(x, item))
    elif there:
        _drop(x, item)
    else:
        _put(x, item)


def pop(x: set) -> Any:
    """Take the first item that is there, as a ``for`` goes over them."""
    if not is_conditional(x):
        return NotImplemented
    _look(x)

    def take(item: Any) -> Any:
        _drop(x, item)
        return item

    def first(entries: list[tuple[Any, Any]]) -> Any:
        if not entries:
            raise KeyError("pop from an empty set")
        (test, item), *rest = entries
        if not is_staged(test):
            return take(item) if test else first(rest)
        return control_flow.staged_if(test, lambda: take(item), lambda: first(rest))

    return first(entries_of(x))


def copy(x: set) -> Any:
    return copied(x) if is_conditional(x) else NotImplemented


def copied(x: set) -> set:
    """A new set of the same items."""
    made = set(x)
    for item, value in conditional_items.conditional(x).items():
        conditional_items.item_of(made, item).set(value)
    return made


def _made(change: Callable[..., Any]) -> Callable[..., Any]:
    """The method that returns a new set: ``union``, ``difference``, ..."""

    def method(x: set, *others: Any) -> Any:
        if type(x) is not set or not any(map(is_conditional, (x, *others))):
            return NotImplemented
        made = copied(x)
        return NotImplemented if change(made, *others) is NotImplemented else made

    return method


METHODS: dict[str, Callable[..., Any]] = {
    "add": add, "discard": discard, "remove": remove, "clear": clear, "update": update, "difference_update": difference_update,
    "intersection_update": intersection_update, "symmetric_difference_update": symmetric_difference_update, "pop": pop, "copy": copy,
    "union": _made(update), "difference": _made(difference_update), "intersection": _made(intersection_update),
    "symmetric_difference": _made(symmetric_difference_update),
}  # fmt: skip
OPERATORS = {
    "or": "union",
    "and": "intersection",
    "sub": "difference",
    "xor": "symmetric_difference",
}


def operator(name: str, a: Any, b: Any) -> Any:
    """``a | b`` and the like of sets, with ``name`` "or"; ``a |= b`` with "ior"; NotImplemented where it is Python's own."""
    of_sets = isinstance(a, set) and isinstance(b, (set, frozenset))
    if not of_sets or name.removeprefix("i") not in OPERATORS:
        return NotImplemented
    if name.startswith("i"):
        method = METHODS[OPERATORS[name[1:]] + "_update"] if name != "ior" else update
        return NotImplemented if method(a, b) is NotImplemented else a
    return METHODS[OPERATORS[name]](a, b)


def equal(a: Any, b: Any, same: Callable[[Any, Any], Any]) -> Any:
    """``a == b`` of two sets, or of two dicts whose values ``same`` compares."""
    found: Any = True
    for key in {**dict.fromkeys(a), **dict.fromkeys(b)}:
        here, there = present(a, key), present(b, key)
        found = and_(found, lambda here=here, there=there: _alike(here, there))
        if isinstance(a, dict):
            one, two = dict.get(a, key, MISSING), dict.get(b, key, MISSING)
            if one is not MISSING and two is not MISSING:
                found = and_(found, lambda one=one, two=two: same(one, two))
    return found


def _alike(here: Any, there: Any) -> Any:
    if here is True or there is True:
        return there if here is True else here
    return or_(and_(here, lambda: there), lambda: not_(or_(here, lambda: there)))


def length(x: set) -> Any:
    n: Any = len(x)
    for item in conditional_items.conditional(x):
        there = present(x, item)
        n = n - control_flow.staged_if(there, lambda: 0, lambda: 1) if is_staged(there) else n
    return n


def _look(x: set) -> None:
    reads.whole(x)


# ---- going over what is there


class Listing:
    """What a conditional set or dict gives one by one: pairs of whether it is there and the item."""

    __tograph_shown__ = True  # its text is the run's

    def __init__(self, x: Any, kind: str = "keys"):
        self.x, self.kind, self.any_order = x, kind, False

    def __iter__(self) -> Any:
        self.refuse()

    def __tograph_len__(self) -> Any:
        n: Any = 0
        for test, _ in entries_of(self.x, any_order=True):
            n = n + (
                control_flow.staged_if(test, lambda: 1, lambda: 0) if is_staged(test) else int(test)
            )
        return n

    def __contains__(self, x: Any) -> NoReturn:  # converted code asks by ``comparisons.contains``
        self.refuse()

    def isdisjoint(self, other: Any) -> NoReturn:  # of keys by ``set_relations``
        self.refuse()

    def refuse(self) -> NoReturn:
        raise StagingError(
            "what a set or dict holds depends on a staged condition, so it cannot be taken one by one here: loop over it with `for`, or set "
            "every item and key on every path",
            user_location(),
        )

    def entries(self) -> Iterator[tuple[Any, Callable[[], Any]]]:
        for test, key in entries_of(self.x, self.any_order):
            yield test, lambda key=key: self.item(key)

    def item(self, key: Any) -> Any:
        """What is given for a key that is there."""
        if self.kind == "keys":
            return key
        held = dict.__getitem__(self.x, key)
        value = distribute_missing(held, lambda: None) if may_miss(held) else held
        return value if self.kind == "values" else (key, value)


def of_listings(*operands: Any) -> bool:
    return any(isinstance(x, Listing) for x in operands)


def as_sets(a: Any, b: Any, compared: bool = False) -> tuple[Any, Any]:
    """The operands of ``d.keys() - other`` as sets, where one is the keys of a dict that depend on a staged condition, or stands beside a set that does.

    Keys are ``compared`` with sets and keys; the other operators take all that can be gone over, as Python's keys do.
    """
    tensor_keys.identify(a, b)
    listings = [x for x in (a, b) if isinstance(x, Listing)]
    keys = [x for x in listings if x.kind == "keys"]
    if not listings and any(isinstance(x, SET_VIEWS) for x in (a, b)):
        keys = [x for x in (a, b) if type(x) is set and is_conditional(x)]
    for x in listings:
        if x.kind == "items" or (keys and x.kind == "values" and not compared):
            x.refuse()
    return (as_set(a, compared), as_set(b, compared)) if keys else (a, b)


def as_set(x: Any, compared: bool) -> Any:
    """The keys in a ``Listing``, or what else can be gone over, as a set; of what keys are ``compared`` with, only sets and keys."""
    if isinstance(x, Listing):
        if x.kind != "keys":
            return x
        x = x.x
    elif isinstance(x, (set, torch.Tensor)) or not isinstance(
        x, (frozenset, *SET_VIEWS) if compared else Iterable
    ):
        return x
    made: set[Any] = set()
    for test, key in entries_of(x, any_order=True):
        _where(test, lambda key=key: _put(made, key))
    return made


def listing(x: Any, kind: str = "keys") -> Any:
    """``x``, or a ``Listing`` where something in it is there on some paths only."""
    return Listing(x, kind) if is_conditional(x) else x


def in_any_order(x: Any) -> Any:
    """``x`` for who takes all of it and asks for no order."""
    if tables.is_table(x):
        return x.keys_list()
    x = listing(x)
    if isinstance(x, Listing):
        x.any_order = True
    return x


def entries_of(x: Any, any_order: bool = False) -> list[tuple[Any, Any]]:
    """The items of a set or keys of a dict, each with whether it is there: a bool, plain or staged."""
    if is_conditional(x):
        if isinstance(x, dict) and not any_order:
            conditional_items.need_order(x)
        return [(present(x, item), item) for item in list(x)]
    return [(True, item) for item in x]
