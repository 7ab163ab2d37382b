"""``functools.reduce`` and ``itertools`` over items whose number is known only when the graph runs.

Each has its meaning written in plain Python (``iteration_meanings``), which is converted like a user's function. Where all is known while
tracing, and outside of a function, the library's own runs.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable
from operator import length_hint
from typing import Any

from ...errors import StagingError
from ...runtime.inference.shapes import SYMBOLS
from ...runtime.symbols.funcgraph import is_tracing, user_location
from ...runtime.values.growing import StagedList
from .. import union
from ..calls import call
from ..consumers import gathered
from ..conversion import convert_if_needed
from ..generators import Generator
from ..iter_call import iterator_of
from ..iterables import Indexed, staged_source
from ..iterators import Counting
from ..registry import METHODS, handles
from ..staging import is_staged
from ..strings import str_join
from . import iteration_meanings as meanings
from .iterators import iter_

_NOTHING: Any = object()


def _open(x: Any) -> bool:
    """Whether the number of items, or what they are, is known only when the graph runs."""
    return is_tracing() and (_unbegun(x) or staged_source(x) is not None)


def _unbegun(x: Any) -> bool:
    """Whether it is a generator, which may have no end: its items are taken one by one, as many as are asked for."""
    return isinstance(x, Generator) and x.fresh


def _items(x: Any) -> Any:
    """What has a length and indices: the items of a generator in a list."""
    found = gathered(x)
    source = staged_source(found)
    if source is None:
        return list(found)
    return found if isinstance(found, StagedList) else Indexed(source)


@handles(functools.reduce)
def reduce_(function, items, *initial):
    items = iterator_of(items)
    if _open(items):
        items = _items(items)
        source = staged_source(items)
        if source is not None and is_staged(source.length()):
            form = meanings.reduced if initial else meanings.reduced_from_first
            return call(form, function, items, *initial)
        items = items if source is None else list(source)
    total = initial[0] if initial else _NOTHING
    for item in items:
        total = item if total is _NOTHING else call(function, total, item)
    if total is _NOTHING:
        raise TypeError("reduce() of empty iterable with no initial value")
    return total


@handles(itertools.accumulate)
def accumulate_(iterable, func=None, *, initial=None):
    iterable, function = iterator_of(iterable), operator.add if func is None else func
    if not _open(iterable):
        made = _called(function)
        return itertools.accumulate(iterable, made, initial=initial)
    if initial is not None:
        return call(meanings.accumulated_from, iterable, function, initial)
    if _unbegun(iterable):
        return call(meanings.accumulated_one_by_one, iterable, function)
    return call(meanings.accumulated, _items(iterable), function)


def _called(function: Any) -> Any:
    """A function that a library calls: converted, and an operator in its staged form."""
    if not is_tracing():
        return function
    return functools.partial(call, convert_if_needed(function))


def _by_function(library: Callable[..., Any], form: Callable[..., Any]) -> None:
    @handles(library)
    def run(function, items):
        items = iterator_of(items)
        if _open(items) or (is_tracing() and library is not itertools.starmap):
            return call(form, function, items)
        return library(_called(function) if function is not None else None, items)


for _library, _form in (
    (itertools.takewhile, meanings.taken),
    (itertools.dropwhile, meanings.dropped),
    (itertools.filterfalse, meanings.refused),
    (itertools.starmap, meanings.spread),
):
    _by_function(_library, _form)


@handles(itertools.compress)
def compress_(data, selectors):
    sources = iterator_of(data), iterator_of(selectors)
    return call(meanings.chosen, *sources) if is_tracing() else itertools.compress(*sources)


@handles(itertools.chain)
def chain_(*sources):
    sources = tuple(map(iterator_of, sources))
    return (
        call(meanings.chained, sources) if any(map(_open, sources)) else itertools.chain(*sources)
    )


@handles(itertools.chain.from_iterable)
def chain_from_iterable_(sources):
    sources = iterator_of(sources)
    return (
        call(meanings.chained, sources) if is_tracing() else itertools.chain.from_iterable(sources)
    )


@handles(itertools.cycle)
def cycle_(items):
    """It has no end, so that a staged ``break`` or ``next`` has to stage it."""
    items = iterator_of(items)
    if _unbegun(items):
        return call(meanings.cycled_one_by_one, items)
    whole = isinstance(items, (list, tuple, range)) and is_tracing()
    return call(meanings.cycled, _items(items)) if whole or _open(items) else itertools.cycle(items)


@handles(itertools.tee)
def tee_(items, n=2):
    items = iterator_of(items)
    if not _open(items) or _unbegun(items):
        return itertools.tee(items, n)
    found = _items(items)
    found = found if isinstance(found, StagedList) else call(list, found)
    return tuple(iter_(StagedList(found)) for _ in range(n))


@handles(itertools.pairwise)
def pairwise_(items):
    items = iterator_of(items)
    if _unbegun(items):
        return call(meanings.pairs_one_by_one, items)
    return call(meanings.pairs, _items(items)) if _open(items) else itertools.pairwise(items)


@handles(itertools.product)
def product_(*sources, repeat=1):
    if repeat == 2 and len(sources) == 1:
        sources, repeat = (_items(sources[0]),) * 2, 1
    sources = tuple(map(iterator_of, sources))
    if len(sources) == 2 and repeat == 1 and any(map(_open, sources)):
        return call(meanings.product, sources[0], _items(sources[1]))
    return itertools.product(*sources, repeat=repeat)


@handles(itertools.combinations)
def combinations_(iterable, r):
    iterable = iterator_of(iterable)
    if r == 2 and _open(iterable):
        return call(meanings.combined, _items(iterable))
    return itertools.combinations(iterable, r)


@handles(itertools.permutations)
def permutations_(iterable, r=None):
    iterable = iterator_of(iterable)
    if r == 2 and _open(iterable):
        return call(meanings.permuted, _items(iterable))
    return itertools.permutations(iterable, r)


@handles(itertools.groupby)
def groupby_(iterable, key=None):
    iterable = iterator_of(iterable)
    return (
        call(meanings.grouped, iterable, key) if is_tracing() else itertools.groupby(iterable, key)
    )


def _as_bound(bound):
    """A bound of ``islice``: one that only the run knows as a number of its kind."""
    if isinstance(bound, SYMBOLS):
        return 1.0 if bound.node.kind is float else 1
    return 1 if is_staged(bound) else bound


@handles(itertools.islice)
@union.each
def islice_(items, *bounds):
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    items = iterator_of(items)
    if not (_open(items) or any(map(is_staged, bounds))):
        return itertools.islice(items, *bounds)
    itertools.islice((), *(_as_bound(b) for b in bounds))  # its errors
    start, step = 0 if start is None else start, 1 if step is None else step
    if _unbegun(items):
        return call(meanings.sliced_one_by_one, items, start, stop, step)
    if isinstance(items, Counting) and stop is not None:
        left = items.rest()
        return call(meanings.counted, left.start, left.step, start, stop, step)
    return call(meanings.sliced, _items(_ending(items)), start, stop, step)


LONGEST = 10_000  # of what does not tell how long it is


def _ending(items: Any) -> Any:
    """The items, in a list where they may have no end: StagingError where none comes."""
    endless = isinstance(items, Counting)
    if staged_source(items) is not None or (length_hint(items, -1) >= 0 and not endless):
        return items
    taken = list(itertools.islice(items, LONGEST + 1))
    if len(taken) <= LONGEST:
        return iter(taken)
    raise StagingError(
        f"an itertools.islice whose bounds are known only when the graph runs takes iterators of at most {LONGEST} items here: write it as a loop over "
        "`range(n)` that makes the items",
        user_location(),
    )


@handles(itertools.zip_longest)
def zip_longest_(*sources, fillvalue=None):
    sources = tuple(map(iterator_of, sources))
    if len(sources) != 2 or not any(map(_open, sources)):
        return itertools.zip_longest(*sources, fillvalue=fillvalue)
    first, second = map(_items, sources)
    return call(meanings.longest, first, second, fillvalue)


@handles(itertools.count)
def count_(start=0, step=1):
    whole = type(start) is int and type(step) is int and step
    return Counting(start, step) if is_tracing() and whole else itertools.count(start, step)


def _join(separator, items):
    items = iterator_of(items)
    return (
        call(meanings.text, separator, _items(items))
        if _open(items)
        else str_join(separator, items)
    )


METHODS[str, "join"] = _join


@handles(itertools.repeat)
def repeat_(object, times=None):
    if is_staged(times):
        return call(meanings.repeated, object, times)
    return itertools.repeat(object, *(() if times is None else (times,)))
