"""Items one by one, where staged conditions decide which there are: what a generator in its resumable form goes over, and gives.

``source_of(x)`` with ``has_item`` and ``item_at``: the items of anything. A sequence has them by a place, which may be staged; a generator
goes on where it is asked whether it has one. Each item is asked for by ``has_item`` before it is taken.
"""

from __future__ import annotations

from typing import Any

from ..errors import StagingError
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import user_location
from ..runtime.values import locations
from . import subscripts, union
from .call_rules import DECIDING
from .calls import call
from .generators import Generator, Pulled
from .iter_call import iterator_of
from .iterables import Rows, StagedSequence, staged_source
from .iterators import SequenceIterator, View, advancing
from .registry import handles
from .staging import is_staged
from .steady import steady

_SEQUENCES = (list, tuple, range, str)


class Taken:
    """An iterator that Python advances, one item ahead of what was taken; ``value``: what it gives as it ends."""

    def __init__(self, iterator: Any):
        self.iterator, self.item, self.value = iterator, None, None

    def goes_on(self) -> bool:
        try:
            self.item = next(self.iterator)
        except StopIteration as end:
            self.value = end.value
            return False
        return True


def source_of(x: Any) -> Any:
    """What ``has_item`` and ``item_at`` ask for the items of ``x``."""
    pulled = x.pulled() if isinstance(x, Generator) else None
    if pulled is None:
        x = iterator_of(x)
        pulled = x.pulled() if isinstance(x, Generator) else None
    if pulled is not None:
        return pulled
    if isinstance(x, (SequenceIterator, *_SEQUENCES)):
        return x
    source = staged_source(x)
    if source is not None:
        return x if isinstance(source, Rows) else source
    return Taken(iter(advancing(iter(steady(x)))))


@union.each
def has_item(items: Any, index: Any, sent: Any = None) -> Any:
    """Whether there is another item; ``sent``: a value that goes on to the generator that gives it, but for its first."""
    if isinstance(items, Pulled):
        return call(_going_on, items, index, sent)
    if sent is not None and (is_staged(index) or index > 0):
        raise StagingError(
            "send() of a value on its way through `yield from` to what is no generator with staged conditions: use next()",
            user_location(),
        )
    if isinstance(items, Taken):
        return items.goes_on()
    if isinstance(items, SequenceIterator):
        return items.position < place_count(items.items)
    return index < place_count(items)


@union.each
def item_at(items: Any, index: Any) -> Any:
    """That item; ``index``: how many were taken."""
    if isinstance(items, Pulled):
        return call(items.current)
    if isinstance(items, Taken):
        return items.item
    if isinstance(items, SequenceIterator):
        return _advanced(items)
    return place_item(items, index)


@union.each
def result_of(items: Any) -> Any:
    """What ``yield from`` gives for a generator that has ended."""
    if isinstance(items, Taken):
        return items.value
    return call(items.value) if isinstance(items, Pulled) else None


def place_count(items: Any) -> Any:
    """How many items there are."""
    if isinstance(items, View):
        return len(items)
    return items.length() if isinstance(items, StagedSequence) else call(len, items)


def place_item(items: Any, at: Any) -> Any:
    """The item at a place that is there."""
    if isinstance(items, View):
        place = items.ends - 1 - at if items.backwards else at
        return items.form(at, *[subscripts.getitem(s, place) for s in items.sources])
    return items.item(at) if isinstance(items, StagedSequence) else subscripts.getitem(items, at)


def _advanced(iterator: SequenceIterator) -> Any:
    """The next item of an iterator that has one."""
    at = iterator.position
    journal.record(locations.attribute(iterator, "position"))
    iterator.position = at + 1
    return place_item(iterator.items, at)


# ---- generators, as converted code asks them


def _going_on(generator, index, sent):
    if not generator.ended():
        generator.resume(None if sent is None or index == 0 else sent)
    return not generator.ended()


def _next(generator):
    if not generator.ended():
        generator.resume(None)
    if generator.ended():
        raise StopIteration(generator.value())
    return generator.current()


def _next_or(generator, default):
    if not generator.ended():
        generator.resume(None)
    return default if generator.ended() else generator.current()


def _sent(generator, value):
    if value is not None and not generator.begun():
        raise TypeError("can't send non-None value to a just-started generator")
    if not generator.ended():
        generator.resume(value)
    if generator.ended():
        raise StopIteration(generator.value())
    return generator.current()


DECIDING.update((_going_on, _next, _next_or, _sent))


def next_item(generator: Pulled, *default: Any) -> Any:
    """``next`` of a generator in this form."""
    return call(_next_or, generator, *default) if default else call(_next, generator)


@handles(Generator.send)
def send(generator: Generator, value: Any) -> Any:
    pulled = generator.pulled()
    return generator.send(value) if pulled is None else call(_sent, pulled, value)


@handles(Generator.close)
def close(generator: Generator) -> None:
    pulled = generator.pulled()
    if pulled is None:
        generator.close()
    else:
        call(pulled.end)
