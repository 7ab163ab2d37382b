"""Reads: what converted code tells of the Python values that it looks at while tracing.

A ``Watch`` collects the reads of one trace: globals and closure variables of the functions that run, attributes, items,
lengths and keys of containers, parameters and settings of modules. A read of something that has a ``Source`` becomes a
check of ``guards``. What the traced code wrote itself before is not read from outside.
"""

from __future__ import annotations

import dis
import functools
import threading
import types
import weakref
from collections import deque
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from . import journal, sources
from .guards import ATOMS, CONTAINERS, MAPPINGS, SAME, SAME_ITEMS, SAME_TENSOR, Check, Guards, show
from .journal import MISSING
from .shapes import SYMBOLS
from .sources import Source, holder
from .structure import OUTSIDE
from .symbolic import Retrace, SymTensor

_FIXED = (type, types.ModuleType, types.BuiltinFunctionType)  # compared by identity and kept
NUMBER = "{0} is {1} or same_atom({0}, {1})"  # the test of a number or string
_UNROLLED = 64  # items of a container that are checked one by one


class _State(threading.local):
    def __init__(self) -> None:
        self.watches: list[Watch] = []


_state = _State()


class Watch:
    """The reads of one trace."""

    def __init__(self) -> None:
        self.sources: dict[int, tuple[Any, Source]] = {}
        self.steps: dict[Any, Source] = {}
        self.checks: dict[Any, Check] = {}
        self.functions: dict[Any, Any] = {}  # kept: their ids are keys
        self.given: Any = ()  # the tensors of the arguments, and which of them are captured
        self.real: frozenset[int] = frozenset()
        self.cells: set[Any] = set()  # the variables of closures from outside
        self.opened: set[str] = set()  # the labels of the places whose number is an input
        self.rebound: list[tuple[Any, Any, Check]] = []

    # ---- where values come from

    def root(self, x: Any, name: str) -> None:
        """An object that the trace begins with: an argument, or the object of a method."""
        source = sources.object_(x, name)
        self.sources.setdefault(id(x), (x, source))
        self._check(source, "alive", "{0} is not None")

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

    def add(self, function: types.FunctionType) -> None:
        """A user's function runs: its cells, the globals that its code loads, and its defaults are read."""
        key = (function.__code__, tuple(map(id, function.__closure__ or ())))
        if key in self.functions:
            return
        self.functions[key] = function
        stored, loaded = _stored(function.__code__), _loaded_variables(function.__code__)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            self.cells.add(("cell", id(cell)))
            try:
                content = cell.cell_contents
            except ValueError:
                continue
            if name in loaded:
                self._variable(
                    sources.cell(cell, name), ("cell", id(cell)), content, name in stored
                )
        namespace = function.__globals__
        for name in _loaded_globals(function.__code__):
            if name in namespace:
                source = sources.global_(namespace, name)
                at = ("key", id(namespace), str, name)
                self._variable(source, at, namespace[name], name in stored)
        for part, kept in (
            ("__defaults__", function.__defaults__),
            ("__kwdefaults__", function.__kwdefaults__),
        ):
            entries = enumerate(kept or ()) if part == "__defaults__" else (kept or {}).items()
            for i, x in entries:
                if not isinstance(x, ATOMS) and x is not None:
                    at_function = self.source_of(function) or sources.object_(
                        function, function.__name__
                    )
                    holder_ = self.step(at_function, "attr", part)
                    self.whole_value(x, self.step(holder_, "item", i))

    def _variable(self, source: Source, key: Any, content: Any, stored: bool) -> None:
        """A variable: ``key`` is that of its journal location; one that the code writes is compared whole, if it stays."""
        if isinstance(content, types.ModuleType) or key in self.steps or self.written(key):
            return
        self.steps[key] = source
        self.value(content, source)
        if stored:
            self.whole_value(content, source)

    @staticmethod
    def written(key: Any) -> bool:
        """Whether the traced code wrote a location."""
        return any(key in log.entries for log in journal.open_journals())

    # ---- checks

    def _check(self, source: Source, what: Any, test: str, old: Any = None, text: str = "") -> None:
        key = (id(source), what)
        if key not in self.checks:
            self.checks[key] = Check(source, test, old, text)

    def condition(self, source: Source, what: str, test: str) -> None:
        """A test of what is at a source, which holds now; ``what`` tells it from other tests there."""
        self._check(source, what, test)

    def value(self, x: Any, source: Source) -> None:
        """What is at a source is ``x``, as far as that can be told without looking into it."""
        if isinstance(x, (SymTensor, *SYMBOLS)) or source.label in self.opened:
            return
        self._not_given(x)
        text = show(x)
        if x is None or x is True or x is False:
            self._check(source, "value", f"{{0}} is {x}", None, text)
        elif isinstance(x, ATOMS):
            self._check(source, "value", NUMBER, x, text)
        elif isinstance(x, _FIXED):
            self.sources.setdefault(id(x), (x, source))
            self._check(source, "value", "{0} is {1}", x, text)
        elif type(x) in CONTAINERS:
            self.sources.setdefault(id(x), (x, source))
            self._check(source, "value", "type({0}) is {1}", type(x), text)
        elif isinstance(x, np.ndarray):
            self._check(source, "value", "same_array({0}, {1})", x.copy(), text)
        elif isinstance(x, types.MethodType):
            self._check(source, "value", "{0} == {1}()", sources.Strong(x), text)
        else:
            self.sources.setdefault(id(x), (x, source))
            same = SAME_TENSOR if isinstance(x, torch.Tensor) else SAME
            self._check(source, "value", same, holder(x), text)

    def _not_given(self, x: Any) -> None:
        """A tensor that was found outside and is an argument as well has to be captured."""
        if isinstance(x, torch.Tensor) and self.given:
            found = frozenset(i for i, given in enumerate(self.given) if given is x) - self.real
            if found:
                raise Retrace(real=found)

    def whole_value(self, x: Any, source: Source) -> None:
        self.value(x, source)
        self.whole(x)

    def whole(self, x: Any, seen: frozenset[int] = frozenset(), now: Any = None) -> None:
        """All of a container was read, and of the containers in it; ``now`` is what it held before the call."""
        source = self.source_of(x)
        if source is None or id(x) in seen or type(x) not in CONTAINERS:
            return
        seen = seen | {id(x)}
        now = pre_content(x) if now is None else now
        if isinstance(now, (set, frozenset)):
            self._check(source, "items", "{0} == {1}", set(now), show(x))
            return
        if isinstance(now, dict):
            self._check(source, "keys", SAME_ITEMS, list(now), show(x))
            entries: Any = [
                ("item", k, v) if type(k) in (str, int) else ("nth", i, v)
                for i, (k, v) in enumerate(now.items())
            ]
        else:
            self._check(source, "length", f"len({{0}}) == {len(now)}", None, show(x))
            entries = [("item", i, v) for i, v in enumerate(now)]
        if len(entries) > _UNROLLED and all(
            isinstance(v, ATOMS) or v is None for _, _, v in entries
        ):
            values = "{0}.values()" if isinstance(now, dict) else "{0}"
            self._check(source, "items", f"same_items({values}, {{1}})", [v for _, _, v in entries])
            return
        for kind, key, v in entries:
            at = self.step(source, kind, key)
            self.value(v, at)
            self.whole(v, seen)

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        """``owner.name`` was read."""
        if isinstance(owner, types.ModuleType) and name in vars(owner):
            if not self.written(("attr", id(owner), name)):
                source = sources.global_(vars(owner), name)
                self._variable(source, ("key", id(vars(owner)), str, name), value, False)
            return
        source = self.source_of(owner)
        if source is None or not name.isidentifier() or self.written(("attr", id(owner), name)):
            return
        store = _module_store(owner, name)
        if store:
            source = self.step(source, "attr", store)
            self.value(value, self.step(source, "item", name))
            return
        if _is_method(owner, name):
            return
        plain = not _is_dynamic(owner, name)
        self.value(value, self.step(source, "attr" if plain else "getattr", name))

    def absent(self, owner: Any, name: str) -> None:
        """``owner`` has no attribute of that name."""
        source = self.source_of(owner)
        if source is not None and not self.written(("attr", id(owner), name)):
            self._check(source, ("absent", name), f"not hasattr({{0}}, {name!r})")

    def referent(self, x: weakref.ref, value: Any) -> None:
        """``x()`` of a weak reference was read."""
        source = self.source_of(x)
        if source is not None:
            self.value(value, self.step(source, "referent", None))

    def item(self, x: Any, key: Any, value: Any) -> None:
        """``x[key]`` of a container was read."""
        source = self.source_of(x)
        if source is None:
            return
        if isinstance(key, slice) or (isinstance(x, deque) and self.written(("contents", id(x)))):
            self.whole(x)
        elif isinstance(x, MAPPINGS):
            now = pre_content(x)
            if self.written(journal.key_place(x, key)):
                return
            if key in now and now[key] is value:
                self.value(value, self.step(source, "item", key))
            elif key not in now:
                self.missing_key(x, key)
        elif type(key) is int:
            if self.written(("contents", id(x))):
                self.whole(x)
                return
            if key < 0:
                self.size(x)
            self.value(value, self.step(source, "item", key))
        else:
            self.whole(x)

    def missing_key(self, x: Any, key: Any) -> None:
        """A mapping or set was asked for something that it did not hold."""
        source = self.source_of(x)
        if source is not None and not self.written(journal.key_place(x, key)):
            inside = key in pre_content(x)
            at = ("key", type(key), key if isinstance(key, ATOMS) else id(key))
            self._check(source, at, f"({{1}} in {{0}}) is {inside}", key)

    def size(self, x: Any) -> None:
        """The number of items was read."""
        source = self.source_of(x)
        if source is not None:
            self._check(source, "length", f"len({{0}}) == {len(pre_content(x))}", None, show(x))

    def module(self, m: torch.nn.Module) -> None:
        """Code that is not converted read what it liked of a module: all of it counts."""
        source = self.source_of(m)
        if source is None:
            return
        for name, x in vars(m).items():
            if name in ("_parameters", "_buffers", "_modules"):
                at = self.step(source, "attr", name)
                self._check(at, "keys", SAME_ITEMS, list(x))
                for key, part in x.items():
                    self.value(part, self.step(at, "item", key))
                    if isinstance(part, torch.nn.Module):
                        self.module(part)
            elif (not name.startswith("_") or name in _HOOKS) and not self.written(
                ("attr", id(m), name)
            ):
                self.whole_value(x, self.step(source, "attr", name))

    def hooks(self, m: torch.nn.Module) -> None:
        """Whether a module has hooks was asked."""
        source = self.source_of(m)
        if source is not None:
            some = " or ".join(f"{{0}}.{n}" for n in _HOOKS)
            found = any(getattr(m, n) for n in _HOOKS)
            self._check(source, "hooks", f"bool({some}) is {found}")
            for name in _HOOKS if found else ():
                self.whole_value(getattr(m, name), self.step(source, "attr", name))

    def fields(self, x: Any) -> None:
        """Code that is not converted looked at an object: all its attributes count."""
        source = self.source_of(x)
        if source is not None:
            for name, value in list(vars(x).items()):
                if name.isidentifier() and not self.written(("attr", id(x), name)):
                    self.whole_value(value, self.step(source, "attr", name))

    def argument(self, i: int, x: torch.Tensor) -> None:
        """The ``i``-th tensor of the arguments is also one that was captured."""
        self._check(Source(None, "tensor", i, f"tensor {i}"), "same", "{0} is {1}()", holder(x))

    def history(self) -> None:
        """Whether the tensors of the arguments require a gradient: another answer traces anew."""
        for i, x in enumerate(self.given):
            if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex()):
                test = "{0}.requires_grad" if x.requires_grad else "not {0}.requires_grad"
                self._check(Source(None, "tensor", i, f"tensor {i}"), "gradient", test)

    def apart(self, i: int) -> None:
        """The ``i``-th tensor of the arguments is written: no other one may share its memory."""
        self._check(
            Source(None, "tensor", i, f"the memory of tensor {i}"), "apart", "apart({0}, tensors)"
        )

    def advanced(self, iterator: Any) -> None:
        """An iterator from outside was advanced, which cannot be undone: the trace serves this call only."""
        source = self.source_of(iterator)
        if source is not None:
            self._check(source, "once", "False", None, "its position")

    def kept(self, location: journal.Location, old: Any) -> None:
        """What a location held before the call may stay in it, or decides what it holds afterwards."""
        kind, owner = location.key[0], location.keep
        if kind == "cell" or (kind == "key" and "__builtins__" in owner):
            return  # variables are checked when the functions that name them begin
        source = self.source_of(owner)
        if source is None:
            source = sources.object_(owner, location.name)
            self.sources[id(owner)] = (owner, source)
        if kind == "contents":
            self.whole(owner, now=old)
        elif kind == "attr":
            name = location.key[2]
            if old is MISSING:
                self._check(source, ("absent", name), f"not hasattr({{0}}, {name!r})")
            elif not _module_store(owner, name):
                self.whole_value(old, self.step(source, "attr", name))
        elif old is MISSING:
            self._check(
                source, ("key", str, location.name_key), "{1} not in {0}", location.name_key
            )
        else:
            self.whole_value(old, self.step(source, "item", location.name_key))

    def settle(self, location: journal.Location) -> None:
        """What a location holds now is what the next call has to find: it was changed for good."""
        kind, owner, content = location.key[0], location.keep, location.get()
        if kind in ("cell", "key") and location.key in self.steps:
            source: Source | None = self.steps[location.key]
        else:
            source = self.source_of(owner)
            if source is None:
                return
            if kind == "attr":
                name = location.key[2]
                self._drop(source, ("absent", name))
                store = _module_store(owner, name)
                for step in ("attr", "getattr"):
                    self._drop(self.step(source, step, name))
                source = self.step(source, "attr", store) if store else source
                source = self.step(source, "item" if store else "attr", name)
            elif kind == "key":
                known = (id(source), "keys") in self.checks
                self._drop(source, ("key", type(location.name_key), location.name_key))
                if known:
                    self._drop(source, "keys")
                    self._check(source, "keys", SAME_ITEMS, list(owner))
                source = self.step(source, "item", location.name_key)
            else:
                self._drop(source, keep=("value",))
                self.whole(owner)
                return
        self._drop(source)
        self.value(content, source)

    def _drop(self, source: Source, what: Any = None, keep: Any = ()) -> None:
        """Forget checks of a source: one, or all but some."""
        for key in [k for k in self.checks if k[0] == id(source)]:
            if key[1] == what or (what is None and key[1] not in keep):
                del self.checks[key]

    def constant(self, x: torch.Tensor) -> bool:
        """A tensor from outside must go on requiring no gradient; False where its place is not known."""
        source = self.source_of(x)
        if source is not None:
            self._check(source, "constant", "not {0}.requires_grad", None, "no gradient")
        return source is not None

    def identities(self, x: torch.Tensor) -> list[Check]:
        """The checks that a place holds this very tensor."""
        return [c for c in self.checks.values() if c.test == SAME_TENSOR and c.old() is x]

    def guards(self, root: Any, grads: Any = ()) -> Guards:
        """The guards of the trace; ``grads`` are the ``.grad`` fields that it read."""
        missing = [(slot.late, slot.real.grad is None) for slot in grads]
        return Guards(list(self.checks.values()), list(dict.fromkeys(root.root.guards)), missing)


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


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


