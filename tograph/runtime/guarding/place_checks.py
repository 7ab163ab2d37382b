"""Checks of places: what is found at a source now has to be found there again for a trace to be used.

A source is where a value comes from, in steps from an object that outlives the trace. A value is checked as far as can be told
without looking into it: its type for a container, identity for objects, equality for numbers and strings; ``whole`` looks into
containers. What the traced code wrote itself is no read from outside: ``pre_content`` is what was there before.
"""

from __future__ import annotations

import os
import types
from collections import defaultdict
from collections.abc import Container
from typing import Any

import numpy as np
import torch

from ...errors import StagingError
from ..inference.shapes import SYMBOLS
from ..symbols import journal
from ..symbols.funcgraph import user_location
from ..symbols.journal import MISSING
from ..symbols.retrace import Retrace
from ..symbols.symbolic import SymTensor
from ..values.locations import kind_in_c
from . import outer_lists, sources
from .guards import (
    ATOMS,
    CONTAINERS,
    MAPPINGS,
    SAME,
    SAME_ITEMS,
    SAME_TENSOR,
    Check,
    Guards,
    extends_container,
    held_items,
    is_container,
    is_named_tuple,
    remembered,
    show,
)
from .sources import Source, holder

_FIXED = (type, types.ModuleType, types.BuiltinFunctionType)  # compared by identity and kept
NUMBER = "{0} is {1} or same_atom({0}, {1})"  # the test of a number or string
_ENVIRONMENT = sources.global_(vars(os), "environ")
_UNROLLED = 64  # items of a container that are checked one by one


