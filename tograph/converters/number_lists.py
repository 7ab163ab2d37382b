"""What a ``for`` goes over where its items are numbers, or tuples of them: lists of numbers, ``enumerate`` and ``zip`` of lists and ranges, ``itertools.repeat``.

Python's loop over them begins as written; what is left of a long one whose iterations repeat themselves is staged (``long_loops``), with its items from a table.
A list that the body changes is gone over by Python, which sees the change.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import is_, length_hint
from typing import Any

from ..runtime.graph.types import exact_dtype
from ..runtime.guarding.guards import ATOMS
from ..runtime.values.growing import StagedList
from .iterables import Enumerated, Items, StagedRange, StagedSequence, Steps, Zipped
from .iterators import Advancing, SequenceIterator, View, size


@dataclass
class NumberRows:
    """``count`` items. ``source(at)``: those from a place on, staged; ``left(at)``: the same for Python; ``lists``: what they are taken from, with what was in these."""

    count: int
    item: Callable[[int], Any]
    source: Callable[[int], StagedSequence]
    left: Callable[[int], Any]
    lists: list[tuple[Any, list[Any]]]

    def unchanged(self) -> bool:
        """Whether the lists have the items that they had."""
        return all(_is_plain(x) and len(x) == len(items) and all(map(is_, x, items)) for x, items in self.lists)  # fmt: skip


class Formed(StagedSequence):
    """What ``enumerate`` or ``zip`` makes of sources, from a place on. ``form``: see ``iterators.View``."""

    def __init__(self, sources: list[StagedSequence], form: Callable[..., Any], at: int):
        self.rows, self.form, self.at = Zipped(sources), form, at

    def length(self):
        return self.rows.length()

    def item(self, index):
        return self.form(index + self.at, *self.rows.item(index))


class Same(StagedSequence):
    """One object, time and again."""

    def __init__(self, x: Any, count: int):
        self.x, self.count = x, count

    def length(self):
        return self.count

    def item(self, index):
        return self.x


def rows_of(x: Any, fresh: int, least: int) -> NumberRows | None:
    """What a loop goes over as such rows, if it has ``least`` items or more; ``fresh``: nobody else has the iterator, nor, where it is 2, the one that this goes over."""
    if isinstance(x, (StagedList, list, tuple)):
        return _of_list(x, least)
    if not fresh:
        return None
    if type(x) is Advancing and not x.taken and type(x.iterator) is itertools.repeat:
        return _repeated(x.iterator, least)
    if fresh > 1 and type(x) is Advancing and not x.taken and type(x.iterator) is enumerate:
        return _counted(x.iterator, least)
    if isinstance(x, Steps):
        found = _of_list(x.x, least) if x.position == 0 else None
        return None if found is None else _numbered(x, found)
    if type(x) is SequenceIterator and x.position == 0 and isinstance(x.items, View):
        return _of_view(x, x.items, least)
    return None


def _is_plain(x: Any) -> bool:
    """Whether a list is Python's."""
    return x.handle is None if isinstance(x, StagedList) else type(x) in (list, tuple)


def _of_list(x: Any, least: int) -> NumberRows | None:
    if not _is_plain(x) or len(x) < least:
        return None
    items = list(x)
    if _table(items[:1], 0) is None or _table(items, 0) is None:
        return None
    return NumberRows(len(items), x.__getitem__, lambda at: _known(_table(items, at)), lambda at: _live(x, at), [(x, items)])  # fmt: skip


def _known(x: StagedSequence | None) -> StagedSequence:
    assert x is not None
    return x


def _table(items: Sequence[Any], at: int) -> StagedSequence | None:
    """The items from a place on: numbers of one kind, or tuples of as many."""
    dtype = exact_dtype(items)
    if dtype is not None:
        return None if type(items[0]) is bool else Items(list(items[at:]), dtype)
    if not items or any(type(x) is not tuple or len(x) != len(items[0]) for x in items):
        return None
    columns = [_table(column, at) for column in zip(*items)]
    found = [c for c in columns if c is not None]
    return Zipped(found) if found and len(found) == len(columns) else None


def _live(x: Any, at: int) -> Any:
    """What is left of a list that may change."""
    if isinstance(x, StagedList):
        left = Steps(x)
        left.position = at
        return left
    return _from(x, at)


def _from(x: Any, at: int) -> Iterator[Any]:
    while at < len(x):
        yield x[at]
        at += 1


def _numbered(x: Steps, found: NumberRows) -> NumberRows:
    number = x.number
    if number is None:
        return found

    def left(at: int) -> Steps:
        x.position = at
        return x

    return NumberRows(found.count, lambda at: (number + at, found.item(at)), lambda at: Enumerated(found.source(at), number + at), left, found.lists)  # fmt: skip


def _counted(x: enumerate, least: int) -> NumberRows | None:
    """``enumerate`` of what ``zip`` or its like gives."""
    made: Any = x.__reduce__()
    iterator, number = made[1]
    found = rows_of(iterator, 1, least)
    if found is None or type(number) is not int:
        return None
    return NumberRows(found.count, lambda at: (number + at, found.item(at)), lambda at: Enumerated(found.source(at), number + at), lambda at: enumerate(found.left(at), number + at), found.lists)  # fmt: skip


def _of_view(x: SequenceIterator, view: View, least: int) -> NumberRows | None:
    if size(view) < least:
        return None
    parts = [_part(s, view) for s in view.sources]
    found = [p for p in parts if p is not None]
    if len(found) < len(parts):
        return None

    def source(at: int) -> StagedSequence:
        return Formed([p.source(at) for p in found], view.form, at)

    def left(at: int) -> SequenceIterator:
        x.position = at
        return x

    return NumberRows(size(view), view.__getitem__, source, left, [y for p in found for y in p.lists])  # fmt: skip


def _part(x: Any, view: View) -> NumberRows | None:
    """One of the sources of a view."""
    if type(x) is range:
        items = x[: size(view)][::-1] if view.backwards else x[: size(view)]
        return NumberRows(size(items), items.__getitem__, lambda at: _range(items[at:]), lambda at: items[at:], [])  # fmt: skip
    found = _of_list(x, 1)
    if found is None or not view.backwards:
        return found
    items = found.lists[0][1][::-1]
    found.source = lambda at: _known(_table(items, at))
    return found


def _range(x: range) -> StagedRange:
    return StagedRange(x.start, x.stop, x.step)


def _repeated(x: itertools.repeat, least: int) -> NumberRows | None:
    """Of an object without content, a known number of times."""
    count = length_hint(x, -1)
    # What it gives of itself to be copied ends with Python 3.14.
    items = [y for y in gc.get_referents(x) if y is not itertools.repeat]
    if count < least or len(items) != 1 or type(item := items[0]) not in ATOMS:
        return None
    return NumberRows(count, lambda at: item, lambda at: Same(item, count - at), lambda at: itertools.repeat(item, count - at), [])  # fmt: skip
