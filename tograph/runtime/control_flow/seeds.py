"""What a loop's body is known to do from the last time it was traced: the rounds of a loop around it trace it again, and a
Python ``for`` around it traces a copy of it (``siblings``).

``Outcome`` is what the rounds of one loop found: its state, the specs, which tensor each variable may be. The next time, in the
next round of the loop around, the search begins there. That is no more than it would find by itself, because what
goes into the inner loop only widens from round to round of the outer one: where it did not (``_narrower``), nothing is taken over.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from ..symbols.funcgraph import FuncGraph, current_graph
from ..symbols.journal import Location as Place
from ..symbols.journal import Missing
from ..values import joins, structure
from ..values.joins import join, opened
from ..values.structure import Choice, Const, Leaf, Spec, Tree
from .joining import all_seen
from .loop_specs import together

Key = Hashable


@dataclass
class Outcome:
    """What the rounds of a loop found. ``given``: the places that it was called with; ``before``: the specs at its entry, by place.

    ``functions``: its test and body.
    """

    functions: Sequence[Any]
    given: Sequence[Place]
    state: Sequence[Place]
    specs: Sequence[Spec]
    before: Mapping[Key, Spec]
    rotated: bool
    merged: frozenset[Key]
    carried: Any
    grown: frozenset[Key]  # the places whose content requires grad in the body
    memory: Memory  # of the body
    # The storages in the state that are slots of loops around, by place.
    slots: Mapping[Key, Hashable]
    failures: int = 0  # how many copies before this one in a row were not alike


class Memory:
    """The outcomes of the loops in one body, by where they stand and in order; ``changed``: the outer places that the body changes."""

    def __init__(self) -> None:
        self.outcomes: dict[Hashable, list[Outcome | None]] = {}
        self.at: dict[Hashable, int] = {}
        self.changed: frozenset[Key] = frozenset()
        self.carried: Any = None  # has the storages that stand for the state in this round

    def slot(self, site: Hashable) -> Slot:
        """Where the next loop at a site finds its outcome, and leaves it."""
        at = self.at[site] = self.at.get(site, -1) + 1
        row = self.outcomes.setdefault(site, [])
        if at == len(row):
            row.append(None)
        return Slot(row, at, self.changed)

    def beside(self, keys: Mapping[Key, Key]) -> Memory:
        """The memory for the body of a copy of the loop; ``keys``: those of its places by those of the loop's."""
        made = Memory()
        made.changed = frozenset(keys[k] for k in self.changed if k in keys)
        for site, row in self.outcomes.items():
            made.outcomes[site] = [
                o and replace(o, carried=o.carried.own(), memory=o.memory.beside(keys)) for o in row
            ]
        return made


@dataclass
class Slot:
    row: list[Outcome | None]
    at: int
    changed: frozenset[Key]
    outermost: bool = False

    @property
    def outcome(self) -> Outcome | None:
        return self.row[self.at]

    @property
    def beside(self) -> Outcome | None:
        """The outcome of the last loop at the same site: a copy of this one."""
        return self.row[self.at - 1] if self.at else None

    def leave(self, outcome: Outcome) -> None:
        self.row[self.at] = outcome


class _Open(threading.local):
    def __init__(self) -> None:
        self.memories: list[Memory] = []


_open = _Open()


@contextmanager
def remembering(memory: Memory, carried: Any) -> Iterator[None]:
    """Inside, one round of the loop is traced whose memory this is."""
    memory.at.clear()
    memory.carried = carried
    _open.memories.append(memory)
    try:
        yield
    finally:
        _open.memories.pop()


def _codes(function: Any, depth: int = 4) -> Iterator[CodeType]:
    """The code of a function, and of those that it has from around it: what one line of the user does by several loops differs in these."""
    code = getattr(function, "__code__", None)
    if code is None or not depth:
        return
    yield code
    for cell in function.__closure__ or ():
        try:
            yield from _codes(cell.cell_contents, depth - 1)
        except ValueError:  # a variable that is not bound yet
            continue


def slot_for(location: Any, places: Sequence[Place], body: Any) -> Slot:
    """The slot of a loop that begins, in the body of another one or outside of loops."""
    site = (location, tuple(p.name for p in places), tuple(map(id, _codes(body))))
    if _open.memories:
        return _open.memories[-1].slot(site)
    root = current_graph().root
    root.loops = root.loops or Memory()
    return replace(root.loops.slot(site), outermost=True)


def outermost() -> bool:
    """Whether a loop that begins now is in the body of none."""
    return not _open.memories


def slots_of(places: Sequence[Place]) -> dict[Key, Hashable]:
    """Which state of the loops around the storages among places stand for: it has another storage in each of their rounds."""
    known = {
        ("storage", id(storage)): (depth, key)
        for depth, memory in enumerate(_open.memories)
        for key, storage in memory.carried.storages.items()
    }
    return {p.key: known[p.key] for p in places if p.key in known}


def storages_at(slots: Mapping[Key, Hashable]) -> dict[Key, Place]:
    """The storages that stand for the same state in this round."""
    found = {}
    for old, (depth, key) in slots.items():
        storage = _open.memories[depth].carried.storages.get(key)
        if storage is not None:
            found[old] = storage.location()
    return found


def widened(before: Spec, found: Spec, now: Spec, place: Place, graph: FuncGraph) -> Spec | None:
    """The spec to begin with: what was ``before`` became ``found``, and ``now`` is the entry; None where nothing is to be taken over."""
    if _narrower(plain(now), plain(before)):
        return None
    fits = not _narrower(opened(now), opened(before))
    if not fits or joins.equal(before, found) or not all_seen(found, graph):
        return now
    return together(now, found, place)


def _narrower(now: Spec, before: Spec) -> bool:
    return not joins.equal(join(now, before), now)


def plain(spec: Spec) -> Spec:
    """The spec without which tensors, and objects of one class, stand in it."""
    if isinstance(spec, Leaf):
        return Leaf(spec.type)
    if isinstance(spec, Tree):
        return Tree(spec.cls, spec.aux, tuple(map(plain, spec.parts)))
    if isinstance(spec, Choice):
        return Choice(tuple(map(plain, spec.options)))
    return spec if isinstance(spec.value, _PLAIN) else Const(type(spec.value))


_PLAIN = (type(None), str, bytes, type, complex, Missing, type(structure.UNSET))
