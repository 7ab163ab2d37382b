"""Which changes a look at the open journals has to look at again: functions that change much look at them before each op that may fail."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterator
from typing import Any

from ..symbols import journal
from ..symbols.journal import Journal, Location


class Changes:
    """The changes of the open journals that may have come, or have another content, since the last look.

    Those are the ones noted since the look before the last, since a change is noted right before it is made, and all of locations that
    change without a note. ``known``: what has been found outside, by the ids of objects; a change of what has not is looked at when it has.
    """

    def __init__(self, known: dict[int, Any]):
        self._known = known
        self._place: Any = None  # the graph and the journals of the last look
        self._counts: list[int] = []  # how much was noted in them by then
        self._held: list[Any] = []  # what variables held, of which only the first change is noted
        self._recent: list[Hashable] = []  # what was noted between the last two looks
        self._waiting: dict[int, list[Hashable]] = {}  # by the ids of their owners

    def begin(self, graph: Any) -> bool:
        """A look from a graph; False where nothing was noted since the last one, and no variable was assigned."""
        logs = list(journal.open_journals())
        place, counts = (graph, logs), [len(log.noted) for log in logs]
        held = [variable.get() for log in logs for variable in log.variables]
        same = len(held) == len(self._held) and all(map(operator.is_, held, self._held))
        if self._place is None or self._place[0] is not graph or self._place[1] != logs:
            self._again = None
            self._recent = []
            self._waiting.clear()
        elif counts == self._counts and same:
            return False
        else:
            pairs = zip(logs, self._counts, counts)
            new = [p.key for log, start, end in pairs for p, _ in log.noted[start:end]]
            self._again, self._recent = [*self._recent, *new, *self._found()], new
        self._place, self._counts, self._held = place, counts, held
        return True

    def _found(self) -> list[Hashable]:
        """The changes of objects that were found outside since."""
        if self._waiting.keys().isdisjoint(self._known.keys()):
            return []
        return [k for i in list(self._waiting) if i in self._known for k in self._waiting.pop(i)]

    def of(self, log: Journal) -> Iterator[tuple[Hashable, Location]]:
        """The locations of one journal to look at, each once."""
        keys = log.entries if self._again is None else dict.fromkeys([*log.loose, *self._again])
        for key in keys:
            if key in log.entries:
                yield key, log.entries[key][0]

    def unseen(self, location: Location) -> None:
        """The owner of a location has not been found outside so far."""
        if location.key[0] == "key":
            self._waiting.setdefault(id(location.keep), []).append(location.key)

    def forget(self) -> None:
        """The next look is at all changes."""
        self._place = None
