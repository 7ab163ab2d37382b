"""``iter`` and ``next``: the position of an iterator of a sequence may become state of a staged branch or loop."""

from __future__ import annotations

import torch

from ...errors import StagingError
from ...runtime import control_flow
from ...runtime.guarding import reads
from ...runtime.symbols import journal
from ...runtime.symbols.funcgraph import is_tracing, user_location
from ...runtime.values import locations
from ...runtime.values.structure import is_union
from ..call_rules import DECIDING
from ..calls import call
from ..generators import Generator
from ..iter_call import iterator_of
from ..iterables import StagedRange, Steps
from ..iterators import (
    ENDED,
    Advancing,
    Outer,
    SequenceIterator,
    View,
    advancing,
    from_outside,
    size,
)
from ..one_by_one import next_item, place_item
from ..registry import handles
from ..staging import is_staged
from ..steady import steady
from ..union import apply
from ..user_operators import method_of
from .sequences import len_


@handles(iter)
def iter_(x, *rest):
    if is_union(x):
        return apply(iter_, x, *rest)
    begin = method_of(x, "__iter__")
    if begin is not None and is_tracing() and not rest:
        x = call(begin, x)
        return x if method_of(x, "__next__") is not None else iter(x)
    outer = None if rest else from_outside(x)
    if isinstance(outer, (Advancing, Outer)):
        return x  # ``iter`` of an iterator is that itself
    x = x if rest else iterator_of(x)
    if isinstance(x, torch.Tensor) and is_staged(x):
        if not x.dim():
            raise TypeError("iteration over a 0-d tensor")
        return SequenceIterator(list(x.unbind(0)))
    if isinstance(x, StagedRange):
        x = call(list, x)
    # An iterator of a list or tuple does not ask the ``__getitem__`` of a user's class.
    if not rest and is_tracing() and isinstance(x, (list, tuple, range)) and method_of(x, "__getitem__") is None:  # fmt: skip
        return SequenceIterator(x)
    made = iter(x, *rest) if rest else iter(steady(x))
    return made if made is x else advancing(made)


@handles(next)
def next_of(iterator, *default):
    if is_union(iterator):
        return apply(lambda one: next_of(one, *default), iterator)
    return next_(iterator, *default)


def next_(iterator, *default):
    step = method_of(iterator, "__next__")
    if step is not None and is_tracing():
        return call(_next_or, iterator, *default) if default else call(step, iterator)
    pulled = iterator.pulled() if isinstance(iterator, Generator) else None
    if pulled is not None:
        return next_item(pulled, *default)
    return _of_an_iterator(from_outside(iterator), *default)


def _of_an_iterator(iterator, *default):
    sequence = isinstance(iterator, SequenceIterator)
    backwards = sequence and isinstance(iterator.items, View) and iterator.items.backwards
    if isinstance(iterator, (Advancing, Outer)) or backwards:
        reads.passed((iterator,))
        return next(iterator, *default)
    if not sequence:
        made = iterator.depth if isinstance(iterator, (Generator, Steps)) else 1
        if journal.active() and journal.depth() > made:
            raise StagingError(
                "next() of this iterator inside a staged branch or loop is not supported: it would advance while tracing. Use "
                "iter() of a list or tuple, an index, or loop over it with for.",
                user_location(),
            )
        reads.passed((iterator,))
        return next(iterator, *default)
    journal.record(locations.attribute(iterator, "position"))
    items = iterator.items
    at, count = iterator.position, size(items) if isinstance(items, (range, View)) else len_(items)
    inside = at < count

    def take():
        return place_item(iterator.items, at)

    def end():
        if default:
            return default[0]
        raise StopIteration

    if is_staged(inside):
        found = control_flow.staged_if(inside, take, end)
        iterator.position = control_flow.staged_if(inside, lambda: at + 1, lambda: at)
        return found
    if not inside:
        iterator.position = ENDED
        return end()
    iterator.position = at + 1
    return take()


def _next_or(iterator, default):
    """``next`` of an iterator of a user's class, with what to give at its end."""
    try:
        return next(iterator)
    except StopIteration:
        return default


DECIDING.add(_next_or)
