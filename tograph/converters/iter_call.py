"""``iter(x)``: what a loop goes over. Objects of users' classes give it by their converted ``__iter__``, ``__next__`` and ``__getitem__``."""

from __future__ import annotations

from ..runtime.library.staged_string import StagedString, text_list
from ..runtime.symbols.funcgraph import is_tracing
from ..runtime.symbols.journal import MISSING
from ..runtime.values.structure import is_union
from ..runtime.values.tables import is_table
from . import progress, special_results, text_options
from .call_rules import DECIDING, is_user_function
from .calls import call
from .chosen_items import items_of
from .generators import Generator
from .iterables import staged_rest
from .iterators import SequenceIterator, from_outside
from .members import listing
from .registry import PICKED, TABLE_KEYS, handles
from .staging import is_staged


def iterator_of(x):
    """What ``iter`` gives for an object of a user's class, by its converted ``__iter__``; anything else as it is."""
    x = progress.over(text_options.as_text(x))
    if is_union(x):
        x = items_of(x)
    if isinstance(x, StagedString):
        return text_list("list", x)
    x = TABLE_KEYS[0](x) if is_table(x) else listing(x)
    if is_tracing():
        begin = getattr(type(x), "__iter__", MISSING)
        item = getattr(type(x), "__getitem__", None)
        if is_user_function(begin):
            x = special_results.iterator(call(begin, x))
        elif begin is None:
            raise TypeError(f"{type(x).__name__!r} object is not iterable")
        elif begin is MISSING:
            return call(_indexed, x) if is_user_function(item) else x
        if is_user_function(getattr(type(x), "__next__", None)):
            return call(_stepped, x)
    if isinstance(x, Generator) and x.is_pulled:
        return call(_left, x.pulled())
    rest = staged_rest(x) if isinstance(x, SequenceIterator) else None
    if rest is None and isinstance(x, SequenceIterator) and is_staged(x.position):
        return PICKED[0](x)
    return from_outside(x) if rest is None else rest


def _stepped(iterator):
    """The items of an iterator of a user's class, by its converted ``__next__``."""
    while True:
        try:
            item = next(iterator)
        except StopIteration as end:
            return _value(end)
        yield item


def _value(end):
    """What an iterator ends with, where that is known."""
    return getattr(end, "value", None) if type(end) is StopIteration else None


handles(_value)(_value)


def _indexed(sequence):
    """The items of an object of a user's class that has indices and no ``__iter__``."""
    i = 0
    while True:
        try:
            item = sequence[i]
        except (IndexError, StopIteration):
            return
        yield item
        i += 1


def _left(generator):
    """What a generator gives that has given some items one by one; the first is asked for in front of the loop, where it may be that it has not begun."""
    if not generator.ended():
        generator.resume(None)
    while not generator.ended():
        yield generator.current()
        if not generator.ended():  # the body of the loop may have taken the rest
            generator.resume(None)


DECIDING.update((_stepped, _indexed, _left))
