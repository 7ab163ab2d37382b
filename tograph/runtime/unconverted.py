"""What code that is not converted changes while a staged branch or loop is traced.

Functions of the standard library and of C write into the containers that they are given, and tell nobody. So the contents of
these are looked at before and after the call; a change is recorded in the journal like one that converted code makes: it is
undone where the branch ends, and becomes state. numpy arrays, buffers and random generators of Python cannot be state: they are put back,
and where branches leave them different that is an error.
"""

from __future__ import annotations

import array
import collections
import io
import queue
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ..errors import StagingError
from . import journal
from .funcgraph import user_location
from .journal import MISSING, Location
from .structure import is_union

LIMIT = 200  # containers that are looked at in one call
_CONTAINERS = (list, dict, set, collections.deque, bytearray)
_HOLDERS = (collections.UserList, collections.UserDict, collections.ChainMap, queue.Queue)
_Contents = tuple[Callable[[Any], Any], Callable[[Any, Any], None]]


def _put_text(x: Any, content: Any) -> None:
    x.seek(0)
    x.truncate()
    x.write(content[0])
    x.seek(content[1])


def _put_array(x: Any, content: bytes) -> None:
    del x[:]
    x.frombytes(content)


def _put_numbers(x: np.ndarray, content: bytes) -> None:
    x[...] = np.frombuffer(content, x.dtype).reshape(x.shape)


_STATES: dict[type, _Contents] = {
    np.ndarray: (np.ndarray.tobytes, _put_numbers),
    array.array: (array.array.tobytes, _put_array),
    io.StringIO: (lambda x: (x.getvalue(), x.tell()), _put_text),
    io.BytesIO: (lambda x: (x.getvalue(), x.tell()), _put_text),
    random.Random: (random.Random.getstate, random.Random.setstate),
    np.random.RandomState: (lambda x: x.get_state(legacy=False), lambda x, s: x.set_state(s)),
    np.random.Generator: (lambda x: x.bit_generator.state, lambda x, s: setattr(x.bit_generator, "state", s)),
}  # fmt: skip


def check_keys(x: Any) -> None:
    """StagingError for a dict, or what holds one, whose keys depend on a staged condition, where all of them are needed."""
    if isinstance(x, _HOLDERS):
        held = vars(x)
        for items in held.get("maps", held.values()):
            check_keys(items)
    elif isinstance(x, dict) and any(map(_may_miss, dict.values(x))):
        raise StagingError(
            "the keys of this dict depend on a staged condition, so they cannot be listed here: set the key on every path, or ask for "
            "single keys with `in`, get() or []",
            user_location(),
        )


def _may_miss(x: Any) -> bool:
    return is_union(x) and any(o is MISSING for o in x.options_)


class Held:
    """The content of an object that cannot be state, compared as text."""

    def __init__(self, content: Any):
        self.content, self.text = content, repr(content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def _opaque(x: Any) -> Location | None:
    """The location of what an object holds that is no container."""
    found = _STATES.get(type(x))
    if found is None or (isinstance(x, np.ndarray) and x.dtype.hasobject):
        return None
    get, put = found

    def set(value: Any) -> None:
        if not isinstance(value, Held):
            raise StagingError(
                f"a {type(x).__name__} is changed in a staged branch or loop by code that runs while tracing, and what it holds "
                "afterwards depends on a staged condition. Use tensors or lists, or change it outside.",
                user_location(),
            )
        if value != Held(get(x)):
            put(x, value.content)

    return Location(("contents", id(x)), f"a {type(x).__name__}", lambda: Held(get(x)), set, x)


def _locations(roots: Sequence[Any]) -> Iterator[Location]:
    """Where the arguments of a call can be changed: containers, those in them, and objects that only hold something."""
    todo, seen = list(roots), set[int]()
    while todo and len(seen) < LIMIT:
        x = todo.pop()
        if isinstance(x, (torch.Tensor, torch.nn.Module)) or id(x) in seen:
            continue
        if isinstance(x, tuple):
            todo += x
        elif isinstance(x, _CONTAINERS):
            if getattr(x, "handle", None) is None:
                seen.add(id(x))
                yield journal.contents(x)
                todo += x.values() if isinstance(x, dict) else x if len(x) < LIMIT and not isinstance(x, bytearray) else ()  # fmt: skip
        elif isinstance(x, _HOLDERS):
            seen.add(id(x))
            todo += vars(x).values()
        elif (place := _opaque(x)) is not None:
            seen.add(id(x))
            yield place


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, (Held, bytearray)):
        return bool(a == b)
    if isinstance(a, dict):
        a, b = [y for pair in a.items() for y in pair], [y for pair in b.items() for y in pair]
    if isinstance(a, set):
        return a == b
    return len(a) == len(b) and all(map(lambda x, y: x is y, a, b))


def run(function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """``function(*args, **kwargs)`` of code that is not converted, its changes recorded inside of a staged region."""
    if not journal.active():
        return function(*args, **kwargs)
    roots = (*args, *kwargs.values(), getattr(function, "__self__", None))
    if all(x is None or isinstance(x, (torch.Tensor, int, float, str)) for x in roots):
        return function(*args, **kwargs)
    for x in roots:
        check_keys(x)
    if journal.depth() < 2:
        return function(*args, **kwargs)
    before = [(place, place.get()) for place in _locations(roots)]
    try:
        return function(*args, **kwargs)
    finally:
        for place, old in before:
            new = place.get()
            if not _same(old, new):
                place._set(old)
                _make(place, old, new)


def _make(place: Location, old: Any, new: Any) -> None:
    """Make a change again, as converted code would."""
    if isinstance(old, dict) and list(new)[: len(old)] == list(old):
        for key, x in new.items():
            if key not in old or old[key] is not x:
                journal.key_of(place.keep, key, f"item {key!r}").set(x)
        return
    journal.record(place)
    place._set(new)