def _module_store(owner: Any, name: str) -> str:
    """Which dict of a module holds an attribute."""
    if not isinstance(owner, torch.nn.Module) or name in vars(owner):
        return ""
    stores = ("_parameters", "_buffers", "_modules")
    return next((s for s in stores if name in vars(owner).get(s, ())), "")


def _lookup(cls: type, name: str) -> Any:
    return next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), MISSING)


def _is_method(owner: Any, name: str) -> bool:
    """A function, property or other descriptor of the class: what it reads counts, not what it is."""
    if name in getattr(owner, "__dict__", ()) and not isinstance(owner, type):
        return False
    found = _lookup(owner if isinstance(owner, type) else type(owner), name)
    if isinstance(found, (types.MemberDescriptorType, type(None))) or found is MISSING:
        return False
    return hasattr(type(found), "__get__")


def _is_dynamic(owner: Any, name: str) -> bool:
    """Whether an attribute comes from ``__getattr__``."""
    held = name in getattr(owner, "__dict__", ()) or _lookup(type(owner), name) is not MISSING
    return not held and not isinstance(owner, type)


@functools.cache
def _stored(code: types.CodeType) -> frozenset[str]:
    """Globals and free variables that the code itself assigns."""
    words = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF")
    return frozenset(i.argval for i in _instructions(code) if i.opname in words)


