"""One container under two names, behind a join: where each branch leaves one object in the same places, so does the construct.

What a branch makes is made anew behind it, from its parts (see ``telling``). The places that hold one object in every branch that
gives them something are found before that, and get one object again: a later change by one of the names is seen by the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..symbols.funcgraph import Storage
from ..symbols.journal import Location as Place
from ..values import pytrees
from ..values.joins import option_for
from ..values.structure import STAGED, Choice, Spec, Tree, is_union
from .leaves import Path
from .regions import Region, replayed

Position = tuple[int, Path]  # the number of a slot, and a place in the spec of what it holds
Slot = tuple[Place | None, list[Any]]  # a place, and what each branch leaves in it


class Sharing:
    """Which positions of the slots of a join get one object, and where each object of a branch stands (``found``)."""

    def __init__(self, slots: Sequence[Slot], specs: Sequence[Spec], live: Sequence[Region]):
        self.found: list[dict[int, list[Position]]] = []
        for k, region in enumerate(live):
            with replayed(region):
                self.found.append(_positions([(p, c[k]) for p, c in slots], specs))
        self.group = _groups(self.found)
        self._above = {(i, path[:n]) for i, path in self.group for n in range(len(path) + 1)}
        self._made: dict[int, Any] = {}

    def is_one(self, x: Any, k: int, count: int) -> bool:
        """Whether the container ``x``, which stands in ``count`` places of what branch ``k`` leaves, is one behind the join."""
        found = self.found[k].get(id(x), ())
        return len(found) == count and len({self.group.get(p, p) for p in found}) == 1

    def at(self, x: Any, k: int, number: int) -> list[Path]:
        """The places of a container of branch ``k`` in a slot; none where they cannot be told."""
        return [path for i, path in self.found[k].get(id(x), ()) if i == number]

    def one(self, number: int, x: Any, path: Path = ()) -> Any:
        """``x``, made anew for a slot, with the objects that an earlier position holds in place of those that are equal to them."""
        at = (number, path)
        if at not in self._above:
            return x
        group = self.group.get(at)
        if group is not None and group in self._made:
            return self._made[group]
        if is_union(x):
            options = x.options_
            x.options_[:] = [
                self.one(number, o, (*path, f"option{n}")) for n, o in enumerate(options)
            ]
            return x
        aux, parts = pytrees.parts_of(x)
        inner = [self.one(number, p, (*path, n)) for n, p in enumerate(parts)]
        if any(a is not b for a, b in zip(inner, parts, strict=True)):
            x = pytrees.rebuild(type(x), aux, inner)
        if group is not None:
            self._made[group] = x
        return x


def _positions(
    contents: Sequence[tuple[Place | None, Any]], specs: Sequence[Spec]
) -> dict[int, list[Position]]:
    """Where each container that a branch leaves stands, by their ids; the one that a location is all of stays what it is."""
    found: dict[int, list[Position]] = {}
    for i, ((place, content), spec) in enumerate(zip(contents, specs, strict=True)):
        if place is None or not isinstance(place.keep, Storage):
            whole = place is not None and place.key[0] == "contents"
            for path, x in _aligned(content, spec):
                if path or not whole:
                    found.setdefault(id(x), []).append((i, path))
    return found


def _groups(found: Sequence[dict[int, list[Position]]]) -> dict[Position, int]:
    """The positions that hold the same object in each branch in which they hold one, with a number for each object."""
    objects: dict[Position, list[int | None]] = {}
    torn: set[Position] = set()  # one thing or another in one branch
    for k, at in enumerate(found):
        for x, positions in at.items():
            for p in positions:
                row = objects.setdefault(p, [None] * len(found))
                if row[k] is not None:
                    torn.add(p)
                row[k] = x
    alike: dict[tuple[int | None, ...], list[Position]] = {}
    for p, row in objects.items():
        if p not in torn:
            alike.setdefault(tuple(row), []).append(p)
    groups = [positions for positions in alike.values() if len(positions) > 1]
    return {p: n for n, positions in enumerate(groups) for p in positions}


def _aligned(x: Any, spec: Spec, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The containers and objects in ``x`` that are made anew, with their places in its spec."""
    if isinstance(spec, Choice):
        for option in x.options_ if is_union(x) else [x]:
            if pytrees.parts_of(option) is not None:
                n = option_for(option, spec)
                yield from _aligned(option, spec.options[n], (*path, f"option{n}"))
        return
    found = pytrees.parts_of(x) if isinstance(spec, Tree) and type(x) is spec.cls else None
    if found is None or found[0] != spec.aux or len(found[1]) != len(spec.parts):
        return
    yield path, x
    if spec.aux != "staged" and not isinstance(spec.aux, STAGED.records):
        for n, part in enumerate(spec.parts):
            yield from _aligned(found[1][n], part, (*path, n))
