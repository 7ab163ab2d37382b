"""What takes all items of an iterable other than a ``for``: ``list(gen)``, ``sum(gen)``, ``any(gen)``, ``xs.index(v)``.

A generator with a staged condition is run the other way round, as under a ``for``: its items are appended to a list, which
becomes a list of the graph where their number depends on data.
"""

from __future__ import annotations

from typing import Any

import torch

from ..runtime import control_flow
from ..runtime.guarding.unconverted import check_keys
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import is_tracing
from ..runtime.values import locations
from ..runtime.values.growing import StagedList
from ..runtime.values.structure import is_growing
from . import subscripts
from .call_rules import is_user_function
from .calls import call
from .for_stmt import for_stmt
from .generators import Generator
from .iter_call import iterator_of
from .iterables import ListItems, StagedSequence, staged_source
from .iterators import Outer
from .lists import new_list
from .logical import and_, not_
from .members import Listing
from .registry import GROWING, METHODS
from .staging import is_staged
from .tensor_index import as_place
from .user_operators import as_bool, eq


def gathered(items: Any, count: int = -1) -> Any:
    """The items of a user's iterator or of a generator not begun yet, in a list; anything else as it is.

    ``count``: how many there may be, if not negative; ValueError, as by unpacking, for more.
    """
    items = iterator_of(items)
    fresh = isinstance(items, Listing) or (isinstance(items, Generator) and items.fresh)
    if not (fresh or isinstance(items, ListItems)):
        check_keys(items)
        return items
    out = new_list()

    def body(item):
        call(out.append, item)
        if out.handle is None and 0 <= count < len(out):
            raise ValueError(f"too many values to unpack (expected {count})")

    for_stmt(items, body, ())
    return out


def found_in(items: Generator, wanted: bool) -> Any:
    """Whether an item of a generator is as true as ``wanted``; the generator is not asked further then."""
    found = False

    def body(item):
        nonlocal found
        found = as_bool(item) if wanted else not_(item)

    def go():
        return not_(found)

    for_stmt(items, body, ("found",), test=go)
    return found


# ---- methods of lists that compare their items


def _plain(items: list) -> bool:
    return is_growing(items) or not is_tracing()


def _index(items, value, *bounds):
    if _plain(items):
        return type(items).index(items, value, *bounds)
    of_tuple = isinstance(items, tuple)
    missing = "tuple.index(x): x not in tuple" if of_tuple else "{!r} is not in list"
    return _found(items, value, missing, [_from_the_front(b, len(items)) for b in bounds])


def _from_the_front(bound, count: int):
    """A bound of ``index``, negative ones counted from the end."""
    bound = as_place(bound)
    if is_staged(bound):
        return control_flow.staged_if(bound < 0, lambda: bound + count, lambda: bound)
    return bound + count if bound < 0 else bound


def _within(i: int, bounds) -> Any:
    """Whether a position is between the bounds of ``index``."""
    tests = [b <= i if at == 0 else i < b for at, b in enumerate(bounds)]
    return True if not tests else and_(tests[0], *(lambda t=t: t for t in tests[1:]))


def _found(items, value, missing: str, bounds=()):
    """Where a value is in a list or tuple first; ValueError where it is not, with the text ``missing`` for the value."""

    def chain(i: int):
        if i == len(items):
            raise ValueError(call(missing.format, value))
        inside = _within(i, bounds)
        same = and_(inside, lambda: items[i] is value or as_bool(eq(items[i], value)))
        if not is_staged(same):
            return i if same else chain(i + 1)
        return control_flow.staged_if(same, lambda: i, lambda: chain(i + 1))

    return chain(0)


def _count(items, value):
    if _plain(items):
        return type(items).count(items, value)
    total: Any = 0
    for item in items:
        same = item is value or as_bool(eq(item, value))
        one = control_flow.staged_if(same, lambda: 1, lambda: 0) if is_staged(same) else int(same)
        total = total + one
    return total


def _remove(items, value):
    if journal.active():
        journal.record(locations.contents(items))
    if _plain(items):
        return list.remove(items, value)
    return subscripts.delitem(items, _found(items, value, "list.remove(x): x not in list"))


def _sort(items, *, key=None, reverse=False):
    if journal.active():
        journal.record(locations.contents(items))
    if _plain(items):
        list.sort(items, key=key, reverse=reverse)
    else:
        items[:] = call(sorted, list(items), key=key, reverse=reverse)


# What holds its items: nothing runs while these are taken.
_HELD = (list, tuple, dict, set, frozenset, str, bytes, range)


def extend(items: Any, others: Any) -> Any:
    """``items.extend(others)`` with each item appended as it comes: a generator may have staged conditions, and may read the list that grows."""
    if is_tracing() and isinstance(others, torch.Tensor) and others.ndim and type(others.shape[0]) is not int:  # fmt: skip
        return call(items.extend, call(list, others))  # as many rows as only the run knows
    if not is_tracing() or isinstance(others, _HELD) or is_staged(others):
        return NotImplemented
    begun = iterator_of(others)
    lazy = isinstance(begun, (Generator, StagedSequence)) or staged_source(begun) is not None
    if isinstance(begun, Outer):
        return call(items.extend, [*begun])
    if not lazy:  # an ``__iter__`` of the user's has run, and does not run again
        asked = is_user_function(getattr(type(others), "__iter__", None))
        return call(items.extend, begun) if asked and begun is not others else NotImplemented
    for_stmt(begun, lambda item: call(items.append, item), ())


GROWING["extend"] = extend
for _kind in (list, StagedList):
    METHODS[_kind, "extend"] = extend
    for _name, _form in (
        ("index", _index),
        ("count", _count),
        ("remove", _remove),
        ("sort", _sort),
    ):
        METHODS[_kind, _name] = _form
METHODS[tuple, "index"], METHODS[tuple, "count"] = _index, _count
