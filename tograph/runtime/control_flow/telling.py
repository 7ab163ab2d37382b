"""Containers and objects that a staged construct binds to names: which one a name holds, and what may change where two hold one.

A list, dict, set, deque or object that existed before a construct counts as itself (``Identity``): a name that is one of
several such is a tagged union of them, so a change reaches the right one. One that a branch or an iteration makes is a value
of the construct, made anew from its parts. That differs from Python only where it, or the one whose place it takes, is held
by another name too and then changes. Such a change begins the trace again, **apart**: all that existed before a construct counts as
itself, beside what the construct makes, also inside of that. A change that cannot be followed even so is an ``AliasError``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator, Sequence
from typing import Any

from ..symbols import journal
from ..symbols.funcgraph import Storage, current_graph
from ..symbols.journal import MISSING
from ..symbols.journal import Location as Place
from ..symbols.retrace import Retrace
from ..values import inner_lists, pytrees, structure
from ..values.reach import Reach, reachable, user_variables
from ..values.structure import Identity, Spec, is_growing, is_union
from .containers import (
    all_known,
    among,
    containers,
    leads_back,
    mutable,
    outermost,
    own,
    plain,
    told,
)
from .doubles import guard, may_be_held, note, origins
from .leaves import Path
from .regions import Region

Slot = tuple[Place | None, list[Any]]  # a place, and what each branch leaves in it


class Before:
    """What existed before the branches of a construct: what their functions reach is gone over once, when it is first asked for."""

    def __init__(self, live: Sequence[Region]):
        self._functions = [r.function for r in live]
        self._reach: Reach | None = None

    def also(self, roots: Sequence[Any] = ()) -> set[int]:
        """The ids of what the functions and these roots reach."""
        if self._reach is None:
            self._reach = Reach(self._functions)
        return self._reach.also(roots)


def told_apart(slots: Sequence[Slot], before: Before) -> list[Slot]:
    """The outcomes of branches, with containers that all existed before the branches counting as themselves."""
    seen: set[int] | None = None
    memo: dict[int, Any] = {}
    out = []
    places = [p for p, _ in slots if p is not None]
    for place, contents in slots:
        held = [_bare(o) for c in contents for o in among(c)]
        if current_graph().root.apart:
            if seen is None and any(map(_has_containers, contents)):
                seen = before.also([p.get() for p in places])
            contents = [partly(c, seen or (), memo) for c in contents]
        elif _are_told(held):
            seen = seen if seen is not None else before.also([p.get() for p in places])
            if all(all_known(c, seen) for c in contents):
                contents = [told(c) for c in contents]
        outside = place is not None and structure.OUTSIDE[0](place.keep)
        if (outside and any(map(_has_objects, held))) or any(map(_has_copies, held)):
            seen = seen if seen is not None else before.also([p.get() for p in places])
            contents = [partly(c, seen, memo) for c in contents]
        out.append((place, contents))
    return out


def _are_told(held: Sequence[Any]) -> bool:
    """Whether what branches leave in a place counts as itself where it existed before: containers, and tuples with objects that no value of parts can be."""
    if all(mutable(o) or o is None or o is MISSING for o in held):
        return any(map(mutable, held))
    return all(map(outermost, held)) and any(map(leads_back, held))


def _has_objects(x: Any) -> bool:
    """Whether ``x`` is an object of a user's class that was found outside, or a container of such."""
    parts = x if type(x) in (list, tuple) else x.values() if type(x) is dict else (x,)
    return any(structure.OUTSIDE[0](p) and pytrees.has_identity(p) for p in parts)


def _has_copies(x: Any) -> bool:
    """Whether ``x`` is what stands for an object of the arguments, or a container of such."""
    copies = [made for made, _ in current_graph().root.lent if pytrees.has_identity(made)]
    listed = type(x) is tuple or (isinstance(x, list) and not is_growing(x))
    parts = x if listed else x.values() if type(x) is dict else (x,)
    return bool(copies) and any(p is made for p in parts for made in copies)


def partly(x: Any, known: Container[int], memo: dict[int, Any]) -> Any:
    """``x`` with all containers in it that are ``known`` counting as themselves; those that hold such ones are copied.

    ``memo``: the copies by the ids of what they are of, so that what two places hold stays one.
    """
    if is_union(x):
        options = [partly(o, known, memo) for o in x.options_]
        made = structure.TaggedUnion(x.tag_, options, x.either_)
        made.__dict__["name_"] = x.name_
        return made
    if mutable(x) and id(x) in known:
        return Identity(x)
    found = pytrees.parts_of(x)
    kept = structure.OUTSIDE[0](x) or is_growing(x)
    if found is None or kept or isinstance(x, Identity):
        return x
    if id(x) not in memo:
        memo[id(x)] = x  # of a cycle
        parts = [partly(p, known, memo) for p in found[1]]
        if any(a is not b for a, b in zip(parts, found[1], strict=True)):
            memo[id(x)] = pytrees.rebuild(type(x), found[0], parts)
    return memo[id(x)]


