"""Lists in lists of the graph: Python's outer list holds the inner one itself, that of the graph has its items.

A list that is appended to a list of the graph, or read from one, has a ``Home`` there: each change of it is written to that place, and other
names for items of the same list are read again. Where a change cannot be followed so, it is an error: of a list whose place was lost
(the outer list was sorted, or a staged construct has ended since), and where items that change are also held by a second list
or by what a staged construct made of them (``copied``). Dicts and objects in such a list may not change at all.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...errors import SharedMemoryError, StructureError
from ..inference.shapes import SYMBOLS
from ..symbols import journal
from ..symbols.funcgraph import FuncGraph, current_graph, is_tracing, user_location
from . import locations, pytrees
from .flattening import flatten
from .joins import join
from .reach import reachable, user_variables
from .records import Columns, element_of, fitted, item_of, named
from .structure import STAGED, Choice, Leaf, Spec, Tree, leaf_types, spec_of

Path = tuple[int, ...]


class Home:
    """The place of an inner list: item ``at`` of ``parent``, and the ``path`` to it in that item; None for one that was taken out."""

    __tograph_opaque__ = True  # what it holds is no state of the user's

    def __init__(self, parent: Any, at: Any, path: Path):
        self.parent, self.at, self.path = parent, at, path
        self.moves = 0 if parent is None else parent.moves
        self.graph: FuncGraph = current_graph()
        self.index: Any = (
            None  # by which it was read, and what the parent held then or after the last change
        )
        self.columns: Any = None

    @property
    def known(self) -> bool:
        """Whether the place is that of the list still."""
        here = current_graph().within(self.graph)
        return self.parent is None or (here and self.parent.moves == self.moves)

    def write(self, x: Any) -> None:
        """The list has changed: so has the item."""
        parent = self.parent
        if parent is None:
            return
        journal.record(locations.contents(parent))
        have = parent.item_spec
        part = joined(_part(have, self.path), x)
        want = _replaced(have, self.path, part)
        first, count = _columns(want, self.path)

        def put() -> None:
            if not isinstance(want, Leaf) and parent.record != Columns(want):
                parent._hold(fitted(parent.columns, have, want), Columns(want))
            values = flatten(x, part, current_graph())
            parent.put_part(self.at, first, values[:count])
            self.columns = parent.columns

        if parent.home is None:
            put()
        else:
            changed(parent, put)
        _read_again(parent, x)


class Live:
    """Weak references to the items that have their place in a list."""

    __tograph_opaque__ = True

    def __init__(self) -> None:
        self.refs: list[Any] = []

    def add(self, x: Any) -> None:
        self.refs = [r for r in self.refs if r() is not None]
        self.refs.append(weakref.ref(x))

    def items(self) -> list[Any]:
        return [x for r in self.refs if (x := r()) is not None]


def joined(have: Spec, x: Any) -> Spec:
    """What covers the items that a place has held and a list that is there now."""
    given = item_of(spec_of(x))
    found = None if given is None else item_of(join(have, given))
    if found is None or isinstance(found, Choice):
        raise StructureError(
            f"a list of {named(have)} in a staged loop or branch cannot take a {named(given)}",
            user_location(),
        )
    return found


def _part(spec: Spec, path: Path) -> Any:
    for i in path:
        spec = spec.parts[i]
    return spec


def _replaced(spec: Any, path: Path, part: Spec) -> Spec:
    if not path:
        return part
    parts = list(spec.parts)
    parts[path[0]] = _replaced(parts[path[0]], path[1:], part)
    return Tree(spec.cls, spec.aux, tuple(parts))


def _columns(spec: Any, path: Path) -> tuple[int, int]:
    """The first column of a part of an item, and how many it has."""
    first = 0
    for i in path:
        first += sum(len(leaf_types(p)) for p in spec.parts[:i])
        spec = spec.parts[i]
    return first, len(leaf_types(spec))


def _read_again(parent: Any, x: Any) -> None:
    """Other names for items of a list show what was written to one of them."""
    others = [
        o
        for o in parent.live.items()
        if o is not x and o.home is not None and o.home.parent is parent
    ]
    seen = reachable(user_variables(), others) if others else ()
    for other in others:
        if id(other) not in seen and journal.written(("contents", id(other))):
            continue  # the journal alone holds it
        if not other.home.known or (other.live is not None and other.live.items()):
            raise refused()
        journal.record(locations.contents(other))
        found = _at(parent.item(other.home.at, homes=False), other.home.path)
        home, other.home = other.home, None
        other.become(found)
        other.home = home


def _at(x: Any, path: Path) -> Any:
    for i in path:
        x = pytrees.parts_of(x)[1][i]
    return x


# ---- which lists have a place


def held(x: Any, spec: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The lists, dicts and objects in an item that can change, outermost first."""
    if not isinstance(spec, Tree) or isinstance(x, STAGED.texts):
        return
    if isinstance(x, STAGED.lists):
        if not x.frozen:
            yield path, x
        if x.handle is not None:
            return
    elif isinstance(x, dict) or pytrees.has_identity(x):
        yield path, x
    found = pytrees.parts_of(x)
    parts = found[1] if found is not None and len(found[1]) == len(spec.parts) else ()
    for i, (part, inner) in enumerate(zip(parts, spec.parts)):
        yield from held(part, inner, (*path, i))


