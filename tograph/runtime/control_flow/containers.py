"""The containers and objects in a value: those that it may be, those that a tuple holds, and where they all are."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Container, Iterator, Sequence
from typing import Any

from ..values import pytrees, structure
from ..values.growing import StagedList
from ..values.structure import Identity, is_union
from .leaves import Path

_CONTAINERS = (list, dict, set, deque, defaultdict, Counter, OrderedDict)


def mutable(x: Any) -> bool:
    """Whether ``x`` is a container or an object that can change."""
    return (
        type(x) in _CONTAINERS
        or (isinstance(x, StagedList) and not x.frozen)
        or pytrees.has_identity(x)
    )


def among(x: Any) -> list[Any]:
    """What ``x`` may be."""
    return x.options_ if is_union(x) else [x]


def told(x: Any) -> Any:
    """``x`` with the containers that it may be, or that a tuple holds, counting as themselves."""
    if is_union(x):
        made = structure.TaggedUnion(x.tag_, [told(o) for o in x.options_], x.either_)
        made.__dict__["name_"] = x.name_
        return made
    if mutable(x):
        return Identity(x)
    found = _fixed(x)
    if found is None or not any(outermost(p) for p in found[1]):
        return x
    return pytrees.rebuild(type(x), found[0], [told(p) for p in found[1]])


def _fixed(x: Any) -> tuple[Any, Sequence[Any]] | None:
    """The parts of a tuple, or of another object that cannot change; None for anything else."""
    found = None if isinstance(x, Identity) or mutable(x) or structure.OUTSIDE[0](x) else pytrees.parts_of(x)  # fmt: skip
    return None if found is None or found[0] == "staged" else found


def outermost(x: Any) -> list[Any]:
    """The containers that ``x`` may be, or that a tuple holds."""
    out = []
    for o in among(x):
        found = [] if mutable(o) else (_fixed(o) or ((), ()))[1]
        out += [o] if mutable(o) else [c for p in found for c in outermost(p)]
    return out


def all_known(x: Any, known: Container[int]) -> bool:
    """Whether all containers that ``x`` may be, or that a tuple holds, existed before: their ids are ``known``."""
    return all(id(o) in known for o in outermost(x))


def containers(x: Any, path: Path = (), around: tuple[Any, ...] = ()) -> Iterator[tuple[Path, Any]]:
    """The containers and objects in ``x``, itself included, that are made anew when it is. ``around``: those that ``x`` was found in, of a cycle."""
    if is_union(x):
        for i, option in enumerate(x.options_):
            yield from containers(option, (*path, f"option{i}"), around)
        return
    if mutable(x):
        yield path, x
        if any(x is outer for outer in around):
            return
        around = (*around, x)
    found = pytrees.parts_of(x) if not isinstance(x, Identity) else None
    if found is None or found[0] == "staged" or structure.OUTSIDE[0](x):
        return
    for i, part in enumerate(found[1]):
        if pytrees.has_parts(type(part)) or is_union(part) or type(part) in _CONTAINERS:
            yield from containers(part, (*path, i), around)


def leads_back(x: Any, around: tuple[Any, ...] = (), done: set[int] | None = None) -> bool:
    """Whether an object in ``x`` holds itself, directly or by others: a parent and its children. ``done``: the ids of those that do not."""
    done = set() if done is None else done
    for option in among(x):
        if id(option) in done:
            continue
        if any(option is outer for outer in around):
            return True
        found = pytrees.parts_of(option) if not isinstance(option, Identity) else None
        if found is None or found[0] == "staged" or structure.OUTSIDE[0](option):
            continue
        if any(leads_back(p, (*around, option), done) for p in found[1]):
            return True
        done.add(id(option))
    return False


def themselves(x: Any, around: tuple[Any, ...] = ()) -> Iterator[Any]:
    """The containers and objects in ``x`` that count as themselves (``Identity``)."""
    if isinstance(x, Identity):
        yield x.value
        return
    if any(x is outer for outer in around):
        return
    for option in among(x):
        found = pytrees.parts_of(option)
        if found is not None and found[0] != "staged" and not structure.OUTSIDE[0](option):
            for part in found[1]:
                if pytrees.has_parts(type(part)) or is_union(part):  # as an ``Identity`` has
                    yield from themselves(part, (*around, x))


def own(x: Any) -> Any:
    """``x`` with lists of Python's own as lists that can be of the graph: a loop makes them anew."""
    if type(x) is list:
        return StagedList(map(own, x))
    found = _fixed(x)
    parts = () if found is None else found[1]
    made = [own(p) for p in parts]
    return (
        pytrees.rebuild(type(x), found[0], made)
        if any(a is not b for a, b in zip(made, parts))
        else x
    )


def plain(path: Path) -> Path:
    """A path without the options of unions on it."""
    return tuple(p for p in path if not isinstance(p, str))
