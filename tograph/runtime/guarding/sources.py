"""Sources: the way from something that outlives a trace to a Python value that was read while tracing.

A ``Source`` is a root (a variable of a closure, a global, an object) or a step (attribute, item, default of a
parameter) from another source. It can be followed again at every call: ``write`` gives the Python expression of
a step, so that the checks of a trace compile to one straight function.

Owners are held weakly wherever Python allows it: a trace never keeps an object of its caller alive.
"""

from __future__ import annotations

import enum
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_STEPS: dict[str, Callable[[str, str], str]] = {
    "attr": lambda parent, key: f"{parent}.{key}",
    "getattr": lambda parent, key: f"getattr({parent}, {key})",
    "item": lambda parent, key: f"{parent}[{key}]",
    "entry": lambda parent, key: f"entry({parent}, {key})",
    "nth": lambda parent, key: f"nth({parent}, {key})",
    "referent": lambda parent, key: f"{parent}()",
    "context": lambda parent, key: f"{parent}.get({key})",
}


def _key(x: Any) -> str:
    """A key as people write it. That of an object, such as the tensors that an optimiser keeps its state by, may be long."""
    return repr(x) if isinstance(x, _WRITTEN) else f"a {type(x).__name__}"


_WRITTEN = (str, int, float, bool, tuple, type(None), enum.Enum)
_LABELS: dict[str, Callable[[str, Any], str]] = {
    "attr": lambda parent, key: f"{parent}.{key}",
    "getattr": lambda parent, key: f"{parent}.{key}",
    "item": lambda parent, key: f"{parent}[{_key(key)}]",
    "entry": lambda parent, key: f"{parent}[{_key(key)}]",
    "nth": lambda parent, key: f"item {key} of {parent}",
    "referent": lambda parent, key: f"{parent}()",
    "context": lambda parent, key: f"{parent}.get()",
}


@dataclass(frozen=True, eq=False)
class Source:
    """``kind`` is "cell", "global", "object", "tensor" (of the arguments) or a step; ``key`` the cell, (namespace, name), the holder,
    the position, or the step's key."""

    parent: Source | None
    kind: str
    key: Any
    label: str

    def step(self, kind: str, key: Any) -> Source:
        return Source(self, kind, key, _LABELS[kind](self.label, key))

    def root(self) -> Source:
        """Where the way begins."""
        return self if self.parent is None else self.parent.root()

    def place(self) -> tuple[Any, ...]:
        """What tells the place from others, whatever they are called: the same of two sources that go the same way from one root."""
        if self.parent is not None:
            return (*self.parent.place(), self.kind, self.key)
        if self.kind == "cell":
            return (self.kind, id(self.key))
        if self.kind == "global":
            return (self.kind, id(self.key[0]), self.key[1])
        return (self.kind, id(self.key()) if self.kind == "object" else self.key)

    def write(self, parent: str, bind: Callable[[Any], str]) -> str:
        """The expression that follows this source, given the name of its parent."""
        if self.kind == "cell":
            return f"{bind(self.key)}.cell_contents"
        if self.kind == "global":
            return f"{bind(self.key[0])}[{self.key[1]!r}]"
        if self.kind == "tensor":
            return f"tensors[{self.key}]"
        if self.kind == "object":
            return f"{bind(self.key)}()"
        key = self.key if self.kind == "attr" else constant(self.key, bind)
        return _STEPS[self.kind](parent, key)


def constant(x: Any, bind: Callable[[Any], str]) -> str:
    """A key as it is written in code."""
    return repr(x) if type(x) in (int, str, bool, type(None)) else bind(x)


def cell(x: Any, name: str) -> Source:
    return Source(None, "cell", x, name)


def global_(namespace: dict[str, Any], name: str) -> Source:
    return Source(None, "global", (namespace, name), name)


def object_(x: Any, name: str) -> Source:
    return Source(None, "object", holder(x), name)


class Strong:
    """What ``weakref.ref`` is to objects that have no weak references."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __call__(self) -> Any:
        return self.value


def holder(x: Any) -> Callable[[], Any]:
    """A weak reference to ``x`` where there can be one."""
    try:
        return weakref.ref(x)
    except TypeError:
        return Strong(x)
