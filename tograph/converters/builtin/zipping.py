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


DECIDING.add(_zipped)


def with_generator(iterables: tuple[Any, ...]) -> Any:
    """The tuples of a generator and of sequences beside it; None where that is not what is given."""
    places = [i for i, x in enumerate(iterables) if isinstance(x, Generator) and x.fresh]
    if not is_tracing() or len(places) != 1:
        return None
    at = places[0]
    others = [x for i, x in enumerate(iterables) if i != at]
    if not all(map(_has_places, others)):
        return None
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
