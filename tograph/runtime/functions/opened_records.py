"""Objects that are made for each call: a function that is given a new one of a class each time takes such an object as what it holds.

An object of a user's class is a constant of a trace, which is for that object alone: so a module, an optimiser or an environment is used. A state
or a configuration that is made for each call would be traced each time. Where a call brings another object of a class in the place of one that was
traced and does not exist any more, or of some that do, the function takes objects of that class, and of the classes of what they hold, apart (``arguments``): their tensors are arguments, their numbers and texts
are part of the key, the trace sees a copy, and what it changes of that happens to the caller's object.

Invariant: whether an object is taken apart cannot be told from what the function does. Where a trace shows that it could (``CallEffects``), or
fails where one with the objects themselves does not, they are constants as before, for good. A call whose own code raises is traced with the objects
themselves, too, and changes nothing for later ones.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..values.pytrees import attributes, is_record_class, parts_of
from .methods import can_be_weak

MOST = 500  # leaves of an object that is looked at in each call
LIVING = 3  # objects of a class, each with traces of its own, before they are taken for ones that are made for a call


class Unopened(Exception):
    """A trace of objects that are taken apart has failed: those of the call are constants."""


class OpenedRecords:
    """Those of one function. ``classes``: whose objects are taken apart."""

    def __init__(self) -> None:
        self.classes: frozenset[type] = frozenset()
        self._refused = False
        self._known: dict[tuple[int, type], list[Callable[[], Any]]] = {}

    def learn(self, objects: Sequence[Any]) -> bool:
        """Whether there are more classes from now on. ``objects``: those of a call that no trace fits, which are constants so far."""
        if self._refused:
            return False
        new: set[type] = set()
        for i, x in enumerate(objects):
            if not _may_be_opened(type(x)):
                continue
            known = self._known.setdefault((i, type(x)), [])
            before = [held() for held in known]
            if any(y is x for y in before):
                continue
            known[:] = [*known[-LIVING:], _held(x)]
            if any(y is None for y in before) or len(known) > LIVING:
                new |= _classes_in(x) or set()
        known_classes, self.classes = self.classes, self.classes | new
        return self.classes != known_classes

    def refuse(self) -> None:
        """A trace of objects that were taken apart was none."""
        self.classes, self._refused = frozenset(), True


def _may_be_opened(cls: type) -> bool:
    return cls is functools.partial or is_record_class(cls)


def _held(x: Any) -> Callable[[], Any]:
    """What tells whether an object is ``x``; one that has no weak references is another one each time."""
    return weakref.ref(x) if can_be_weak(x) else lambda: None


def _classes_in(x: Any) -> set[type] | None:
    """The classes of the records in an object; None where it is large, holds itself, or arrays, which would be tensors."""
    found: set[type] = set()
    around: set[int] = set()
    left = MOST

    def enter(y: Any) -> bool:
        nonlocal left
        left -= 1
        if _may_be_opened(type(y)):
            found.add(type(y))
        parts = _items(y)
        if left < 0 or id(y) in around or isinstance(y, (np.ndarray, np.generic)):
            return False
        around.add(id(y))
        fits = all(map(enter, parts))
        around.discard(id(y))
        return fits

    return found if enter(x) else None


def _items(y: Any) -> list[Any]:
    if type(y) is functools.partial:
        return [y.func, *y.args, *y.keywords.values()]
    if is_record_class(type(y)):
        return attributes(y)[1]
    if type(y) not in (list, tuple, dict) and not hasattr(type(y), "_fields"):
        return []
    return (parts_of(y) or (None, []))[1]
