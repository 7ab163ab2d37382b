"""What a loop is taken to do from what the same line did before: a Python ``for`` around a staged loop gives many copies of it.

The rounds of the next copy begin with the specs that the last one ended with, carried over to what its own places hold (``alike``).
That is a guess: the copies may differ in every Python value. It counts where the trace confirms it, so that the copy's own rounds
would have come to the same (``kept``); else they run as if nothing were known.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from types import FunctionType
from typing import Any

from ..graph.types import ListType, ScalarType, TensorType
from ..symbols.funcgraph import FuncGraph, Storage, current_graph
from ..symbols.journal import MISSING
from ..symbols.journal import Location as Place
from ..values import joins, locations, pytrees
from ..values.reach import reachable
from ..values.structure import Choice, Const, Leaf, Spec, SymTensor, Tree, is_union
from .joining import all_seen
from .regions import is_module_globals
from .seeds import plain

TRIES = 2  # copies in a row for which the guess failed


def alike(before: Spec, found: Spec, now: Spec, graph: FuncGraph) -> Spec | None:
    """The spec to begin with where a place holds ``now``, if a copy found ``found`` for one that held ``before``; None where they differ."""
    if joins.equal(before, found):
        return now
    if joins.equal(plain(now), plain(found)):
        return _leafwise(found, now)
    if _same_tree(before, found) and _same_tree(found, now):
        rows = zip(before.parts, found.parts, now.parts)
        parts = [alike(*row, graph) for row in rows]
        if any(p is None for p in parts):
            return None
        return Tree(found.cls, found.aux, tuple(p for p in parts if p is not None))
    if not joins.equal(plain(now), plain(before)) or _has_fixed(found):
        return None
    if _absorbs(found):
        return now
    return found if all_seen(found, graph) else None


def _absorbs(spec: Spec) -> bool:
    """Whether a number that meets it, or enters it as an item, becomes one of it: begun with it, a copy that has numbers only would come to it too."""
    if isinstance(spec, Leaf):
        kind = spec.type
        while isinstance(kind, ListType):
            kind = kind.element
        return kind.shape == () if isinstance(kind, TensorType) else kind == ScalarType(float)
    return any(map(_absorbs, getattr(spec, "parts", None) or getattr(spec, "options", ())))


def _same_tree(a: Spec, b: Spec) -> bool:
    if not isinstance(a, Tree) or not isinstance(b, Tree):
        return False
    return a.cls is b.cls and a.aux == b.aux and len(a.parts) == len(b.parts)


def _has_fixed(spec: Spec) -> bool:
    if isinstance(spec, Leaf):
        return spec.fixed
    parts = getattr(spec, "parts", None) or getattr(spec, "options", ())
    return any(map(_has_fixed, parts))


def _leafwise(found: Spec, now: Spec) -> Spec:
    """``found`` with what is the same in all iterations as it is ``now``; both are of one form."""
    if isinstance(found, Leaf):
        return now if found.fixed else Leaf(found.type)
    if isinstance(found, Tree):
        return Tree(found.cls, found.aux, tuple(map(_leafwise, found.parts, now.parts)))
    if isinstance(found, Choice):
        return Choice(tuple(map(_leafwise, found.options, now.options)))
    return now


def kept(entered: Any, left: Any, entry: Spec, spec: Spec) -> bool:
    """Whether a placeholder comes out where it went in, though before the loop a certain tensor was there: it would not be one."""
    if isinstance(entry, Leaf):
        return entry.fixed and not getattr(spec, "fixed", False) and entered is left
    if not _same_tree(entry, spec) or entry.aux == "staged":
        return False
    one, two = pytrees.parts_of(entered), pytrees.parts_of(left)
    if one is None or two is None or not len(one[1]) == len(two[1]) == len(entry.parts):
        return False
    return any(map(kept, one[1], two[1], entry.parts, spec.parts))


def absent(spec: Spec) -> bool:
    """Whether nothing is there, or None."""
    return isinstance(spec, Const) and (spec.value is None or spec.value is MISSING)


def within_reach(
    places: Sequence[Place], functions: Sequence[Any], memory: bool = True
) -> list[Place]:
    """Those of another copy's places that exist here too: memory from outside of both (without ``memory`` any), and what ``functions`` reach."""
    graph = current_graph()
    owned = [p for p in places if not isinstance(p.keep, Storage) and p.key[0] not in _MEMORY]
    known = reachable(functions, [p.keep for p in owned]) if owned else set()
    return [
        p
        for p in places
        if (
            id(p.keep) in known or is_module_globals(p)
            if p in owned
            else not memory or _visible(p, graph)
        )
    ]


def counterparts(
    places: Sequence[Place], functions: Sequence[Any], ours: Sequence[Any]
) -> dict[Hashable, Place]:
    """By their keys, attributes, contents and memory of what another copy's functions hold in variables: of what the same variables hold here."""
    pairs: dict[int, Any] = {}
    for one, other in zip(functions, ours, strict=True):
        _pair(one, other, pairs)
    found = {}
    for place in places:
        here, kind = pairs.get(id(place.keep)), place.key[0]
        if kind not in _MADE or type(here) is not type(place.keep) or here is place.keep:
            continue
        found[place.key] = _MADE[kind](here, place)
    return found


_MADE: dict[str, Callable[[Any, Place], Place]] = {
    "attr": lambda x, place: locations.attribute(x, place.key[2]),
    "contents": lambda x, place: locations.contents(x, place.name),
    "storage": lambda x, place: x.location(),
}


def _pair(one: Any, other: Any, pairs: dict[int, Any]) -> None:
    """Note what two functions of one code hold in variables, by the ids of what the first one holds."""
    if isinstance(one, FunctionType) and isinstance(other, FunctionType):
        if one.__code__ is other.__code__ and id(one) not in pairs:
            pairs[id(one)] = other
            for a, b in zip(one.__closure__ or (), other.__closure__ or (), strict=True):
                _pair(locations.cell(a, "").get(), locations.cell(b, "").get(), pairs)
    elif is_union(one) and is_union(other):
        for a, b in zip(one.options_, other.options_):
            _pair(a, b, pairs)
    else:
        pairs.setdefault(id(one), other)
        storages = [getattr(x, "storage_", None) for x in (one, other) if isinstance(x, SymTensor)]
        if len(storages) == 2:
            pairs.setdefault(id(storages[0]), storages[1])


_MEMORY = ("grad", "storage", "world")


def _visible(place: Place, graph: FuncGraph) -> bool:
    """Whether memory, or that of which it is the gradient, exists in ``graph``."""
    memory = place.keep if isinstance(place.keep, Storage) else getattr(place.keep, "owner", None)
    home = getattr(getattr(memory, "storage_", memory), "home", None)
    return home is None or graph.within(home)
