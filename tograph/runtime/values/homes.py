"""The places that lists, dicts and objects of users' classes have in lists of the graph, and which of them a branch gave.

A list keeps its ``Home`` itself; those of dicts and objects are in a table of the trace, and the journal refuses every change of
them that does not come by ``changing``.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...errors import SharedMemoryError
from ..symbols import journal
from ..symbols.code_lines import is_body, line_of
from ..symbols.funcgraph import FuncGraph, current_graph, user_location
from . import pytrees
from .reach import USER_CODE
from .structure import STAGED, Tree, is_staged_list

Path = tuple[int, ...]


class Home:
    """The place of an item that can change: item ``at`` of ``parent``, and the ``path`` to it in that item; None for one that was taken out."""

    __tograph_opaque__ = True  # what it holds is no state of the user's

    def __init__(self, parent: Any, at: Any, path: Path):
        self.parent, self.at, self.path = parent, at, path
        self.moves = 0 if parent is None else parent.moves
        self.graph: FuncGraph = current_graph()
        self.index: Any = None  # by which it was read
        self.columns: Any = None  # what the parent held then or after the last change

    @property
    def known(self) -> bool:
        """Whether the place is that of the item still."""
        here = current_graph().within(self.graph)
        return self.parent is None or (here and self.parent.moves == self.moves)


class _Nowhere:
    """The parent of an item whose place in a list is not known."""

    moves = -1
    home = None
    token = object()


NOWHERE: Any = _Nowhere()


class Live:
    """The items that have their place in a list, by weak references where their class has such, each with the lines that ran when it was put or read."""

    __tograph_opaque__ = True

    def __init__(self) -> None:
        self.refs: list[tuple[Callable[[], Any], list[Line]]] = []

    def add(self, x: Any) -> None:
        running = {id(frame) for frame, _ in _lines()}
        self.refs = [
            (ref, [line for line in lines if id(line[0]) in running])
            for ref, lines in self.refs
            if ref() is not None
        ]
        own = _reference(x)
        self.refs.append((own, list(_holding())))
        journal.undone_by(lambda: self._forget(own))  # a frame of what failed may hold it still

    def _forget(self, own: Callable[[], Any]) -> None:
        """What was read in an attempt that is undone is no item that the program has."""
        self.refs = [entry for entry in self.refs if entry[0] is not own]

    def items(self) -> list[Any]:
        return list({id(x): x for r, _ in self.refs if (x := r()) is not None}.values())

    def by_a_line(self, x: Any) -> bool:
        """Whether one of the lines still runs: it may hold ``x`` with no name."""
        now = {id(frame): line for frame, line in _lines()}
        return any(
            r() is x and any(now.get(id(f)) == n for f, n in lines) for r, lines in self.refs
        )


Line = tuple[types.FrameType, int]


def _reference(x: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(x)
    except TypeError:
        return lambda: x


def _lines() -> Iterator[Line]:
    """The user's lines that run, from the innermost on."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code in USER_CODE:
            yield frame, line_of(frame)
        frame = frame.f_back


def _holding() -> Iterator[Line]:
    """Those that may hold what the innermost one makes: what a statement's body makes does not come to the statement."""
    inner = None
    for frame, line in _lines():
        if inner is None or not is_body(inner, frame.f_code):
            yield frame, line
        inner = frame.f_code


def can_change(x: Any) -> bool:
    """Whether ``x`` is a list, dict or object that has a place in a list of the graph where it is in one."""
    if isinstance(x, STAGED.lists):
        return not x.frozen
    return isinstance(x, dict) or pytrees.has_identity(x)


def held(x: Any, spec: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The lists, dicts and objects in an item that can change, outermost first, each with its path."""
    if not isinstance(spec, Tree) or isinstance(x, STAGED.texts):
        return
    if can_change(x):
        yield path, x
    if isinstance(x, STAGED.lists) and (x.handle is not None or is_staged_list(spec)):
        return  # its items have their places in itself
    found = pytrees.parts_of(x)
    parts = found[1] if found is not None and len(found[1]) == len(spec.parts) else ()
    for i, (part, inner) in enumerate(zip(parts, spec.parts)):
        yield from held(part, inner, (*path, i))


# ---- homes


def home_of(x: Any) -> Home | None:
    """The place of ``x`` in a list of the graph."""
    if isinstance(x, STAGED.lists):
        return x.home
    found = current_graph().root.homes.get(id(x))
    return None if found is None else found[1]


def outside(owners: list[Any], graph: FuncGraph) -> set[int]:
    """The ids of those owners that had a place in a list before a region, and of the lists that hold them: a change of one is one of these."""
    found: set[int] = set()
    for x in owners:
        home = home_of(x) if can_change(x) else None
        if home is not None and home.parent is not None and not home.graph.within(graph):
            found.add(id(x))
            while home is not None and home.parent is not None:
                found.add(id(home.parent))
                home = home.parent.home
    return found


def _set(x: Any, home: Home | None) -> None:
    if isinstance(x, STAGED.lists):
        x.home = home
        return
    homes = current_graph().root.homes
    if home is None:
        homes.pop(id(x), None)
        if journal.guarded(x) is refuse:
            journal.unguard(x)
        return
    homes[id(x)] = x, home
    if journal.guarded(x) is None:  # another reason stays
        journal.guard(x, refuse)


@contextmanager
def away(x: Any) -> Iterator[None]:
    """``x`` has no place for a while."""
    home = home_of(x)
    _set(x, None)
    try:
        yield
    finally:
        _set(x, home)


def refused() -> SharedMemoryError:
    return SharedMemoryError(
        "a list, dict or object that is in a list whose length depends on data is changed, where a second list or name may hold it too: the "
        "graph would change one of them only. Change a copy (`list(xs)`), or make the change before the append.",
        user_location(),
    )


def refuse() -> None:
    raise refused()


# ---- marks of branches

Marks = list[tuple[Any, Any]]
_logs: list[Marks] = []


def mark(x: Any, home: Home) -> None:
    if _logs:
        _logs[-1].append((x, home_of(x)))
    _set(x, home)


@contextmanager
def apart() -> Iterator[Marks]:
    """What one of several branches gives a place to: it is undone at the end, so that the other branches may change it."""
    made: Marks = []
    _logs.append(made)
    try:
        yield made
    finally:
        _logs.pop()
        for x, before in reversed(made):
            _set(x, before)


def together(*branches: Marks) -> None:
    """After the branches: what one of them put into a list may be there."""
    for x, _ in (m for made in branches for m in made):
        mark(x, Home(NOWHERE, None, ()))


def is_listed(x: Any, marks: Marks) -> bool:
    """Whether ``x`` is in a list of the graph; ``marks``: of the branch that it comes from."""
    return can_change(x) and (home_of(x) is not None or any(m[0] is x for m in marks))
