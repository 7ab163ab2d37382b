"""``Watch``: what one trace reads of Python's values outside of it.

It collects what functions that run name (``function_reads``), attributes, items, lengths and keys of containers, parameters
and settings of modules. A read of something that has a ``Source`` becomes a check of ``guards``. What the traced code wrote itself
before is not read from outside.
"""

from __future__ import annotations

import contextvars
import types
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from ..symbols import journal
from ..symbols.journal import MISSING, Location
from ..values.code_names import used_whole
from ..values.pytrees import slots_of
from . import outer_lists, questions, sources
from .class_reads import ClassReads
from .draws import Draws
from .guards import ATOMS, MAPPINGS, SAME_ITEMS, extends_container, is_named_tuple, show
from .lookups import (
    absence_test,
    is_dynamic,
    is_lazy,
    is_method,
    module_store,
    of_a_user,
)
from .place_checks import in_two_places, pre_content, pre_entry
from .sources import Source


def now_in(variable: contextvars.ContextVar[Any]) -> Any:
    """What a context variable holds: its default, where it is set to nothing else."""
    try:
        return variable.get()
    except LookupError:
        return MISSING


class Watch(ClassReads):
    """The reads of one trace."""

    def __init__(self) -> None:
        super().__init__()
        # what was called, and not found by a read: see ``callables``
        self.called: dict[int, Any] = {}
        self.compared: set[int] = set()  # tensors and objects whose identity was asked for
        self.copies: set[int] = set()  # of objects that a call brings, by identity
        self.changed: set[int] = set()  # objects that have a source because they changed
        self.iterators: dict[int, Any] = {}  # those from outside, as converted code holds them
        self.began, self.draws = questions.answers(), Draws()
        # context variables that the code has set, and what they held before
        self.entered: dict[int, tuple[contextvars.ContextVar[Any], Any]] = {}
        self.quiet = False
        self.acted = ""  # the function that acted on what is outside of the program (``converters.outside_world``)
        # what code that is not converted has changed, and what was there before (``unconverted``)
        self.acts: list[tuple[Location, Any]] = []
        self.strayed: Exception | None = None  # of a thread that the code started
        self._global_hooks = {n: sources.global_(vars(torch_module), n) for n in _GLOBAL_HOOKS}

    def root(self, x: Any, name: str, code: types.CodeType | None = None) -> None:
        """An object that the trace begins with: an argument, or the object of a method; ``code``: that whose parameter ``name`` it is."""
        source = sources.object_(x, name)
        self.sources.setdefault(id(x), (x, source))
        self.check(source, "alive", "{0} is not None")
        if extends_container(x):
            self._roots.add(id(x))
            if code is None or name in used_whole(code):
                self.whole(x)

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        """``owner.name`` was read."""
        if id(value) in self.stands:
            raise in_two_places(self.stands[id(value)][1].label, f"{type(owner).__name__}.{name}")
        if isinstance(owner, types.ModuleType) and name in vars(owner):
            if not self.written(("attr", id(owner), name)):
                source = sources.global_(vars(owner), name)
                self.variable(source, ("key", id(vars(owner)), str, name), value, False)
            return
        if id(owner) in self.placeholders:
            self.attribute_given(owner, name, value)
            return
        if is_named_tuple(type(owner)) and name in type(owner)._fields:
            self.item(owner, type(owner)._fields.index(name), value)
            return
        source = self.source_of(owner) or self.class_source(owner)
        if self.written(("attr", id(owner), name)):
            return
        if source is not None:
            self._read(source, owner, name, value)
        elif (cls := self.giving(owner, name, value)) is not None:
            self.attribute(cls, name, value)

    def _read(self, source: Source, owner: Any, name: str, value: Any) -> None:
        store = module_store(owner, name)
        if store:  # by any name: those of a ParameterList are numbers
            source = self.step(source, "attr", store)
            self.value(value, self.step(source, "item", name))
        elif isinstance(owner, torch.Tensor) and name == "requires_grad":
            self._gradient(source, owner)
        elif name == "__dict__":
            self.fields(owner)
        elif not name.isidentifier():
            return
        elif is_method(owner, name):
            self._member(owner, name)
        else:
            self._field(source, owner, name, value)

    def _field(self, source: Source, owner: Any, name: str, value: Any) -> None:
        if is_dynamic(owner, name):
            self.value(value, self.step(source, "getattr", name))
        else:
            self.value(value, self._held(source, owner, name))

    def _held(self, source: Source, owner: Any, name: str) -> Source:
        """An attribute that the object holds: of a module in one of its dicts, and where its class would compute it, by the object's own."""
        store = module_store(owner, name)
        if store:
            return self.step(self.step(source, "attr", store), "item", name)
        if is_lazy(owner, name):
            return self.step(self.step(source, "attr", "__dict__"), "item", name)
        return self.step(source, "attr", name)

    def absent(self, owner: Any, name: str) -> None:
        """``owner`` has no attribute of that name."""
        _, _, argument = self.placeholders.get(id(owner), (None, 0, None))
        source = self.source_of(owner) or argument
        if self.written(("attr", id(owner), name)):
            return
        if source is not None:
            self.check(source, ("absent", name), f"not hasattr({{0}}, {name!r})")
        else:
            self.absent_in_class(type(owner), name)

    def in_class(self, cls: type, name: str, found: Any) -> None:
        """What a class or its bases hold was read, in the place of an attribute that an object has on some paths only."""
        if found is MISSING:
            self.absent_in_class(cls, name)
        elif of_a_user(cls) and not hasattr(type(found), "__get__"):
            own = self.written(("attr", id(cls), name))  # of a class: the one below holds it
            holding = (c for c in cls.__mro__ if vars(c).get(name, MISSING) is found)
            self.attribute(next(holding, cls) if own else cls, name, found)

    def asked(self, owner: Any, name: str) -> None:
        """The ``__getattr__`` of a user's class was asked, since neither the object nor its class holds the name."""
        source = self.source_of(owner) or self.class_source(owner)
        if self.written(("attr", id(owner), name)):
            return
        if source is not None:
            self.check(source, ("absent", name), f"unheld({{0}}, {name!r})")
        else:
            self.absent_in_class(type(owner), name)

    def referent(self, x: weakref.ref, value: Any) -> None:
        """``x()`` of a weak reference was read."""
        source = self.source_of(x)
        if source is not None:
            self.value(value, self.step(source, "referent", None))

    def context(self, x: contextvars.ContextVar[Any], default: Any, value: Any) -> None:
        """A context variable was read."""
        source = self.source_of(x)
        if source is not None and id(x) not in self.entered:
            self.value(value, self.step(source, "context", default))

    def _set_before(self, x: contextvars.ContextVar[Any]) -> None:
        """What a context variable held before the code set it decides what it holds afterwards."""
        source = self.source_of(x)
        if source is not None and id(x) in self.entered:
            before = self.entered[id(x)][1]
            self.value(None if before is MISSING else before, self.step(source, "context", None))

    def left(self) -> None:
        """The trace ends. Where it leaves a context variable set, it serves this call only; the error of a thread that it started is raised."""
        if self.strayed is not None:
            raise self.strayed
        for variable, before in self.entered.values():
            if now_in(variable) is not before:
                source = self.source_of(variable) or sources.object_(variable, variable.name)
                self.check(source, "once", "False", None, "what it holds")

    def item(self, x: Any, key: Any, value: Any) -> None:
        """``x[key]`` of a container was read."""
        source = self.source_of(x)
        if source is None:
            return
        outer_lists.look(x, self)
        self.compared.add(id(key))
        if isinstance(key, slice) or (isinstance(x, deque) and self.written(("contents", id(x)))):
            self.whole(x)
        elif isinstance(x, MAPPINGS):
            if self.written(journal.key_place(x, key)):
                return
            now = pre_entry(x, key)
            if now is MISSING:
                self.missing_key(x, key)
            elif now is value:
                self.value(value, self.entry(source, x, key))
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
            inside = pre_entry(x, key) is not MISSING
            at = ("key", type(key), key if isinstance(key, ATOMS) else id(key))
            self.check(source, at, f"({{1}} in {{0}}) is {inside}", key)

    def size(self, x: Any) -> None:
        """The number of items was read."""
        source = self.source_of(x)
        if source is not None:
            outer_lists.look(x, self)
            if (id(source), "length") not in self.checks:
                self.check(source, "length", f"len({{0}}) == {len(pre_content(x))}", None, show(x))

    def module(self, m: torch.nn.Module) -> None:
        """Code that is not converted read what it liked of a module: all of it counts."""
        source = self.source_of(m)
        if source is None:
            return
        for name, x in vars(m).items():
            if name in ("_parameters", "_buffers", "_modules"):
                at = self.step(source, "attr", name)
                self.check(at, "keys", SAME_ITEMS, list(x))
                for key, part in x.items():
                    self.value(part, self.step(at, "item", key))
                    if isinstance(part, torch.nn.Module):
                        self.module(part)
            elif not name.startswith("_") and not self.written(("attr", id(m), name)):
                self.whole_value(x, self.step(source, "attr", name))
        self.hooks(m)

    def hooks(self, m: torch.nn.Module) -> None:
        """Whether a module has hooks was asked."""
        source = self.source_of(m)
        if source is not None:
            some = " or ".join([*(f"{{0}}.{n}" for n in _HOOKS), "'forward' in {0}.__dict__"])
            # those that the function itself has registered or removed are not asked for again
            found = any(pre_content(getattr(m, n)) for n in _HOOKS)
            self.check(source, "hooks", f"bool({some}) is {found or 'forward' in vars(m)}")
            for name in _HOOKS if found else ():
                self.whole_value(getattr(m, name), self.step(source, "attr", name))
        for name in _GLOBAL_HOOKS:
            hooks, at = vars(torch_module)[name], self._global_hooks[name]
            self.check(at, "some", f"bool({{0}}) is {bool(hooks)}", None, name)
            if hooks:
                self.whole_value(hooks, at)

    def slots(self, x: Any) -> Iterator[Any]:
        """What an object holds that is not in a ``__dict__`` was read: all of it, one by one."""
        for name in slots_of(type(x)):
            value = getattr(x, name, MISSING)
            if value is MISSING:
                self.absent(x, name)
            else:
                self.attribute(x, name, value)
                yield value

    def fields(self, x: Any) -> None:
        """Code that is not converted, or ``vars``, looked at an object: all its attributes count."""
        source = self.source_of(x)
        if source is not None and type(vars(x)) is dict:
            at = self.step(source, "attr", "__dict__")
            self.check(at, "keys", SAME_ITEMS, list(pre_content(vars(x))), show(x))
            for name, value in list(vars(x).items()):
                if name.isidentifier() and not self.written(("attr", id(x), name)):
                    self.whole_value(value, self._held(source, x, name))

    def advanced(self, iterator: Any) -> None:
        """An iterator from outside was advanced, which cannot be undone: the trace serves this call only."""
        source = self.source_of(iterator)
        if source is not None:
            self.check(source, "once", "False", None, "its position")

    def kept(self, location: journal.Location, old: Any, written: bool = False) -> None:
        """What a location held before the call may stay in it, or decides what it holds afterwards; ``written``: the code puts it there again."""
        kind, owner = location.key[0], location.keep
        if kind == "cell" or (kind == "key" and "__builtins__" in owner):
            # variables that are read are checked when the functions that name them begin
            if location.key not in self.steps:
                self._unread(location, old)
            return
        source = self.source_of(owner)
        if source is None:
            source = sources.object_(owner, location.name)
            self.sources[id(owner)] = (owner, source)
            self.changed.add(id(owner))
        if isinstance(owner, contextvars.ContextVar):
            self._set_before(owner)
        elif kind == "contents":
            self.whole(owner, now=old)
        elif kind == "attr":
            name = location.key[2]
            if old is MISSING:
                self.check(source, ("absent", name), absence_test(owner, name))
            else:
                tell = self.value if written else self.whole_value
                tell(old, self._held(source, owner, name))
        elif old is MISSING:
            self.check(source, ("key", str, location.name_key), "{1} not in {0}", location.name_key)
        else:
            self.whole_value(old, self.entry(source, owner, location.name_key))

    def _unread(self, location: journal.Location, old: Any) -> None:
        """What a variable held that the code only writes."""
        owner, name = location.keep, location.name
        if old is not MISSING:
            variable = sources.cell(owner, name) if location.key[0] == "cell" else sources.global_(owner, name)  # fmt: skip
            self.steps[location.key] = variable
            self.whole_value(old, variable)
        elif location.key[0] == "key":
            self.check(sources.object_(owner, name), ("key", str, name), "{1} not in {0}", name)

    def read_at(self, x: Any) -> Source | None:
        """Where the code found an object; None for one that it may have made, whose changes are all that is known."""
        return None if id(x) in self.changed else self.source_of(x)

    def settle(self, location: journal.Location) -> None:
        """What a location holds now is what the next call has to find: it was changed for good."""
        kind, owner, content = location.key[0], location.keep, location.get()
        if kind in ("cell", "key") and location.key in self.steps:
            source: Source | None = self.steps[location.key]
        else:
            source = self.source_of(owner)
            if source is not None and kind == "attr":
                source = self._settled_attribute(source, owner, location.key[2])
            elif source is not None and kind == "key":
                source = self._settled_key(source, owner, location.name_key)
            elif source is not None:
                self.drop(source, keep=("value",))
                self.whole(owner)
                return
        if source is not None:
            self.drop(source)
            self.value(content, source)

    def _settled_attribute(self, source: Source, owner: Any, name: str) -> Source:
        """Where an attribute is found; what was checked of it before does not count any more."""
        self.drop(source, ("absent", name))
        for step in ("attr", "getattr"):
            self.drop(self.step(source, step, name))
        return self._held(source, owner, name)

    def _settled_key(self, source: Source, owner: Any, key: Any) -> Source:
        """Where the content of a key is found; what was checked of it before does not count any more."""
        known = (id(source), "keys") in self.checks
        self.drop(source, ("key", type(key), key))
        if known:
            self.drop(source, "keys")
            self.check(source, "keys", SAME_ITEMS, list(owner))
        return self.entry(source, owner, key)


_GLOBAL_HOOKS = ("_global_forward_hooks", "_global_forward_pre_hooks")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
