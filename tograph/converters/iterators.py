"""Iterators of converted code: where each of them is may become state of a staged construct.

``iter``, ``zip``, ``map``, ``enumerate`` and ``reversed`` of sequences give a ``SequenceIterator``: its items are picked by a number,
which a branch that is not taken, or that is traced again, finds as it was. An ``Advancing`` one keeps what another iterator gave, such as
that of a file, for who takes it again; where that is made of tensors it cannot be taken again, and is refused. One from outside of the function (``Outer``) is
advanced for good while tracing, which a trace does at every call: never in a staged branch or loop.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..errors import StagingError
from ..runtime.guarding import guards, reads
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import is_tracing, user_location
from ..runtime.values import locations
from ..runtime.values.growing import StagedList
from ..runtime.values.structure import is_growing
from .equal_ranges import range_length
from .staging import is_staged_key

# The positions of an iterator that a staged ``break`` has left, and of a generator that was taken whole.
LOST, DONE = -1, -2
ENDED = 2**62  # that of an iterator that has ended: it gives nothing of what is appended later


def place_now(iterator: Any) -> int:
    """The position of an iterator that Python advances; StagingError where only the run knows it."""
    at = iterator.position
    if isinstance(at, SYMBOLS) or at == LOST:
        raise lost("an iterator")
    return at


def moved(iterator: Any, position: Any) -> None:
    """Set the position, as a change of the regions that the iterator was not made in."""
    if journal.depth() > iterator.depth:
        place = locations.attribute(iterator, "position")
        if isinstance(iterator, Kept):  # what the program has tells whether a region made it
            place.keep = iterator.iterator
        journal.record(place)
    iterator.position = position


def lost(kind: str) -> StagingError:
    return StagingError(
        f"{kind} whose items were taken by a staged branch or loop is at a place that only the run knows: make it where it is used, or count in a variable of "
        "the loop",
        user_location(),
    )


def size(x: Any) -> int:
    """The length of a sequence; of a range also one that ``len`` does not take."""
    if type(x) is range:
        return range_length(x)
    return x.size() if isinstance(x, View) else len(x)


class SequenceIterator:
    """``iter`` of a Python sequence in converted code: its position may become state of a staged construct."""

    def __init__(self, items: Any):
        self.items, self.position, self.depth = items, 0, journal.depth()

    def __tograph_holds__(self) -> list[Any]:
        if is_growing(self.items):
            return [self.items]  # a list of the graph
        if isinstance(self.items, range):
            return []
        return list(self.items.sources if isinstance(self.items, View) else self.items)

    def __tograph_anew__(self) -> Callable[[], Iterator[Any]]:
        """What makes an iterator of the items that were not taken: that of a call that returns it."""
        at, items = place_now(self), self.items
        if type(items) is range:
            return lambda: iter(items[at:])
        return lambda: iter([items[i] for i in range(at, size(items))])

    def __iter__(self):
        return self

    def has(self, at: int) -> bool:
        """Whether there is an item at that position."""
        items = self.items
        return at < size(items) and (not isinstance(items, View) or items.reaches(at))

    def __next__(self):
        at = place_now(self)
        if not self.has(at):
            moved(self, ENDED)
            raise StopIteration
        moved(self, at + 1)
        return self.items[at]


class Counting(SequenceIterator):
    """``itertools.count`` of whole numbers in converted code."""

    def __init__(self, start: int, step: int):
        super().__init__(range(start, start + step * ENDED, step))

    def __tograph_anew__(self) -> Callable[[], Iterator[Any]]:
        """What makes an iterator of the numbers that were not taken."""
        at, numbers = place_now(self), self.items
        return lambda: itertools.count(numbers.start + at * numbers.step, numbers.step)

    def rest(self) -> range:
        """The numbers that were not taken yet, for who takes an unknown number of them."""
        found, self.items = self.items[self.position :], Lost("an itertools.count")
        return found

    def give_back(self, left: range) -> None:
        """What was not taken of ``rest``."""
        self.items, self.position = left, 0


class Lost:
    """Where an iterator is that a staged loop has taken a number of items from."""

    def __init__(self, kind: str):
        self.kind = kind

    def _refuse(self, *_: Any) -> Any:
        raise lost(self.kind)

    __len__ = __getitem__ = __iter__ = _refuse


class Advancing:
    """Any other iterator: ``taken`` of its items were taken while tracing, ``position`` of them by the program.

    ``items``: those that a region which was undone may take again.
    """

    def __init__(self, iterator: Iterator[Any]):
        self.iterator, self.position, self.taken, self.depth = iterator, 0, 0, journal.depth()
        self.items: dict[int, Any] = {}
        self.sources = _taken_from(iterator)  # one that has ended does not tell any more

    def __tograph_holds__(self) -> list[Any]:
        return [self.iterator]

    def __iter__(self):
        return self

    def __next__(self):
        at = place_now(self)
        if at < self.taken:
            item = self._again(at)
        else:
            item = next(self.iterator)
            self.taken += 1
            if journal.depth() > self.depth and _is_plain(item):
                self.items[at] = item
        moved(self, at + 1)
        return item

    def by(self, method: str, *args: Any) -> Any:
        """The next item of one that has such a method: ``send`` or ``throw``."""
        if place_now(self) != self.taken:
            raise lost("an iterator")
        item = getattr(self.iterator, method)(*args)
        self.taken += 1
        moved(self, self.taken)
        return item

    def _again(self, at: int) -> Any:
        if at not in self.items:
            raise lost("an iterator")
        return self.items[at]

    def lose(self) -> None:
        """A staged ``break`` left it, and what it takes its items from, at a place that only the run knows."""
        moved(self, LOST)
        for x in {id(x): x for x in (*self.sources, *_taken_from(self.iterator))}.values():
            if isinstance(x, Outer):
                x.lose()
            moved(x, LOST)


class Kept(Advancing):
    """The items of an object that the program has itself, such as a file."""


class Outer:
    """An iterator from outside of the function.

    What it gave is kept: an iteration that is undone, or a trace that begins again, takes it again.
    """

    def __init__(self, iterator: Iterator[Any], name: str):
        self.iterator, self.name = iterator, name
        self.items, self.position, self.depth = reads.taken_from(iterator), 0, 1

    def __iter__(self):
        return self

    def __next__(self):
        if journal.is_staged():
            raise reads.advanced_by_condition(self.name)
        at = self.position
        if at == len(self.items):
            self.items.append(next(self.iterator))
        moved(self, at + 1)
        return self.items[at]

    def lose(self) -> None:
        """A staged ``break`` left it."""
        raise reads.advanced_by_condition(self.name, "by a loop that a staged condition may end")


def from_outside(x: Any) -> Any:
    """What converted code goes over in the place of ``x``: an iterator that the function found outside of it is an ``Outer``."""
    watch = reads.current()
    if watch is None or not hasattr(type(x), "__next__"):
        return x
    source = watch.source_of(x)
    if source is None:
        return watch.iterators.get(id(x), x)
    watch.advanced(x)
    if id(x) not in watch.iterators:
        watch.iterators[id(x)] = Outer(x, source.label)
    return watch.iterators[id(x)]


HELD = (SequenceIterator, Advancing, Outer)


def _taken_from(x: Any) -> list[Any]:
    """The iterators of converted code that one of Python's own (``map``, those of ``itertools``) goes over."""
    found, todo, seen = [], [x], set[int]()
    while todo:
        for part in gc.get_referents(todo.pop()):
            if id(part) in seen:
                continue
            seen.add(id(part))
            if isinstance(part, HELD):
                found.append(part)
            elif type(part) is tuple or (isinstance(part, Iterator) and type(part).__module__ in ("builtins", "itertools")):  # fmt: skip
                todo.append(part)
    return found


