"""Reads of what classes hold: the members that run for an object, and what a class gives, or does not, to objects that are no constants of a trace.

Such an object is one that the code makes, or the copy of one that a call brings: what it holds itself comes from the trace or is part of the key, so its class alone can change.
"""

from __future__ import annotations

import types
from typing import Any

import torch

from ..values.code_names import used_whole
from . import sources
from .function_reads import FunctionReads
from .lookups import held_by, member_name, member_test, of_a_user
from .sources import Source, holder


class ClassReads(FunctionReads):
    """Those of one trace."""

    def __init__(self) -> None:
        super().__init__()
        self._shadowed: dict[int, list[str]] = {}  # members that an object could have itself
        self._names: dict[tuple[type, Any], str | None] = {}  # of functions in classes
        self._roots: set[int] = set()  # containers of a user's class that the trace begins with

    def class_source(self, owner: Any) -> Source | None:
        """The source of a user's class that no read has found: methods get theirs as ``cls``."""
        if not issubclass(type(owner), type) or owner.__module__.partition(".")[0] in ("builtins", "torch"):  # fmt: skip
            return None
        if id(owner) in self.made_classes:
            return None
        found = sources.object_(owner, owner.__name__)
        return self.sources.setdefault(id(owner), (owner, found))[1]

    def method(self, function: types.FunctionType, owner: Any) -> None:
        """A user's function is about to run with ``owner`` as its first argument: it may be a method, property or operator of it."""
        cls = owner if issubclass(type(owner), type) else type(owner)  # not what it says of itself
        code = function.__code__
        if id(owner) in self._roots and not used_whole(code).isdisjoint(code.co_varnames[:1]):
            self.whole(owner)
        if not of_a_user(cls):
            return
        if (cls, function) not in self._names:
            self._names[cls, function] = member_name(cls, function)
        name = self._names[cls, function]
        if name is not None:
            self._member(owner, name)

    def _member(self, owner: Any, name: str) -> None:
        """What a user's class holds under a name was used: another function there, or in the object itself, traces anew."""
        cls = owner if issubclass(type(owner), type) else type(owner)  # not what it says of itself
        test = member_test(cls, name)
        if test is None or self.written(("attr", id(cls), name)):
            return
        source = self.class_source(cls)
        if source is None:
            return
        text, function = test
        # a function of no closure keeps nothing of the caller's alive
        alone = getattr(function, "__closure__", ()) is None
        text, old = (text + "{1}", function) if alone else (text + "{1}()", holder(function))
        self.check(source, ("member", name), text, old, f"{cls.__name__}.{name}")
        at = self.source_of(owner)
        # the forward of a module is among its hooks
        if at is None or owner is cls or (name == "forward" and isinstance(owner, torch.nn.Module)):
            return
        if name not in getattr(owner, "__dict__", (name,)) and not name.startswith("__"):
            names = self._shadowed.setdefault(id(at), [])
            names += [name] if name not in names else []
            first, *rest = names
            text = f"{first!r} not in (held := {{0}}.__dict__)"
            self.drop(at, "own")
            self.check(at, "own", "".join([text, *(f" and {n!r} not in held" for n in rest)]))

    def giving(self, owner: Any, name: str, value: Any) -> type | None:
        """The user's class that gives an object an attribute which that does not hold itself."""
        cls = type(owner)
        if not of_a_user(cls) or name in getattr(owner, "__dict__", ()):
            return None
        found = held_by(cls, name)
        return cls if found is value and not hasattr(type(found), "__get__") else None

    def absent_in_class(self, cls: type, name: str) -> None:
        """A class does not give its objects an attribute."""
        source = self.class_source(cls) if of_a_user(cls) else None
        if source is not None and not self.written(("attr", id(cls), name)):
            text = f"not any({name!r} in k.__dict__ for k in {{0}}.__mro__)"
            self.check(source, ("absent in", name), text)