class PlaceChecks:
    """The sources of values that a trace has found, and the checks of them."""

    def __init__(self) -> None:
        self.sources: dict[int, tuple[Any, Source]] = {}
        self.steps: dict[Any, Source] = {}
        self.made_classes: dict[int, type] = {}  # by class statements of the trace
        self.checks: dict[Any, Check] = {}
        self._whole: set[tuple[int, int]] = (
            set()
        )  # containers, with their sources, all of which is checked
        self.given: Any = ()  # the tensors of the arguments, and which of them are captured
        self.real: frozenset[int] = frozenset()
        # what stands for tensors of the arguments, by ``id``: its place among them, their source
        self.placeholders: dict[int, tuple[Any, int, Source]] = {}
        self.stands: dict[int, Any] = {}  # dicts and sets that tables stand for
        self.opened: defaultdict[str, set[Any]] = defaultdict(
            set
        )  # by label, the places whose number is an input
        self.numbers: set[int] = set()  # the tensors that stand for these
        self.closed: Container[str] = ()  # labels of numbers that are no inputs

    def source_of(self, x: Any) -> Source | None:
        found = self.sources.get(id(x))
        return None if found is None else found[1]

    def owns(self, x: torch.Tensor) -> bool:
        """Whether a tensor was found in something that outlives the trace."""
        return id(x) in self.sources

    def step(self, parent: Source, kind: str, key: Any) -> Source:
        """The step from a source; one object for each, so that it is followed once."""
        at = (id(parent), kind, type(key), key if type(key) in (int, str, bool) else id(key))
        if at not in self.steps:
            self.steps[at] = parent.step(kind, key)
        return self.steps[at]

    def entry(self, source: Source, x: Any, key: Any) -> Source:
        """The step to what ``x`` at a source holds under a key."""
        own = isinstance(x, dict) and type(x).__getitem__ is not kind_in_c(x).__getitem__
        computes = own or (isinstance(x, dict) and hasattr(type(x), "__missing__"))
        return self.step(source, "entry" if computes else "item", key)

    written = staticmethod(journal.written)

    def check(self, source: Source, what: Any, test: str, old: Any = None, text: str = "") -> None:
        """A test of what is at a source, which holds now; ``what`` tells it from other tests there."""
        key = (id(source), what)
        if key not in self.checks:
            self.checks[key] = Check(source, test, old, text)

    def _is_open(self, source: Source) -> bool:
        return source.label in self.opened and source.place() in self.opened[source.label]

    def value(self, x: Any, source: Source) -> None:
        """What is at a source is ``x``, as far as that can be told without looking into it."""
        if isinstance(x, (SymTensor, *SYMBOLS)) or self._is_open(source):
            return
        self._found(x, source)
        text = show(x)
        if x is None or x is True or x is False:
            self.check(source, "value", f"{{0}} is {x}", None, text)
        elif isinstance(x, ATOMS):
            self.check(source, "value", NUMBER, x, text)
        elif isinstance(x, _FIXED):
            self.sources.setdefault(id(x), (x, source))
            self.check(source, "value", "{0} is {1}", x, text)
        elif type(x) in CONTAINERS or is_named_tuple(type(x)):
            self._container(x, source, text)
        elif isinstance(x, np.ndarray):
            self.sources.setdefault(id(x), (x, source))
            self.check(source, "value", "same_array({0}, {1})", x.copy(), text)
        elif isinstance(x, types.MethodType):
            self.check(source, "value", "{0} == {1}()", sources.Strong(x), text)
        else:
            self._object(x, source, text)

    def _container(self, x: Any, source: Source, text: str) -> None:
        """The container at a source is ``x``: what it holds is checked by the first way to it, so that it has to stay the same by others."""
        first = self.sources.setdefault(id(x), (x, source))[1]
        self.check(source, "value", "type({0}) is {1}", type(x), text)
        if first is not source:
            for at in (
                first,
                source,
            ):  # one container in two places: a change at one is seen at the other
                self.check(at, "same", SAME, holder(x), text)

    def told_apart(self, x: tuple) -> None:
        """Which tuple it is counts, not only what it holds."""
        source = self.source_of(x)
        if source is not None:
            self.check(source, "same", SAME, holder(x), show(x))

    def _object(self, x: Any, source: Source, text: str) -> None:
        """The object at a source is ``x``; of a bytearray also what it holds, since its items have no checks of their own."""
        first = self.sources.setdefault(id(x), (x, source))[1]
        same = SAME_TENSOR if isinstance(x, torch.Tensor) else SAME
        self.check(source, "value", same, holder(x), text)
        if type(x) is bytearray and first is source:
            self.check(source, "bytes", "bytes({0}) == {1}", bytes(x), text)

    def stood(self, x: Any, source: Source) -> None:
        """A table stands for a dict or set at a source: all of it counts."""
        self.sources[id(x)] = self.stands[id(x)] = x, source
        self.check(source, "value", "type({0}) is {1}", type(x), show(x))
        self.whole(x)

    def environment(self) -> None:
        """``os.environ`` or ``os.getenv`` was found: all variables of the system count."""
        kept: Any = os.environ  # of a class that keeps what it has in a dict
        at = self.step(_ENVIRONMENT, "attr", "_data")
        self.check(at, "value", "{0} == {1}", dict(kept._data), "the environment")

    def _found(self, x: Any, source: Source) -> None:
        """A tensor that was found outside and is an argument as well has to be captured; of the system's variables all count."""
        if id(x) in self.stands:
            raise in_two_places(self.stands[id(x)][1].label, source.label)
        if x is os.environ or x is os.getenv:
            self.environment()
        if isinstance(x, torch.Tensor) and self.given:
            found = frozenset(i for i, given in enumerate(self.given) if given is x) - self.real
            if found:
                raise Retrace(real=found)

    def whole_value(self, x: Any, source: Source) -> None:
        self.value(x, source)
        self.whole(x)

    def whole(self, x: Any, seen: frozenset[int] = frozenset(), now: Any = None) -> None:
        """All of a container was read, and of the containers in it; ``now`` is what it held before the call."""
        outer_lists.look(x, self, whole=True)
        source = self.source_of(x)
        if source is None or id(x) in seen:
            return
        at = (id(x), id(source))
        if now is None and at in self._whole:
            return  # what it held before the call does not change
        self._parts(x, source, seen, now)
        if now is None:
            self._whole.add(at)

    def _parts(self, x: Any, source: Source, seen: frozenset[int], now: Any) -> None:
        """The checks of what a container at a source holds."""
        if not is_container(x):
            if extends_container(x):
                held = remembered(held_items(pre_content(x)))
                self.check(source, "held", "same_held({0}, {1})", held, show(x))
            return
        seen = seen | {id(x)}
        now = pre_content(x) if now is None else now
        if isinstance(now, (set, frozenset)):
            self.check(source, "items", "{0} == {1}", set(now), show(x))
            return
        if isinstance(now, dict):
            self.check(source, "keys", SAME_ITEMS, list(now), show(x))
            entries: Any = [
                (
                    self.entry(source, x, k)
                    if type(k) in (str, int)
                    else self.step(source, "nth", i),
                    v,
                )
                for i, (k, v) in enumerate(now.items())
            ]
        else:
            self.check(source, "length", f"len({{0}}) == {len(now)}", None, show(x))
            entries = [(self.step(source, "item", i), v) for i, v in enumerate(now)]
        if len(entries) > _UNROLLED and all(isinstance(v, ATOMS) or v is None for _, v in entries):
            values = "{0}.values()" if isinstance(now, dict) else "{0}"
            self.check(source, "items", f"same_items({values}, {{1}})", [v for _, v in entries])
            return
        for at, v in entries:
            self.value(v, at)
            self.whole(v, seen)

    def drop(self, source: Source, what: Any = None, keep: Any = ()) -> None:
        """Forget checks of a source: one, or all but some."""
        self._whole.clear()
        for key in [k for k in self.checks if k[0] == id(source)]:
            if key[1] == what or (what is None and key[1] not in keep):
                del self.checks[key]

    def identities(self, x: torch.Tensor) -> list[Check]:
        """The checks that a place holds this very tensor."""
        return [c for c in self.checks.values() if c.test == SAME_TENSOR and c.old() is x]

    def guards(self, root: Any, grads: Any = ()) -> Guards:
        """The guards of the trace; ``grads`` are the ``.grad`` fields that it read."""
        missing = [(slot.late, slot.real.grad is None) for slot in grads]
        return Guards(list(self.checks.values()), list(dict.fromkeys(root.root.guards)), missing)


