"""Lists, dicts and objects in lists of the graph: Python's list holds the item itself, that of the graph has its parts.

An item that is appended to a list of the graph, or read from one, has a ``Home`` there (``homes``): each change of it is written to that place,
and other names for items of the same list are read again. Where a change cannot be followed so, it is an error: of an item whose place was lost
(the outer list was sorted, or a staged construct has ended since), and where items that change are also held by a second list
or by what a staged construct made of them (``copied``).
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...errors import StructureError
from ..inference.shapes import SYMBOLS
from ..symbols import journal
from ..symbols.funcgraph import FuncGraph, current_graph, is_tracing, user_location
from . import locations, pytrees
from .homes import (
    NOWHERE,
    Home,
    Live,
    Marks,
    Path,
    apart,
    away,
    can_change,
    held,
    home_of,
    is_listed,
    mark,
    refused,
    together,
)
from .joins import join
from .listed import item_values
from .reach import reachable, user_variables
from .records import Columns, element_of, fitted, is_frozen, item_of, named
from .structure import STAGED, Leaf, Spec, Tree, leaf_types, spec_of

__all__ = ["apart", "is_listed", "together"]


def _write(x: Any, home: Home) -> None:
    """``x`` has changed: so has the item at its place."""
    parent = home.parent
    if parent is None:
        return
    journal.record(locations.contents(parent))
    have = parent.item_spec
    part = joined(_part(have, home.path), x)
    want = _replaced(have, home.path, part)
    first, count = _columns(want, home.path)

    def put() -> None:
        if not isinstance(want, Leaf) and parent.record != Columns(want):
            parent._hold(fitted(parent.columns, have, want), Columns(want))
        values = item_values(x, part, current_graph())
        parent.put_part(home.at, first, values[:count])
        home.columns = parent.columns

    if parent.home is None:
        put()
    else:
        changed(parent, put)
    _settle_parts(x, part, home)
    _read_again(parent, x)


def _settle_parts(x: Any, spec: Spec, home: Home) -> None:
    """What has come into ``x``, an item, has its place there."""
    for path, part in held(x, spec):
        if part is x:
            continue
        there = home_of(part)
        whole = (*home.path, *path)
        if there is not None and there.parent is not None:
            if there.parent is home.parent and there.at is home.at and there.path == whole:
                continue
            copied()
        _place(part, home.parent, home.at, whole)


def joined(have: Spec, x: Any) -> Spec:
    """What covers the items that a place has held and a list that is there now."""
    given = item_of(spec_of(x))
    found = None if given is None else item_of(join(have, given))
    if found is None:
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
    others = [o for o in parent.live.items() if o is not x and _is_in(home_of(o), parent)]
    seen = reachable(user_variables(), others) if others else ()
    for other in others:
        home = home_of(other)
        assert home is not None
        if not home.known or (getattr(other, "live", None) is not None and other.live.items()):
            if id(other) not in seen and not parent.live.by_a_line(other):
                continue  # nothing of the user's holds it
            raise refused()
        with away(other):
            _refresh(other, _at(parent.item(home.at, homes=False), home.path), x)
        _settle_parts(other, _part(parent.item_spec, home.path), home)


def _is_in(home: Home | None, parent: Any) -> bool:
    return home is not None and home.parent is parent


def _refresh(old: Any, new: Any, kept: Any) -> Any:
    """Let ``old`` hold what ``new`` does, which was read from its place: what is in it and can change stays the same object. ``kept`` is up to date."""
    if old is kept:
        return old
    parts, fresh = pytrees.parts_of(old), pytrees.parts_of(new)
    if type(old) is not type(new) or parts is None or fresh is None:
        return new
    if isinstance(old, STAGED.lists) and not old.frozen:
        journal.record(locations.contents(old))
        if old.handle is not None or new.handle is not None or len(parts[1]) != len(fresh[1]):
            old.become(new)
        else:
            list.__setitem__(old, slice(None), [_refresh(a, b, kept) for a, b in zip(parts[1], fresh[1])])  # fmt: skip
    elif parts[0] != fresh[0] or not can_change(old):
        made = [_refresh(a, b, kept) for a, b in zip(parts[1], fresh[1])]
        return new if parts[0] != fresh[0] else pytrees.rebuild(type(old), parts[0], made)
    elif type(parts[0]) is pytrees.Held:
        raise refused()
    else:
        names = parts[0][0] if isinstance(old, dict) else parts[0]
        for name, a, b in zip(names, parts[1], fresh[1]):
            locate = locations.key_of if isinstance(old, dict) else _attribute
            locate(old, name, str(name)).set(_refresh(a, b, kept))
    return old


def _attribute(owner: Any, name: str, _: str) -> Any:
    return locations.attribute(owner, name)


def _at(x: Any, path: Path) -> Any:
    for i in path:
        x = pytrees.parts_of(x)[1][i]
    return x


# ---- which lists have a place


def settle(x: Any, spec: Any, parent: Any, at: Any) -> Any:
    """``x`` is an item of ``parent``: what can change in it has its place there. ``at`` None: which one is not known."""
    if not is_tracing() or not current_graph().root.nested:
        return x
    for path, part in held(x, spec):
        there = home_of(part)
        if there is not None and there.parent is not None:
            if at is None and there.at is parent.token:
                continue
            copied()  # it has a place in another list too
        _place(part, parent, at, path)
    return x


def _place(part: Any, parent: Any, at: Any, path: Path) -> None:
    if at is None:
        mark(part, Home(NOWHERE, parent.token, path))
        if isinstance(part, STAGED.lists):
            current_graph().root.placed.append(weakref.ref(part))
    else:
        mark(part, Home(parent, at, path))
        parent.live = parent.live or Live()
        parent.live.add(part)


def settle_read(x: Any, spec: Any, parent: Any, index: Any) -> Any:
    """``x`` was read from ``parent``."""
    if not is_tracing() or not current_graph().root.nested or not _changes(spec):
        return x
    found = settle(x, spec, parent, None if parent is NOWHERE else position(parent, index))
    home = home_of(found)
    if home is not None:
        home.index, home.columns = index, getattr(parent, "columns", None)
    return found


def is_there(x: Any, parent: Any, index: Any) -> bool:
    """Whether ``x`` is the item that ``parent[index]`` gave: ``xs[i] += ys`` changes it, and puts it back."""
    home = home_of(x) if is_tracing() else None
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
            mark(part, Home(None, None, ()))
    return x


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


def changing(x: Any, change: Callable[[], Any]) -> Any:
    """Make a change of a dict or object, which may have a place in a list of the graph."""
    if isinstance(x, STAGED.lists) or not (is_tracing() and current_graph().root.homes):
        return change()
    if home_of(x) is None:
        return change()
    return changed(x, change)


def changed(x: Any, change: Callable[[], Any]) -> Any:
    """Make a change of what has a place in a list, and write it there."""
    home = home_of(x)
    assert home is not None
    if not home.known or home.parent is NOWHERE:
        raise refused()
    root = current_graph().root
    root.items_written += [None, *loops()]
    if root.items_copied:
        raise refused()
    with away(x):
        result = change()
    _write(x, home)
    check_names()
    return result


def stays(x: Any, owner: Any, contents: Sequence[Any]) -> None:
    """``x`` is what a join makes of the ``contents`` of ``owner``: where no region moved its items, they have the places that they had."""
    lists = isinstance(owner, STAGED.lists) and isinstance(x, STAGED.lists)
    if lists and all(_is_in_place(c, owner) for c in contents):
        x.token_, x.moves = owner.token, owner.moves


def _is_in_place(content: Any, owner: Any) -> bool:
    return (
        isinstance(content, STAGED.lists)
        and content.token_ is owner.token
        and content.moves == owner.moves
    )


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
    return not is_frozen(spec.cls) or any(map(_changes, spec.parts))


def loops() -> Iterator[FuncGraph]:
    """The bodies of the staged loops around."""
    graph: FuncGraph | None = current_graph()
    while graph is not None:
        if graph.repeats:
            yield graph
        graph = graph.outer


def check_iterations(changed_: Sequence[Any], marks: Marks) -> None:
    """An error where an iteration puts a list into another one and the next may change it. ``changed_``: what an iteration changes."""
    if any(is_listed(x, marks) and any(m[0] is x for m in marks) for x in changed_):
        raise refused()
