"""What a join makes anew of the containers that its branches leave: which of them stay one object, and which may not change (``telling``)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ..symbols import journal
from ..symbols.journal import Location as Place
from ..values import inner_lists, structure
from ..values.structure import Spec
from .containers import containers, themselves
from .doubles import guard, note, origins
from .leaves import Path
from .regions import Region
from .sharing import Sharing
from .telling import Before, Elsewhere, Slot, in_places, is_whole, key, made_anew


class Merged:
    """What a join makes anew of the containers that its regions leave, and which of them other names hold too.

    ``places``: for those that hold such ones, where these stand in them, and what that was.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        specs: Sequence[Spec],
        live: Sequence[Region],
        before: Before,
    ):
        self.places: dict[Any, dict[Path, dict[int, Any]]] = {}
        self._existed: dict[int, Any] = {}  # of these, what did before the construct
        self.sharing: Sharing | None = None
        # What a list of the graph takes has its place there.
        numbered = {i: s for i, s in enumerate(slots) if not (is_whole(s[0]) and structure.is_staged_list(specs[i]))}  # fmt: skip
        if not any(next(containers(c), None) for _, row in numbered.values() for c in row):
            return
        self._find = functools.cache(lambda: Sharing(slots, specs, live))
        for k in range(len(live)):
            self._find_twice(k, [(i, p, c[k]) for i, (p, c) in numbered.items()])
            self._find_kept(k, [(i, p, c[k]) for i, (p, c) in numbered.items()])
        elsewhere = Elsewhere(list(numbered.values()), before)
        for number, (place, contents) in numbered.items():
            held = [(x, k) for k, c in enumerate(contents) for x in made_anew(place, c)]
            seen = before.also() if held else ()
            kept = [(x, k) for x, k in held if inner_lists.is_listed(x, live[k].marks)]
            if kept:
                inner_lists.copied()
            self._add(number, place, [*kept, *((x, k) for x, k in held if journal.guarded(x))])
            if any(id(x) in seen for x, _ in held):
                for k, content in enumerate(contents):
                    for _, x in elsewhere.held(place, content):
                        if id(x) in seen:
                            self._add(number, place, [(x, k)])
                            self._existed[id(x)] = x
                            guard(x, None if place is None else place.name)

    def _find_twice(self, k: int, contents: Sequence[tuple[int, Place | None, Any]]) -> None:
        """Find what one region leaves in two places, and what of that the join makes two of."""
        for x, positions in _held_by_several(contents):
            inner_lists.held_twice()
            self.sharing = self._find()
            if not self.sharing.is_one(x, k, len(positions)):
                for i, place in positions:
                    self._add(i, place, [(x, k)])

    def _find_kept(self, k: int, contents: Sequence[tuple[int, Place | None, Any]]) -> None:
        """Find what one region leaves in two places, in one of which it counts as itself."""
        kept = {id(x) for _, _, content in contents for x in themselves(content)}
        for i, place, content in contents if kept else ():
            for x in made_anew(place, content):
                if id(x) in kept:
                    self._add(i, place, [(x, k)])
                    guard(x, None if place is None else place.name)

    def _add(self, number: int, place: Place | None, found: Sequence[tuple[Any, int]]) -> None:
        """These containers of these branches, in a place, are held by other names."""
        for x, k in found:
            paths = self._find().at(x, k, number) or [_ALL]
            found_at = self.places.setdefault(key(place), {})
            for path in paths:
                found_at.setdefault(path, {})[id(x)] = x

    def one(self, number: int, x: Any) -> Any:
        """``x``, which was made anew, with the objects that the places before have made already."""
        return x if self.sharing is None else self.sharing.one(number, x)

    def guard(self, place: Place | None, x: Any) -> None:
        """``x`` was made anew: where Python has one object under two names, a change of it is an error."""
        paths = self.places.get(key(place), {})
        everywhere = paths.get(_ALL, {})
        found = {p: origins([*everywhere.values(), *of.values()], self._existed) for p, of in paths.items()}  # fmt: skip
        for path, part in containers(x) if paths else ():
            from_ = found.get(path) or found.get(_ALL)
            if from_ is not None:
                note(part, None if place is None else place.name, from_)


_ALL = ("all",)  # stands for each place in what a location holds


def _held_by_several(
    contents: Sequence[tuple[int, Place | None, Any]],
) -> list[tuple[Any, list[tuple[int, Place | None]]]]:
    """Each container that is found more than once in numbered contents, with where it is."""
    found: dict[int, tuple[Any, list[tuple[int, Place | None]]]] = {}
    for i, place, content in contents:
        for _, _, x in in_places([(place, content)]):
            found.setdefault(id(x), (x, []))[1].append((i, place))
    return [(x, places) for x, places in found.values() if len(places) > 1]