def _bare(x: Any) -> Any:
    return x.value if isinstance(x, Identity) else x


class Told:
    """What a loop's places hold: as themselves, as long as no iteration leaves a container that it made itself."""

    def __init__(self, body: Any, before: Sequence[Place]):
        self.merged: set[Any] = set()
        self.known: dict[int, Any] = {}
        self.shared: dict[Any, dict[Path, dict[int, Any]]] = {}
        self.own: set[tuple[Any, Path]] = set()  # where an iteration leaves what it made itself
        self.apart = current_graph().root.apart
        self.seen: set[int] = set()
        if self.apart:
            self.held = [p.get() for p in before]  # alive, so that ids stay theirs
            self.reached = Reach([body, *self.held])
            self.seen = self.reached.seen

    def _follows(self, place: Place) -> bool:
        owned = place.key[0] in ("cell", "key", "attr")
        return owned and place.key not in self.merged

    def entry(self, place: Place, content: Any) -> Any:
        """The content before the loop."""
        if self.apart:
            return partly(content, self.seen, {})
        if not self._follows(place):
            return own(content) if place.key in self.merged else content
        self.known.update((id(o), o) for o in outermost(content))
        return told(content)

    def left(self, state: Sequence[Place], contents: Sequence[Any]) -> list[Any]:
        """The contents at the end of an iteration."""
        pairs, memo = list(zip(state, contents, strict=True)), {}
        if self.apart:
            return [partly(c, self.seen, memo) for _, c in pairs]
        return [told(c) if self._follows(p) else c for p, c in pairs]

    def widen(self, loop: Region, state: Sequence[Place], contents: Sequence[Any]) -> list[Place]:
        """The places in which an iteration leaves a container of its own; they are merged from here on."""
        if self.apart or not self._any(state, contents):
            return []
        before = [loop.function, *(p.get() for p in state)]
        seen = {*self.known, *reachable(before)}
        found = []
        for place, content in zip(state, contents, strict=True):
            if not self._follows(place):
                continue
            if not all_known(content, seen):
                self.merged.add(place.key)
                found.append(place)
        return found

    def _any(self, state: Sequence[Place], contents: Sequence[Any]) -> bool:
        pairs = zip(state, contents, strict=True)
        return any(self._follows(p) and outermost(c) for p, c in pairs)

    def share(self, state: Sequence[Place], contents: Sequence[Any], marks: Any = ()) -> bool:
        """Find what two places hold at the end of an iteration, and what the loop takes over while others hold it."""
        if self.apart:
            contents = self.left(state, contents)
        pairs = zip(state, contents, strict=True)
        merged = [(p, c) for p, c in pairs if self.apart or not self._follows(p)]
        before = sum(map(len, self.shared.values()))
        for key, path, x in _twice(merged):
            inner_lists.held_twice()
            self._add(key, path, x)
        slots = [
            (p, [p.get(), c]) for p, c in zip(state, contents, strict=True) if p.key in self.merged
        ]
        elsewhere = Elsewhere(slots)
        for place, both in slots:
            for held in both:
                for path, x in elsewhere.held(place, held):
                    self._add(place.key, path, x)
                    guard(x, place.name)
            # What a join in the iteration made of one that has another name is that here too.
            for path, x in containers(both[1]):
                if journal.guarded(x):
                    self._add(place.key, path, x)
                else:
                    self.own.add((place.key, plain(path)))
        self._share_items(state, contents, marks)
        return sum(map(len, self.shared.values())) != before

    def _share_items(self, state: Sequence[Place], contents: Sequence[Any], marks: Any) -> None:
        """Find what the places hold that is an item of a list of the graph too."""
        for place, content in zip(state, contents, strict=True):
            for path, x in made_anew_at(place, content):
                if inner_lists.is_listed(x, marks):
                    inner_lists.copied()
                    self._add(place.key, path, x)

    def _add(self, key: Any, path: Path, x: Any) -> None:
        self.shared.setdefault(key, {}).setdefault(path, {})[id(x)] = x

    def guard(self, state: Sequence[Place]) -> None:
        """What the places hold now was made anew: where Python has one object under two names, a change is an error."""
        for place in state:
            shared = self.shared.get(place.key)
            if shared:
                # What was one container in an iteration may be one of several behind the loop.
                wanted: dict[Path, dict[int, Any]] = {}
                for path, found in shared.items():
                    wanted.setdefault(plain(path), {}).update(found)
                from_ = {p: origins(found.values()) for p, found in wanted.items()}
                every = origins([x for found in wanted.values() for x in found.values()])
                held = list(containers(place.get()))
                for p, x in [(p, x) for p, x in held if plain(p) in wanted] or held:
                    if (place.key, plain(p)) in self.own:  # each iteration has another one
                        guard(x, place.name)
                    else:
                        note(x, place.name, from_.get(plain(p), every))

    def check_items(self, place: Place, spec: Spec) -> None:
        """Begin anew, apart, where a loop makes the items of a container anew and a name holds one of them: it would not change with it."""
        if self.apart or not is_whole(place) or structure.is_staged_list(spec):
            return
        old = place.get()
        inner = {id(x): x for x in made_anew(place, old)}
        if inner and any(id(x) in inner for _, x in Elsewhere([(place, [old])]).held(place, old)):
            raise Retrace(apart=may_be_held(next(iter(inner.values())), place.name))


