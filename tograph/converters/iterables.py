"""Things that a staged ``for`` can go over: a length and an item for every index, both perhaps staged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any

import torch

from ..errors import GraphBoolError, StagingError
from ..runtime.graph.types import exact_dtype
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.library.staged_string import StagedString, text_list
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import current_graph, is_tracing, user_location
from ..runtime.symbols.scalars import new_scalar
from ..runtime.symbols.symbolic import SymTensor, scalar_of
from ..runtime.values.growing import StagedList, as_staged
from ..runtime.values.inner_lists import NOWHERE
from ..runtime.values.structure import is_growing
from ..runtime.values.tables import StagedDict, View, view
from ..runtime.writes import several_views
from .equal_ranges import range_length, same_numbers
from .iterators import LOST, Advancing, Counting, Lost, Outer, SequenceIterator, moved, place_now


class StagedSequence:
    """Base of what ``range``, ``enumerate``, ``zip``, ``map`` and ``reversed`` give for staged arguments."""

    def length(self) -> Any:
        raise NotImplementedError

    def item(self, index: Any) -> Any:
        raise NotImplementedError

    def lists(self) -> list[ListItems]:
        """Where the items of lists of the graph are among them."""
        return []

    def __iter__(self):
        n = self.length()
        if isinstance(n, SYMBOLS):
            raise GraphBoolError(
                "iterating over a staged sequence outside of converted code is not possible: its length is known only "
                "when the graph runs",
                user_location(),
            )
        return (self.item(i) for i in range(int(n)))

    def __len__(self):
        return self.length().__index__()

    def __bool__(self):
        return True  # what Python's own iterators are, empty or not


class Rows(StagedSequence):
    """The rows of a tensor."""

    def __init__(self, x: torch.Tensor):
        if x.dim() == 0:
            raise TypeError("iteration over a 0-d tensor")
        self.x = x

    def length(self):
        return self.x.shape[0]

    def item(self, index):
        return several_views.marked(torch.select(self.x, 0, index))


class StagedRange(StagedSequence):
    """``range`` with a staged bound; items are staged Python ints, or 0-d tensors when ``tensors`` is set."""

    __tograph_shown__ = True

    def __init__(self, start: Any, stop: Any, step: Any, tensors: bool = False):
        self.start, self.stop, self.step, self.tensors = start, stop, step, tensors

    def __tograph_flatten__(self):
        return self.tensors, [self.start, self.stop, self.step]

    @staticmethod
    def __tograph_unflatten__(tensors, bounds):
        if any(isinstance(b, SYMBOLS) for b in bounds):
            return StagedRange(*bounds, tensors=tensors)
        return torch.arange(*bounds) if tensors else range(*bounds)

    def __tograph_len__(self):
        return self.length()

    def length(self):
        graph, bounds = current_graph(), (self.start, self.stop, self.step)
        if not any(isinstance(x, SYMBOLS) for x in bounds):
            return range_length(range(*bounds))
        args = tuple(x.node.value(graph) if isinstance(x, SYMBOLS) else x for x in bounds)
        return new_scalar("py.range_length", args, int, graph)

    def __eq__(self, other):
        return same_numbers(self, other) if isinstance(other, (range, StagedRange)) else NotImplemented  # fmt: skip

    def __ne__(self, other):
        return torch.sym_not(self == other) if isinstance(other, (range, StagedRange)) else NotImplemented  # fmt: skip

    __hash__ = object.__hash__

    def item(self, index):
        value = index * self.step if not (type(self.step) is int and self.step == 1) else index
        value = value + self.start if not (type(self.start) is int and self.start == 0) else value
        return torch.scalar_tensor(value, dtype=torch.int64) if self.tensors else value


class Indexed(StagedSequence):
    """The items of another one, for code that takes them by an index that is in range."""

    def __init__(self, source: StagedSequence):
        self.source = source

    def length(self):
        return self.source.length()

    def item(self, index):
        return self.source.item(index)


class Enumerated(StagedSequence):
    def __init__(self, source: StagedSequence, start: Any):
        self.source, self.start = source, start

    def lists(self):
        return self.source.lists()

    def length(self):
        return self.source.length()

    def item(self, index):
        return index + self.start, self.source.item(index)


class Zipped(StagedSequence):
    def __init__(self, sources: list[StagedSequence]):
        self.sources = sources

    def lists(self):
        return [x for s in self.sources for x in s.lists()]

    def length(self):
        lengths = [s.length() for s in self.sources]
        least = lengths[0]
        for n in lengths[1:]:
            if isinstance(least, SYMBOLS) or isinstance(n, SYMBOLS):
                first = least if isinstance(least, SYMBOLS) else n
                other = n if first is least else least
                least = staged_min(first, other)
            else:
                least = min(least, n)
        return least

    def item(self, index):
        return tuple(s.item(index) for s in self.sources)


def staged_min(a, b):
    args = tuple(x.node.value(current_graph()) if isinstance(x, SYMBOLS) else x for x in (a, b))
    return new_scalar("py.min", args, int, current_graph())


class Mapped(StagedSequence):
    def __init__(self, call: Any, function: Any, sources: list[StagedSequence]):
        self.call, self.function, self.zipped = call, function, Zipped(sources)

    def lists(self):
        return self.zipped.lists()

    def length(self):
        return self.zipped.length()

    def item(self, index):
        return self.call(self.function, *self.zipped.item(index))


class Reversed(StagedSequence):
    def __init__(self, source: StagedSequence):
        self.source = source

    def length(self):
        return self.source.length()

    def item(self, index):
        return self.source.item(self.source.length() - 1 - index)


class Items(StagedSequence):
    """Python numbers of one kind beside a staged sequence, as in ``zip(tensor, [1, 2, 3])``: they become a tensor."""

    def __init__(self, items: list, dtype: torch.dtype):
        self.items = items
        self.stacked = torch.tensor(items, dtype=dtype)

    def length(self):
        return len(self.items)

    def item(self, index):
        known = type(index) is int
        return self.items[index] if known else scalar_of(torch.select(self.stacked, 0, index))


class ListItems(StagedSequence):
    """The items of a list of the graph, as it is when the loop begins; once it is followed, as it is when each is taken."""

    def __init__(self, x: StagedList):
        self.list, self.x, self.begin = x, StagedList(x), 0
        self.before, self.changed = x.columns, False

    def lists(self):
        return [self]

    def follow(self, begin: int = 0) -> ListItems:
        """Take the items from ``begin`` on of the list itself, which the loop changes."""
        self.x, self.begin = self.list, begin
        return self

    def length(self):
        return self.x.length() - self.begin if self._begun() else self.x.length()

    def item(self, index):
        self.before = self.list.columns
        owner = self.list if self.x.columns == self.list.columns else NOWHERE
        return self.x.item(index + self.begin if self._begun() else index, owner)

    def _begun(self) -> bool:
        return isinstance(self.begin, SYMBOLS) or self.begin > 0

    def notice(self) -> None:
        """After the code that got an item: whether it changed the list."""
        self.changed |= self.list.columns is not self.before


class ViewItems(ListItems):
    """The items of a view of a dict of the graph: once it is followed, as they are in the dict when each is taken."""

    def __init__(self, x: View):
        super().__init__(view(x.table, x.name))
        self.table, self.name, self.live = x.table, x.name, False
        self.size = self.length()

    def follow(self, begin: int = 0) -> ListItems:
        self.live = True
        return self

    def item(self, index):
        self.before = self.table.columns
        if not self.live or self.name == "keys":
            return self.x.item(index)
        pair = self.table.item(index)
        return pair[1] if self.name == "values" else pair

    def notice(self) -> None:
        self.changed |= self.table.columns is not self.before

    def same_size(self) -> Any:
        """Whether the dict has as many keys as when the loop began."""
        return self.table.columns is self.before or self.table.length() == self.size


class Steps:
    """The items of a plain list one by one, numbered as by ``enumerate`` where ``number`` is given.

    A loop whose body makes the list one of the graph goes on over ``left``; any other consumer is refused.
    """

    def __init__(self, x: StagedList, number: Any = None, loop: bool = False):
        self.x, self.number, self.loop, self.position = x, number, loop, 0
        self.depth = journal.depth()

    def __tograph_holds__(self) -> list[Any]:
        return [self.number, *([] if self.x.handle is not None else self.x)]

    def __tograph_anew__(self) -> Callable[[], Iterator[Any]] | None:
        """What makes an iterator of the items that were not taken: that of a call that returns it."""
        at, number, x = place_now(self), self.number, self.x
        if x.handle is not None:
            return None
        left = list(x)[at:]
        return lambda: iter(left if number is None else enumerate(left, number + at))

    def __iter__(self):
        return self

    def __next__(self):
        at = place_now(self)
        if self.x.handle is not None and not self.loop:
            self.x.refuse_change()
        if self.x.handle is not None or at >= len(self.x):
            raise StopIteration
        moved(self, at + 1)
        item = self.x[at]
        return item if self.number is None else (self.number + at, item)

    def lose(self) -> None:
        """A staged ``break`` left it at a place that only the run knows."""
        moved(self, LOST)

    @property
    def left(self) -> StagedSequence | None:
        if self.x.handle is None:
            return None
        rest = ListItems(self.x).follow(self.position)
        return rest if self.number is None else Enumerated(rest, self.number + self.position)


def staged_rest(x: SequenceIterator) -> ListItems | None:
    """The items of a list of the graph that were not taken yet, for who takes them all or an unknown number of them.

    The list may be Python's, where only the run knows how many were taken.
    """
    items, at = x.items, x.position
    if isinstance(items, (list, tuple)) and not is_growing(items):
        if not isinstance(at, SYMBOLS):
            return None
        items = as_staged(StagedList(items))
    elif not is_growing(items):
        return None
    found = ListItems(items).follow(at)
    x.items = Lost("an iterator of a list of the graph")
    return found


def staged_source(x: Any) -> StagedSequence | None:
    """What a staged ``for`` goes over, or None when ``x`` is iterated by Python."""
    if isinstance(x, StagedSequence):
        return x
    if isinstance(x, torch.Tensor):
        if not (isinstance(x, SymTensor) or is_tracing()):
            return None
        bounds = getattr(x, "range_", None)
        return StagedRange(*bounds, tensors=True) if bounds is not None else Rows(x)
    if isinstance(x, StagedString):
        x = text_list("list", x)
    if is_growing(x):
        return ViewItems(x) if isinstance(getattr(x, "table", None), StagedDict) else ListItems(x)
    return None


def each(x: Any) -> Any:
    """The items one by one, where their number is known."""
    source = staged_source(x)
    return x if source is None or isinstance(source.length(), SYMBOLS) else list(source)


def as_source(x: Any) -> StagedSequence | None:
    """``staged_source``, with ranges and Python numbers beside staged ones."""
    found = staged_source(x)
    if found is not None:
        return found
    if isinstance(x, Counting):
        x = x.rest()
    if isinstance(x, range):
        return StagedRange(x.start, x.stop, x.step)
    dtype = exact_dtype(x) if isinstance(x, (list, tuple)) else None
    return None if dtype is None else Items(list(x), dtype)


def beside(iterables: Sequence[Any]) -> list[StagedSequence] | None:
    """The sources of a staged loop over several iterables at once; None where Python goes over them.

    Python does where one of them has items that cannot be picked by a staged index: tensors, which are to keep their identity, objects,
    what a generator gives. The others must then have lengths that are known.
    """
    sources = [as_source(x) for x in iterables]
    staged = [s for s in sources if s is not None]
    if len(staged) == len(sources):
        return staged
    if not any(isinstance(s.length(), SYMBOLS) for s in staged):
        return None
    for i, x in enumerate(iterables):
        if sources[i] is None:
            if not isinstance(x, Sized):
                raise StagingError(
                    "an iterator beside a tensor whose length is known only when the graph runs: how many of its items are taken is not known "
                    "here. Give a list, or loop over the tensor and index.",
                    user_location(),
                )
            sources[i] = ListItems(as_staged(StagedList(x)))
    return sources


def like_python(x):
    """An object of Python's own that is like an iterator of converted code, or the one that it takes its items from."""
    if isinstance(x, (Advancing, Outer)):
        return like_python(x.iterator)
    return (
        enumerate(())
        if isinstance(x, Steps)
        else iter([])
        if isinstance(x, SequenceIterator)
        else x
    )
