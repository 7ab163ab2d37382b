"""``zip`` of a generator that is not begun and of sequences: the generator is run the other way round, as under a ``for``.

As in Python, the items of what stands before the generator are there before it is asked, and ends before it is asked once more.
"""

from __future__ import annotations

from typing import Any

import torch

from ...runtime.symbols.funcgraph import is_tracing
from ...runtime.values.growing import StagedList
from ..call_rules import DECIDING
from ..calls import call
from ..consumers import gathered
from ..generators import Generator
from ..iterables import (
    Enumerated,
    Indexed,
    Mapped,
    StagedSequence,
    Zipped,
    staged_rest,
    staged_source,
)
from ..iterators import Counting, SequenceIterator
from ..members import Listing
from ..one_by_one import has_item, item_at, source_of


def _zipped(before, items, after):
    at = 0
    if before and min([len(s) for s in before]) == 0:
        return
    for item in items:
        if after and at >= min([len(s) for s in after]):
            return
        yield (*[s[at] for s in before], item, *[s[at] for s in after])
        at = at + 1
        if before and at >= min([len(s) for s in before]):
            return


def _singles(items):
    for item in items:
        yield (item,)


def _joined(rows, items, strict, number):
    """Rows, each with the next of ``items`` behind it; ``number``: of the argument that gives these."""
    at = 0
    for row in rows:
        if not has_item(items, at):
            if strict:
                _differs(number, "shorter")
            return
        yield *row, item_at(items, at)
        at += 1
    if strict and has_item(items, at):
        _differs(number, "longer")


def _to_the_end(rows, strict):
    """The rows; where another is asked for behind the last one, what comes before the argument that has no more is computed, as Python does."""
    yield from rows
    least = rows.length()
    for number, source in enumerate(rows.sources, 1):
        if source.length() == least:
            if strict and number > 1:
                _differs(number, "shorter")
            break
        if _acts(source):
            source.item(least)
    if strict and rows.sources[0].length() == least:
        for number, source in enumerate(rows.sources, 1):
            if source.length() > least:
                _differs(number, "longer")


class Parted(StagedSequence):
    """``zip`` of one iterator with itself: rows of its items, as many in each as it is given times. What makes no whole row is taken too."""

    def __init__(self, source: StagedSequence, count: int):
        self.source, self.count = source, count

    def lists(self):
        return self.source.lists()

    def length(self):
        return self.source.length() // self.count

    def item(self, index):
        return tuple(self.source.item(index * self.count + k) for k in range(self.count))


def parted(iterables: tuple[Any, ...]) -> Parted | None:
    """The rows where all that ``zip`` is given is one iterator of a list of the graph."""
    if len(iterables) < 2 or not isinstance(iterables[0], SequenceIterator):
        return None
    if any(x is not iterables[0] for x in iterables):
        return None
    rest = staged_rest(iterables[0])
    return None if rest is None else Parted(rest, len(iterables))


DECIDING.update((_zipped, _singles, _joined, _to_the_end))


def _differs(number: int, which: str) -> None:
    others = "argument 1" if number == 2 else f"arguments 1-{number - 1}"
    raise ValueError(f"zip() argument {number} is {which} than {others}")


def _acts(source: StagedSequence) -> bool:
    """Whether code of the user's gives an item when it is asked for."""
    if isinstance(source, Zipped):
        return any(map(_acts, source.sources))
    return _acts(source.source) if isinstance(source, Enumerated) else isinstance(source, Mapped)


def zipped(sources: list[StagedSequence], strict: bool) -> Any:
    """The tuples of items at the same places."""
    rows, lengths = Zipped(sources), [s.length() for s in sources]
    differ = [n != lengths[0] for n in lengths[1:]]
    if not any(d if type(d) is bool else True for d in differ):
        return rows
    return call(_to_the_end, rows, strict) if strict or any(map(_acts, sources[:-1])) else rows


def _one_by_one(iterables: tuple[Any, ...], strict: bool) -> Any:
    """The tuples of items that are asked for one by one, from left to right."""
    rows = call(_singles, iterables[0])
    for number, x in enumerate(iterables[1:], 2):
        rows = call(_joined, rows, source_of(x), strict, number)
    return rows


def with_generator(iterables: tuple[Any, ...], strict: bool) -> Any:
    """The tuples of generators and of what is beside them; None where none is given."""
    places = [i for i, x in enumerate(iterables) if isinstance(x, Generator)]
    if not is_tracing() or not places:
        return None
    at = places[0]
    others = [x for i, x in enumerate(iterables) if i != at]
    if strict or len(places) > 1 or not (iterables[at].fresh and all(map(_has_places, others))):
        return _one_by_one(iterables, strict)
    before, after = (tuple(map(_places, part)) for part in (iterables[:at], iterables[at + 1 :]))
    return call(_zipped, before, iterables[at], after)


_SEQUENCES = (list, tuple, range, str, StagedList)


def _has_places(x: Any) -> bool:
    return (
        type(x) in _SEQUENCES
        or isinstance(x, (Counting, torch.Tensor))
        or staged_source(x) is not None
    )


def _places(x: Any) -> Any:
    """What has a length and an item at each place."""
    if isinstance(x, Counting):
        return x.rest()
    source = staged_source(x)
    return x if source is None or isinstance(x, StagedList) else Indexed(source)


def listed(x: Any) -> Any:
    """The items of a set or dict that depend on a staged condition in a list; anything else as it is."""
    return gathered(x) if isinstance(x, Listing) else x
