"""What code that is not converted changes while a staged branch or loop is traced.

Functions of the standard library and of C write into the containers and objects that they are given, and tell nobody. So the contents of
these are looked at before and after the call; a change is recorded in the journal like one that converted code makes: it is
undone where the branch ends, and becomes state. What holds no Python objects cannot be state (``opaque``): it is put back,
and where branches leave it different that is an error. Outside of branches and loops a change acts while tracing; it is undone only where
tracing begins again, which makes it again (``undo``).
"""

from __future__ import annotations

import collections
import enum
import functools
import queue
import threading
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from ...errors import StagingError
from ..recording import opaque
from ..recording.opaque import Held
from ..symbols import journal
from ..symbols.funcgraph import user_location
from ..symbols.journal import MISSING, Location
from ..values import conditional_items, locations
from ..values.code_names import writes
from ..values.dict_views import VIEWS
from ..values.reach import is_library, named
from ..values.structure import holds_missing, is_growing
from . import reads

LIMIT = 200  # containers that are looked at in one call
_CONTAINERS = (list, dict, set, collections.deque, bytearray)
_VIEWS = tuple(VIEWS)
_HOLDERS = (collections.UserList, collections.UserDict, collections.ChainMap, queue.Queue)
_ATOMS = frozenset(
    [
        int,
        float,
        bool,
        complex,
        str,
        bytes,
        type(None),
        torch.dtype,
        torch.device,
        torch.Size,
        slice,
    ]
)
# Methods and functions that only look, also at what shows nothing of itself.
_LOOKS = frozenset(
    [
        "__len__",
        "__repr__",
        "__str__",
        "empty",
        "fileno",
        "full",
        "is_alive",
        "isatty",
        "len",
        "locked",
        "qsize",
        "repr",
    ]
)


def check_keys(x: Any) -> None:
    """StagingError for a dict, or what holds one, whose keys depend on a staged condition, where all of them are needed."""
    if isinstance(x, _HOLDERS) or (_has_fields(x) and not isinstance(x, dict)):
        held = vars(x)
        for items in held.get("maps", held.values()):
            if isinstance(items, (dict, *_HOLDERS)):
                check_keys(items)
    elif type(x) is set and conditional_items.conditional(x):
        raise StagingError(
            "the items of this set depend on a staged condition, so they cannot be listed here: ask for single items with `in`, or go over them "
            "with `for`",
            user_location(),
        )
    elif issubclass(type(x), dict) and (
        conditional_items.is_unordered(x) or holds_missing(dict.values(x))
    ):
        raise StagingError(
            "the keys of this dict depend on a staged condition, so they cannot be listed here: set the key on every path, or ask for "
            "single keys with `in`, get() or []",
            user_location(),
        )


def _fields(x: Any) -> Location:
    """All attributes of an object of a Python class."""
    held = vars(x)

    def put(content: Any) -> None:
        held.clear()
        held.update(content)

    return Location(("fields", id(x)), f"a {type(x).__name__}", lambda: dict(held), put, x)


def _locations(roots: Sequence[Any], of_c: bool = True) -> Iterator[Location]:
    """Where the arguments of a call can be changed: containers, those in them, and objects that only hold something; ``of_c``: also objects of C."""
    todo, seen = list(roots), set[int]()
    while todo and len(seen) < LIMIT:
        x = todo.pop()
        if type(x) in _ATOMS or isinstance(x, torch.Tensor) or id(x) in seen:
            continue
        if isinstance(x, torch.nn.Module):
            seen.add(id(x))
            yield _fields(x)
            todo += [v for n, v in vars(x).items() if not n.startswith("_")]
            continue
        if type(x) is tuple or isinstance(x, _VIEWS):
            todo += x
            continue
        if isinstance(x, (types.FunctionType, types.MethodType)):
            seen.add(id(x))
            yield from _variables(x)
            todo += named(x)
            continue
        todo += (x.func, x.args, x.keywords) if isinstance(x, functools.partial) else ()
        if isinstance(x, _CONTAINERS):
            if not is_growing(x):
                seen.add(id(x))
                yield locations.contents(x)
                todo.extend(_items(x))
        elif of_c and (place := opaque.place(x)) is not None:
            seen.add(id(x))
            yield place
        if _has_fields(x):
            seen.add(id(x))
            yield _fields(x)
            todo += vars(x).values()


def _items(x: Any) -> Iterable[Any]:
    """The items of a container that is not too long, without a call of what a user's class has for this."""
    if isinstance(x, dict):
        return dict.values(x)
    kind = locations.kind_in_c(x)
    return () if kind is bytearray or kind.__len__(x) >= LIMIT else kind.__iter__(x)


def _variables(f: Any) -> Iterator[Location]:
    """The variables outside of a function that it assigns."""
    if isinstance(f, types.MethodType) or is_library(f.__globals__.get("__name__", "")):
        return
    cells, names = writes(f.__code__)
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
        if name in cells:
            yield locations.cell(cell, name)
    for name in names:
        yield locations.key_of(f.__globals__, name, name)