class View:
    """The items that ``zip``, ``map``, ``enumerate`` or ``reversed`` give for sequences, each made when it is asked for."""

    def __init__(self, sources: tuple[Any, ...], form: Callable[..., Any], backwards: bool = False):
        self.sources, self.form, self.backwards = sources, form, backwards
        self.ends = min(map(size, sources)) if backwards else 0

    def __len__(self):
        return self.size()

    def size(self) -> int:
        return self.ends if self.backwards else min(map(size, self.sources))

    def reaches(self, at: int) -> bool:
        """Whether a list that is gone over backwards still has that item: it may have lost others."""
        return not self.backwards or all(self.ends - 1 - at < size(s) for s in self.sources)

    def __getitem__(self, at: int) -> Any:
        source = self.ends - 1 - at if self.backwards else at
        return self.form(at, *[s[source] for s in self.sources])


def numbered(iterable: Any, start: Any) -> Any:
    """``enumerate(iterable, start)``, which counts in plain numbers only: a staged start is added to these."""
    if not isinstance(start, SYMBOLS):
        return enumerate(iterable, start)
    return ((start + i, item) for i, item in enumerate(iterable))


def over(sources: tuple[Any, ...], form: Callable[..., Any], iterator: Callable[[], Iterator[Any]], backwards: bool = False) -> Any:  # fmt: skip
    """The iterator in converted code of ``form(index, *items)`` for the items of ``sources``; ``iterator`` makes Python's own."""
    if not is_tracing():
        return iterator()
    if sources and all(map(_is_sequence, sources)):
        return SequenceIterator(View(sources, form, backwards))
    return advancing(iterator())


def _is_sequence(x: Any) -> bool:
    if isinstance(x, StagedList):
        return x.handle is None
    return type(x) in (list, tuple, range)


_PLAIN = (*guards.ATOMS, complex)


def _is_plain(item: Any) -> bool:
    """Whether an item is the same for who takes it again: texts and numbers, what is made of them, and objects without attributes."""
    if type(item) in (list, tuple):
        return all(map(_is_plain, item))
    if type(item) is dict:
        return all(_is_plain(x) for pair in item.items() for x in pair)
    if isinstance(item, _PLAIN):
        return True
    return not (isinstance(item, torch.Tensor) or is_staged_key(item) or hasattr(item, "__dict__"))


def gives_items(made: Any) -> None:
    """Note an iterator that code which is not converted made, such as a file: ``from_outside`` finds what keeps its items."""
    watch = reads.current()
    if watch is None or not hasattr(type(made), "__next__") or isinstance(made, HELD):
        return
    if id(made) not in watch.iterators and watch.source_of(made) is None:
        watch.iterators[id(made)] = Kept(made)


def advancing(x: Any) -> Any:
    """An iterator as converted code holds it."""
    held = isinstance(x, HELD) or not is_tracing()
    return x if held else Advancing(x)