def key(place: Place | None) -> Any:
    return None if place is None else place.key


def made_anew(place: Place | None, content: Any) -> list[Any]:
    """The containers of a content that a construct makes anew; the one that a location is all of stays."""
    return [x for _, x in made_anew_at(place, content)]


def made_anew_at(place: Place | None, content: Any) -> list[tuple[Path, Any]]:
    whole = is_whole(place)
    return [(path, x) for path, x in containers(content) if not (whole and path == ())]


def is_whole(place: Place | None) -> bool:
    return place is not None and place.key[0] == "contents"


def _twice(contents: Sequence[tuple[Place | None, Any]]) -> list[tuple[Any, Path, Any]]:
    """Where containers stand that are found more than once in contents, and which."""
    found: dict[int, list[tuple[Any, Path, Any]]] = {}
    for place, path, x in in_places(contents):
        found.setdefault(id(x), []).append((key(place), path, x))
    return [at for places in found.values() if len(places) > 1 for at in places]


def in_places(
    contents: Sequence[tuple[Place | None, Any]],
) -> Iterator[tuple[Place | None, Path, Any]]:
    """The containers in contents of places that are made anew."""
    for place, content in contents:
        if place is None or not isinstance(place.keep, Storage):
            for path, x in made_anew_at(place, content):
                yield place, path, x


class Elsewhere:
    """Which containers other variables than a place, or the caller, hold too: asked for each of the places of one construct.

    What there is beside all of these places is gone over once. ``slots``: the places, and what may come to each of them. ``before``: only
    containers that existed before the construct are asked for.
    """

    def __init__(self, slots: Sequence[Slot], before: Before | None = None):
        self._slots, self._before = slots, before
        self._reach: Reach | None = None
        self._emptied: list[tuple[Place, Any]] = []

    def held(self, place: Place | None, content: Any) -> list[tuple[Path, Any]]:
        """The containers of a content that are held elsewhere."""
        held = list(containers(content))
        if not held:
            return []
        seen = self._seen(place)
        return [(path, x) for path, x in held if id(x) in seen or structure.OUTSIDE[0](x)]

    def _seen(self, place: Place | None) -> set[int]:
        if self._reach is None:
            told = [p for p, cs in self._slots if p is not None and any(map(_has_containers, cs))]
            self._emptied = [(p, p.get()) for p in told]
            wanted = self._wanted()
            with _empty(self._emptied):
                lent = [made for made, _ in current_graph().root.lent]
                self._reach = Reach([*user_variables(), *lent], wanted)
        others = [old for p, old in self._emptied if p is not place]
        with _empty([(p, old) for p, old in self._emptied if p is place]):
            return self._reach.also(others)

    def _wanted(self) -> set[int]:
        """The ids of the containers that are asked for."""
        ids = {id(x) for _, cs in self._slots for c in cs for _, x in containers(c)}
        return ids if self._before is None else ids & self._before.also()


def _has_containers(x: Any) -> bool:
    return next(containers(x), None) is not None


@contextlib.contextmanager
def _empty(places: Sequence[tuple[Place, Any]]) -> Iterator[None]:
    """The places hold nothing for a while."""
    for place, old in places:
        place._set(type(old)() if place.key[0] == "contents" else None)
    try:
        yield
    finally:
        for place, old in reversed(places):
            place._set(old)