def in_two_places(first: str, second: str) -> StagingError:
    return StagingError(
        f"{first} and {second} are one dict, set or list from outside of the function, which gets keys or items that are known only when the graph runs: use it by one "
        "of the two",
        user_location(),
    )


def pre_entry(x: Any, key: Any) -> Any:
    """What a mapping or set held under a key before the traced code changed it, MISSING where it held nothing; of a set the key itself."""
    if not isinstance(x, MAPPINGS):
        return key if key in pre_content(x) else MISSING
    for log in journal.open_journals():
        if ("contents", id(x)) in log.entries:
            return dict.get(log.entries[("contents", id(x))][1], key, MISSING)
    for log in journal.open_journals():
        held = log.before.get(id(x), {})
        if key in held:
            return held[key]
    if key not in x:
        return MISSING
    return x[key]


def pre_content(x: Any) -> Any:
    """What a container held before the traced code changed it."""
    for log in journal.open_journals():
        if ("contents", id(x)) in log.entries:
            return log.entries[("contents", id(x))][1]
    if not isinstance(x, MAPPINGS):
        return x
    now = None
    for log in reversed(journal.open_journals()):
        for place, old in reversed(log.keys.get(id(x), ())):
            now = dict(x) if now is None else now
            if old is not MISSING:
                now[place.name_key] = old  # where it stands, or last where it was taken out
            else:
                now.pop(place.name_key, None)
    return x if now is None else now
