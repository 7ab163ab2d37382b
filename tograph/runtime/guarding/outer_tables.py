"""Containers from outside of a function that become values of the graph: dicts and sets that get keys which only the run knows
(``self.visited[int(s)] = v``), and lists that grow by a staged condition and are read.

Tracing begins again with a table of the graph (``values.tables``), or a list that can be one, in the place where the code finds such a container. Its
content is guarded: a call that finds another one traces anew. A call leaves what stands there at its end in the container itself.

Invariant: the code finds the container in one place. Keys and values of dicts are numbers, strings and tuples of these: those that stay are what they were.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ...errors import Location as Line
from ...errors import StagingError
from ..graph.types import OBJECT, ScalarType
from ..inference.shapes import SYMBOLS
from ..symbols.funcgraph import current_graph, user_location
from ..symbols.journal import Location
from ..symbols.retrace import Retrace
from ..values import tables
from ..values.growing import StagedList
from ..values.structure import leaf_types
from . import outer_lists
from .outer_numbers import location_of
from .place_checks import in_two_places
from .sources import Source
from .watch import Watch

Place = tuple[
    Source | int, Line | None
]  # a source, or the identity of an argument, and the line that gives it a new key


def place_of(x: Any, watch: Watch | None) -> Place | None:
    """Where the code found a dict or set from outside that a table can stand for; None for any other."""
    root = current_graph().root
    if watch is None or type(x) not in tables.KINDS or root.untabled is not None:
        return None
    if not _plain([*x, *(x.values() if isinstance(x, dict) else ())]):
        return None
    lent = next((real for made, real in root.lent if made is x), None)
    if lent is not None:
        return id(lent), user_location()
    source = watch.source_of(x)
    if source is not None and any(real is x for _, real in root.lent):
        raise in_two_places(source.label, "an argument")
    return None if source is None or location_of(source) is None else (source, user_location())


def stand_for_list(place: Location, watch: Watch | None) -> None:
    """A list from outside that grows by a staged condition, and that is not only added to, is one of the function's own in the next trace."""
    root = current_graph().root
    if watch is None or root.ungrown is None or not outer_lists.is_outer(place, watch):
        return
    at = _list_place(place.keep, watch)
    if at is None:
        return
    others = [x for x, _ in watch.sources.values() if id(x) in root.grew and type(x) is list]
    found = [p for x in others if (p := _list_place(x, watch)) is not None]
    raise Retrace(stood=frozenset([at, *found]))


def _list_place(x: list, watch: Watch | None) -> Place | None:
    """Where the code found a list from outside that one of the function's own can stand for; None for any other."""
    root = current_graph().root
    source = None if watch is None else watch.source_of(x)
    if source is None or root.untabled is not None or any(real is x for _, real in root.lent):
        return None
    location = location_of(source) if _items_stand(x) else None
    return None if location is None or location.get() is not x else (source, user_location())


def _items_stand(items: Iterable[Any]) -> bool:
    """Whether all items are tensors, numbers, strings and tuples of these: nothing in them changes by another name."""
    return all(_items_stand(x) if type(x) is tuple else isinstance(x, (*_PLAIN, torch.Tensor)) for x in items)  # fmt: skip


def _plain(items: Iterable[Any]) -> bool:
    """Whether items are numbers and strings, and tuples of these."""
    return all(_plain(x) if type(x) is tuple else isinstance(x, _PLAIN) for x in items)


_PLAIN = (int, float, str, type(None), *SYMBOLS)


class Stood:
    """The containers of one trace that others stand for: ``pairs`` of what stands there and the container; ``lent``: those among the arguments."""

    def __init__(self, places: Iterable[Place]):
        found = dict(places)
        self.lent = frozenset(at for at in found if isinstance(at, int))
        self.sources = {at: line for at, line in found.items() if isinstance(at, Source)}
        self.pairs: list[tuple[Any, Any]] = []
        self.entries: dict[Any, Any] = {}  # what each location holds when the trace begins

    def enter(self, watch: Watch) -> None:
        """Put a table, or a list of the function's own, in each place."""
        for source in sorted(self.sources, key=lambda s: s.label):
            place = location_of(source)
            if place is None or type(place.get()) not in (*tables.KINDS, list):
                continue
            real = place.get()
            watch.stood(real, source)
            made = StagedList(real) if type(real) is list else tables.table_of(real)
            watch.sources[id(made)] = made, source
            watch.opened[source.label].add(source.place())
            place.set(made)
            self.entries[place.key] = made
            self.pairs.append((made, real))

    def same(self, place: Location) -> bool:
        """Whether a place holds at the end what it held in the beginning."""
        return place.key in self.entries and place.get() is self.entries[place.key]

    def check(self, x: Any) -> None:
        """StagingError for a table that leaves other things than numbers and strings in what it stands for."""
        if isinstance(x, StagedList) and not tables.is_table(x):
            return
        kinds = () if x.item_spec is None else leaf_types(x.item_spec)
        if not all(isinstance(k, ScalarType) or k == OBJECT for k in kinds):
            raise StagingError(
                "a dict from outside of the function gets a key that is known only when the graph runs, and a tensor, list or object as a value: only numbers and "
                "strings are put into it so. Set every key before, or gather what is new in a dict that the function makes",
                next(iter(self.sources.values())),
            )

    def real(self, x: Any) -> Any:
        """The container that another one stands for; None for anything else."""
        return next((real for made, real in self.pairs if made is x), None)
