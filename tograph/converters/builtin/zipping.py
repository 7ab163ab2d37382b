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
from ..iterables import Indexed, staged_source
from ..iterators import Counting
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
    before = "argument 1" if number == 2 else f"arguments 1-{number - 1}"
    at = 0
    for row in rows:
        if not has_item(items, at):
            if strict:
                raise ValueError(f"zip() argument {number} is shorter than {before}")
            return
        yield *row, item_at(items, at)
        at += 1
    if strict and has_item(items, at):
        raise ValueError(f"zip() argument {number} is longer than {before}")


DECIDING.update((_zipped, _singles, _joined))


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
