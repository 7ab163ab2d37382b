"""Items one by one, where staged conditions decide which there are: what a generator in its resumable form goes over, and gives.

``source_of(x)`` with ``has_item`` and ``item_at``: the items of anything. A sequence has them by a place, which may be staged; a generator
goes on where it is asked whether it has one. Each item is asked for by ``has_item`` before it is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import StagingError
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import user_location
from ..runtime.values import locations
from ..runtime.values.structure import is_union
from . import subscripts, union
from .call_rules import DECIDING
from .calls import call
from .generators import Generator, Pulled, end_of, own_stop_is_error
from .iter_call import iterator_of
from .iterables import Rows, StagedSequence, staged_source
from .iterators import SequenceIterator, View, advancing, lost
from .registry import PICKED, handles
from .staging import is_staged
from .steady import steady

_SEQUENCES = (list, tuple, range, str)


class Taken:
    """An iterator that Python advances, one item ahead of what was taken; ``value``: what it gives as it ends."""

    def __init__(self, iterator: Any):
        self.iterator, self.item, self.value = iterator, None, None
        self.stepped: bool | None = None  # what ``goes_on`` is to tell, where it is known

    def goes_on(self) -> bool:
        known, self.stepped = self.stepped, None
        return self.step(lambda: next(self.iterator)) if known is None else known

    def has(self, method: str) -> bool:
        """Whether what it goes over has a method, such as ``throw``."""
        return hasattr(getattr(self.iterator, "iterator", None), method)

    def by(self, method: str, *args: Any) -> bool:
        """The same by a method of what it goes over."""
        return self.step(lambda: self.iterator.by(method, *args))

    def step(self, take: Callable[[], Any]) -> bool:
        try:
            self.item = take()
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
        with own_stop_is_error(items):
            return call(_going_on, items, index, sent)
    later = sent is not None and (is_staged(index) or index > 0)
    if later and isinstance(items, Taken) and items.has("send"):
        return items.by("send", sent)
    if later:
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


def _picked(iterator):
    while has_item(iterator, 0):
        yield item_at(iterator, 0)


DECIDING.add(_picked)


def picked(iterator: SequenceIterator) -> Any:
    """A generator of the items of an iterator that is, or comes to be, at a place which only the run knows."""
    return call(_picked, iterator)


PICKED.append(picked)


# ---- generators, as converted code asks them


def _going_on(generator, index, sent):
    if generator.stepped:
        generator.stepped = False
    elif not generator.ended():
        generator.resume(None if sent is None or index == 0 else sent)
    return not generator.ended()


def _next(generator):
    if not generator.ended():
        generator.resume(None)
    if generator.ended():
        raise end_of(generator, generator.value())
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
        raise end_of(generator, generator.value())
    return generator.current()


DECIDING.update((_going_on, _next, _next_or, _sent))
handles(end_of)(end_of)


def next_item(generator: Pulled, *default: Any) -> Any:
    """``next`` of a generator in this form."""
    with own_stop_is_error(generator):
        return call(_next_or, generator, *default) if default else call(_next, generator)


@handles(Generator.send)
def send(generator: Generator, value: Any) -> Any:
    pulled = generator.pulled()
    if pulled is None:
        return generator.send(value)
    with own_stop_is_error(pulled):
        return call(_sent, pulled, value)


@handles(Generator.close)
def close(generator: Generator) -> None:
    pulled = generator.pulled()
    if pulled is None:
        generator.close()
    else:
        _close(pulled)


def _close(pulled: Pulled) -> None:
    """End a generator; first what it goes over by ``yield from``."""
    inner = call(pulled.inner)
    if isinstance(inner, Pulled):
        _close(inner)
    elif isinstance(inner, Taken) and inner.has("close"):
        inner.iterator.iterator.close()
    call(pulled.end)


@handles(Generator.throw)
def throw(generator: Generator, kind: Any, value: Any = None, trace: Any = None) -> Any:
    """``generator.throw(error)`` of one that gives its items one by one; the item at which it stops next."""
    pulled = generator.pulled()
    if pulled is None:
        return generator.throw(*(x for x in (kind, value, trace) if x is not None))
    error = kind if isinstance(kind, BaseException) else value if isinstance(value, BaseException) else kind() if value is None else kind(value)  # fmt: skip
    _thrown(pulled, error)
    if call(pulled.ended):
        raise end_of(pulled, call(pulled.value))
    return call(pulled.current)


def _thrown(pulled: Pulled, error: BaseException) -> None:
    """No ``yield`` of this form stands in a ``try``: what is thrown ends it, unless what it goes over by ``yield from`` catches it."""
    inner = call(pulled.inner)
    if is_union(inner):
        raise lost("a generator")
    if isinstance(error, GeneratorExit):
        _close(pulled)
        raise error
    try:
        if isinstance(inner, Pulled):
            _thrown(inner, error)
            inner.stepped = True
        elif isinstance(inner, Taken) and inner.has("throw"):
            inner.stepped = inner.by("throw", error)
        else:
            raise error
    except BaseException:
        call(pulled.end)
        raise
    call(pulled.resume, None)
