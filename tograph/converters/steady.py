"""A dict or set that Python goes over while a staged branch in the loop's body changes it.

What a branch changed while it was traced is put back, and made again for the paths that it depends on: Python's own iterator, which
looks at places in memory, would see these changes. From there on the keys that the loop began with are given, and the graph checks, as Python does
where it is asked for the next one, that there are as many as there were.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import is_tracing
from ..runtime.symbols.required import require
from ..runtime.values import conditional_items
from ..runtime.values.dict_views import VIEWS
from ..runtime.values.structure import may_miss
from ..runtime.values.tables import is_table
from . import keyed
from .logical import and_, not_, or_
from .members import Listing, is_conditional, length, present

_KEYS = (dict.__iter__, set.__iter__)


class _Asked(threading.local):
    test: Any = None  # of the loop that asks for an item: whether it goes on


_asked = _Asked()


def steady(x: Any) -> Any:
    """``x`` one by one, where it is a plain dict or set, or keys, values or items of one, that code of a trace goes over."""
    if not is_tracing() or is_table(x):
        return x
    kind = VIEWS.get(type(x))
    if kind is not None:
        (holder,) = (y for y in gc.get_referents(x) if isinstance(y, dict))
    elif isinstance(x, (dict, set)) and type(x).__iter__ in _KEYS:
        holder, kind = x, "keys"
    else:
        return x
    return x if is_table(holder) else Steady(x, holder, kind)


def asked(iterator: Iterator[Any], test: Any) -> Iterator[Any]:
    """The items of ``iterator``, asked for by a loop that goes on where ``test`` says so; None: always."""
    while True:
        before, _asked.test = _asked.test, test
        try:
            item = next(iterator)
        except StopIteration:
            return
        finally:
            _asked.test = before
        yield item


def keeps_size(same: Any, kind: type, test: Any) -> None:
    """RuntimeError where another item is asked for of a dict or set that has got or lost some."""
    name = "Set" if issubclass(kind, set) else "dictionary"
    require_in_loop(same, f"{name} changed size during iteration", test)


def require_in_loop(holds: Any, text: str, test: Any) -> None:
    """RuntimeError where a loop goes on and something does not hold."""
    if holds is not True:
        require(holds if test is None else or_(not_(test()), lambda: holds), RuntimeError(text))


def size_of(x: Any) -> Any:
    """How many keys or items there are."""
    return keyed.dict_length(x) if isinstance(x, dict) else length(x)


def content(x: Any) -> list[tuple[Any, Any]]:
    """What tells whether a dict or set has got or lost something."""
    if isinstance(x, dict):
        return [(k, v if may_miss(v) else None) for k, v in x.items()]
    return [(i, conditional_items.member(x, i)) for i in x]


def alike(one: list, other: list) -> bool:
    """Whether what ``content`` told at two times is the same."""
    return len(one) == len(other) and all(
        a is c and b is d for (a, b), (c, d) in zip(one, other, strict=True)
    )


class Steady:
    """The keys, values or items of a dict, or the items of a set, which may change while they are gone over."""

    def __init__(self, view: Any, holder: Any, kind: str):
        self.view, self.holder, self.kind = view, holder, kind

    def __tograph_holds__(self) -> list[Any]:
        return [self.view]

    def __len__(self) -> int:
        return len(self.view)

    def __iter__(self) -> Iterator[Any]:
        return self._over(list(self.holder), iter(self.view))

    def __reversed__(self) -> Iterator[Any]:
        return self._over(list(reversed(self.holder)), reversed(self.view))

    def _over(self, keys: list, iterator: Iterator[Any]) -> Iterator[Any]:
        undone = journal.undone(self.holder)
        for i in range(len(keys) + 1):
            if journal.undone(self.holder) != undone or is_conditional(self.holder):
                yield from self._rest(keys, i)
                return
            try:
                item = next(iterator)
            except StopIteration:
                return
            yield item

    def _rest(self, keys: list, at: int) -> Iterator[Any]:
        """What is left of ``keys`` from place ``at`` on; each is asked for after a change."""
        listing = Listing(self.holder, self.kind)
        for key in keys[at:]:
            self._keeps(len(keys), present(self.holder, key))
            yield listing.item(key)
        # one in the place of a key that was given already stands at the end
        there: Any = True
        for key in keys:
            there = and_(there, lambda key=key: present(self.holder, key))
        self._keeps(len(keys), there)

    def _keeps(self, size: int, there: Any) -> None:
        keeps_size(size_of(self.holder) == size, type(self.holder), _asked.test)
        require_in_loop(there, "dictionary keys changed during iteration", _asked.test)