@functools.cache
def _loaded_globals(code: types.CodeType) -> tuple[str, ...]:
    loads = ("LOAD_GLOBAL", "LOAD_NAME")
    return tuple(dict.fromkeys(i.argval for i in _instructions(code) if i.opname in loads))


@functools.cache
def _loaded_variables(code: types.CodeType) -> frozenset[str]:
    words = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
    return frozenset(i.argval for i in _instructions(code) if i.opname in words)


def _instructions(code: types.CodeType):
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _instructions(constant)


# ---- what converted code calls


def current() -> Watch | None:
    """The watch of the trace in progress."""
    return _state.watches[-1] if _state.watches else None


def history() -> None:
    """A program asks whether a tensor requires a gradient: that may follow from any argument."""
    for watch in _state.watches[-1:]:
        watch.history()


def watched(function: types.FunctionType) -> None:
    """A user's function is about to run in a trace."""
    for watch in _state.watches[-1:]:
        watch.add(function)


def whole(x: Any) -> Any:
    """``x``, all of which is about to be read."""
    if _state.watches and type(x) in CONTAINERS:
        _state.watches[-1].whole(x)
    return x


def passed(args: Any) -> None:
    """Arguments of code that is not converted: it may read all of them."""
    watch = current()
    if watch is None:
        return
    for x in args:
        if isinstance(x, (torch.Tensor, *ATOMS)) or watch.source_of(x) is None:
            continue
        if type(x) in CONTAINERS:
            watch.whole(x)
        elif hasattr(type(x), "__next__"):
            watch.advanced(x)
        elif isinstance(x, torch.nn.Module):
            watch.module(x)
        elif hasattr(x, "__dict__") and not isinstance(
            x, (type, types.FunctionType, types.ModuleType)
        ):
            watch.fields(x)


@contextmanager
def watching(watch: Watch):
    """Collect reads in ``watch``."""
    _state.watches.append(watch)
    try:
        yield watch
    finally:
        _state.watches.pop()


def _outside(x: Any) -> bool:
    watch = current()
    return watch is not None and watch.source_of(x) is not None


OUTSIDE[0] = _outside