def _has_fields(x: Any) -> bool:
    """Whether the attributes of an object are looked at: one of a Python class, which is not the graph's own."""
    if not hasattr(x, "__dict__") or isinstance(x, (*opaque.FIXED, enum.Enum)):
        return False
    return type(x).__module__.partition(".")[0] not in ("torch", "tograph")


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (Held, bytearray)):
        return bool(a == b)
    if isinstance(a, dict):
        a, b = [y for pair in a.items() for y in pair], [y for pair in b.items() for y in pair]
    if isinstance(a, set):
        return a == b
    if not isinstance(a, (list, collections.deque)):
        return False
    return len(a) == len(b) and all(map(lambda x, y: x is y, a, b))


class _Foreign(threading.local):
    count = 0


_foreign = _Foreign()
# Modules whose functions do the same whenever they are called, or are recorded.
_KNOWN = frozenset(["torch", "tograph", "builtins", "math", "cmath", "operator", "_operator", "itertools", "functools", "_functools", "collections", "_collections", "copy",
    "dataclasses", "enum", "typing", "abc", "contextlib", "types", "inspect", "warnings"])  # fmt: skip


def foreign_calls() -> int:
    """How often code was called so far that may have effects of its own, or tell of the world."""
    return _foreign.count


def _is_foreign(function: Any) -> bool:
    module = getattr(function, "__module__", None) or type(getattr(function, "__self__", None)).__module__  # fmt: skip
    return module.partition(".")[0] not in _KNOWN


def run(function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """``function(*args, **kwargs)`` of code that is not converted, its changes recorded inside of a staged region."""
    if _is_foreign(function):
        _foreign.count += 1
    if not journal.active():
        return function(*args, **kwargs)
    roots = (*args, *kwargs.values(), getattr(function, "__self__", None))
    watched = (*roots, function) if _holds(function) else roots
    if all(type(x) in _ATOMS or isinstance(x, torch.Tensor) for x in watched):
        return function(*args, **kwargs)
    for x in roots:
        check_keys(x)
    if journal.depth() < 2:
        return _noted(function, args, kwargs, watched)
    if getattr(function, "__name__", "") not in _LOOKS:
        _check_blind(roots)
    return _watched(function, args, kwargs, watched)


def _holds(function: Any) -> bool:
    """Whether something that is called may change what it holds itself: the variables around it, or its attributes."""
    if type(function) is types.FunctionType:
        return not is_library(function.__module__)
    return not isinstance(function, opaque.FIXED) and _has_fields(function)


def _check_blind(roots: tuple) -> None:
    for x in roots:
        if opaque.blind(x):
            journal.lasts(opaque.refusal(x, "and it does not show what it holds"))


def _watched(function: Any, args: tuple, kwargs: dict[str, Any], roots: tuple) -> Any:
    before = [(place, place.get()) for place in _locations(roots)]
    try:
        return function(*args, **kwargs)
    finally:
        for place, old, new in _changes(before):
            place._set(old)
            _make(place, old, new)


def _changes(before: Sequence[tuple[Location, Any]]) -> Iterator[tuple[Location, Any, Any]]:
    """The places that hold something else than before, each with both."""
    for place, old in before:
        new = place.get()
        if not _same(old, new):
            yield place, old, new


def _noted(function: Any, args: tuple, kwargs: dict[str, Any], roots: tuple) -> Any:
    """The call, outside of staged branches and loops: what it changes is noted for ``undo``. Objects of C are not looked at."""
    watch = reads.current()
    if watch is None:
        return function(*args, **kwargs)
    before = [(place, place.get()) for place in _locations(roots, of_c=False)]
    try:
        return function(*args, **kwargs)
    finally:
        for place, old, new in _changes(before):
            for part, held in _parts(place, old, new):
                # What converted code has written goes back to what it was before that.
                if journal.written(part.key):
                    journal.record(part)
                else:
                    watch.acts.append((part, held))


def _parts(place: Location, old: Any, new: Any) -> list[tuple[Location, Any]]:
    """A change as locations of the kinds that converted code records, with what they held before."""
    if place.key[0] == "fields":
        names = [n for n in {**old, **new} if old.get(n, MISSING) is not new.get(n, MISSING)]
        return [(locations.attribute(place.keep, n), old.get(n, MISSING)) for n in names]
    if isinstance(old, dict) and not journal.written(place.key):
        keys = [k for k in {**old, **new} if old.get(k, MISSING) is not new.get(k, MISSING)]
        return [(locations.key_of(place.keep, k, f"item {k!r}"), old.get(k, MISSING)) for k in keys]
    return [(place, old)]


def undo(acts: list[tuple[Location, Any]]) -> None:
    """Tracing begins again: put back what code that is not converted has changed in it."""
    while acts:
        place, old = acts.pop()
        place._set(old)


def _make(place: Location, old: Any, new: Any) -> None:
    """Make a change again, as converted code would."""
    if place.key[0] == "fields":
        for name in [*new, *(n for n in old if n not in new)]:
            if name not in old or name not in new or old[name] is not new[name]:
                locations.attribute(place.keep, name).set(new.get(name, MISSING))
        return
    if isinstance(old, dict) and list(new)[: len(old)] == list(old):
        for key, x in new.items():
            if key not in old or old[key] is not x:
                locations.key_of(place.keep, key, f"item {key!r}").set(x)
        return
    journal.record_from(place, old)
    place._set(new)