def settle(x: Any, spec: Any, parent: Any, at: Any) -> Any:
    """``x`` is an item of ``parent``: the lists in it have their place there. ``at`` None: which one is not known."""
    if not is_tracing() or not current_graph().root.nested:
        return x
    for path, part in held(x, spec):
        if not isinstance(part, STAGED.lists):
            journal.guard(part, _refuse)
            continue
        place = Home(parent, at, path) if at is not None else Home(NOWHERE, parent.token, path)
        if part.home is not None and part.home.parent is not None:
            if at is None and part.home.at is place.at:
                continue
            copied()  # it has a place in another list too
        mark(part, place)
        if at is None:
            current_graph().root.placed.append(weakref.ref(part))
        else:
            parent.live = parent.live or Live()
            parent.live.add(part)
    return x


def settle_read(x: Any, spec: Any, parent: Any, index: Any) -> Any:
    """``x`` was read from ``parent``."""
    if not is_tracing() or not current_graph().root.nested or not _changes(spec):
        return x
    found = settle(x, spec, parent, None if parent is NOWHERE else position(parent, index))
    home = getattr(found, "home", None)
    if home is not None:
        home.index, home.columns = index, getattr(parent, "columns", None)
    return found


def is_there(x: Any, parent: Any, index: Any) -> bool:
    """Whether ``x`` is the item that ``parent[index]`` gave: ``xs[i] += ys`` changes it, and puts it back."""
    home = getattr(x, "home", None)
    if home is None or home.parent is not parent or not home.known:
        return False
    same = home.index is index or (type(index) is int and home.index == index)
    return same and home.columns is parent.columns


def settle_pushed(x: Any, parent: Any) -> None:
    """``x`` is about to be appended to ``parent``."""
    if current_graph().root.nested and _changes(parent.item_spec):
        settle(x, parent.item_spec, parent, parent.length())


def let_go(x: Any, spec: Any) -> Any:
    """``x`` was taken out of a list."""
    if is_tracing() and current_graph().root.nested:
        for _, part in held(x, spec):
            if isinstance(part, STAGED.lists):
                mark(part, Home(None, None, ()))
            else:
                journal.guard(part, _refuse)
    return x


class _Nowhere:
    """The parent of a list whose place in another one is not known."""

    moves = -1
    home = None
    token = object()


NOWHERE: Any = _Nowhere()


def position(parent: Any, index: Any) -> Any:
    """An index as one that stays when the list grows."""
    if not current_graph().root.nested:
        return index
    if isinstance(index, int):
        return index if index >= 0 else parent.length() + index
    return index + parent.length() * (index < 0) if isinstance(index, SYMBOLS) else None


def following(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that changes a list, with the change written to its place in another one."""

    @functools.wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.home is None:
            return method(self, *args, **kwargs)
        return changed(self, lambda: method(self, *args, **kwargs))

    return run


def changed(x: Any, change: Callable[[], Any]) -> Any:
    """Make a change of a list that has a place in another one, and write it there."""
    home = x.home
    if not home.known or home.parent is NOWHERE:
        raise refused()
    root = current_graph().root
    root.items_written += [None, *loops()]
    if root.items_copied:
        raise refused()
    x.home = None
    try:
        result = change()
    finally:
        x.home = home
    home.write(x)
    check_names()
    return result


def check_names() -> None:
    """An error where items of lists change, and a variable holds the list that one was made of: it does not change with the item."""
    root = current_graph().root
    if not (root.nested and root.items_written and root.placed):
        return
    root.placed = [r for r in root.placed if r() is not None]
    wanted = [x for r in root.placed if (x := r()) is not None]
    seen = reachable(user_variables(), wanted) if wanted else ()
    if any(id(x) in seen for x in wanted):
        raise refused()


def copied() -> None:
    """A second list holds the items of one of the graph: from here on they do not change."""
    root = current_graph().root
    root.items_copied = True
    if any(loop in root.items_written for loop in loops()):
        raise refused()  # the next iteration comes to the change again


def held_twice() -> None:
    """A staged construct leaves one list in two places, and makes both anew."""
    if current_graph().root.nested:
        copied()


def copies(x: Any) -> Any:
    """``x``, a list with the items of another one."""
    x.token_ = None
    if (
        is_tracing()
        and current_graph().root.nested
        and x.handle is not None
        and _changes(x.item_spec)
    ):
        copied()
    return x


def _changes(spec: Any) -> bool:
    """Whether something in items of a kind can change."""
    if not isinstance(spec, Tree):
        return False
    if issubclass(spec.cls, STAGED.lists):
        return not getattr(spec.cls, "frozen", False) or _changes(element_of(spec))
    return not issubclass(spec.cls, tuple) or any(map(_changes, spec.parts))


def loops() -> Iterator[FuncGraph]:
    """The bodies of the staged loops around."""
    graph: FuncGraph | None = current_graph()
    while graph is not None:
        if graph.repeats:
            yield graph
        graph = graph.outer


def refused() -> SharedMemoryError:
    return SharedMemoryError(
        "a list, dict or object that is in a list whose length depends on data is changed, where a second list or name may hold it too: the "
        "graph would change one of them only. Change a copy (`list(xs)`), or make the change before the append.",
        user_location(),
    )


def _refuse() -> None:
    raise refused()


# ---- marks of branches

Marks = list[tuple[Any, Any]]
_logs: list[Marks] = []


def mark(x: Any, home: Home) -> None:
    if _logs:
        _logs[-1].append((x, x.home))
    x.home = home


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
            x.home = before


def together(*branches: Marks) -> None:
    """After the branches: what one of them put into a list may be there."""
    for x, _ in (m for made in branches for m in made):
        mark(x, Home(NOWHERE, None, ()))


def check_iterations(changed_: Sequence[Any], marks: Marks) -> None:
    """An error where an iteration puts a list into another one and the next may change it. ``changed_``: what an iteration changes."""
    if any(is_listed(x, marks) and any(m[0] is x for m in marks) for x in changed_):
        raise refused()


def is_listed(x: Any, marks: Marks = ()) -> bool:
    """Whether a list is in one of the graph; ``marks``: of the branch that it comes from."""
    if not isinstance(x, STAGED.lists):
        return False
    return x.home is not None or any(m[0] is x for m in marks)
