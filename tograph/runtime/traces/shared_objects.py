"""Objects in what a call gives that are one: in several places of it, or with something that existed before the call.

``marked`` marks the trees of a result and of changes. A ``Tree`` with a ``number`` is an object that stands in further places,
where the spec is ``Again``; one that is ``cyclic`` has such a place among its own parts. A tree with ``outer`` is a container of the arguments, or one that the code read outside of the function:
a call of the function gives that object itself, whose changes are among the effects. Where there is no such call (a concrete function, a saved
one) the tree tells how an equal object is made, so the graph gives its parts in any case.

Invariant: ``marked`` changes no order of leaves, and ``flattening.unflatten`` meets a numbered tree before its ``Again``.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..guarding.guards import LOST
from ..values.pytrees import attributes, parts_of
from ..values.structure import (
    Again,
    Choice,
    Const,
    Spec,
    Tree,
    is_staged_list,
    is_union,
)

Outer = Callable[
    [inspect.BoundArguments | None], Any
]  # finds an object at a call; None where it is not there


class _Marks:
    """``outer``: the number of the object from before the call that a container is, or None."""

    def __init__(self, outer: Callable[[Any], int | None]):
        self.outer = outer
        self.counts: dict[int, int] = {}
        self.kept: list[Any] = []  # no two objects that are met have one ``id``
        self.numbers: dict[int, int] = {}
        self.cyclic: set[int] = set()

    def count(self, x: Any, spec: Spec) -> None:
        if self._is_back(x, spec):
            self.cyclic.add(id(x))
            self.counts[id(x)] += 1
        if isinstance(spec, Choice) and is_union(x):
            for option, inner in zip(x.options_, spec.options):
                self.count(option, inner)
        if not isinstance(spec, Tree):
            return
        self.kept.append(x)
        self.counts[id(x)] = self.counts.get(id(x), 0) + 1
        if self.counts[id(x)] == 1 and self.outer(x) is None:
            for part, inner in self._parts(x, spec):
                self.count(part, inner)

    def _is_back(self, x: Any, spec: Spec) -> bool:
        """Whether ``spec_of`` found a container inside of itself."""
        return isinstance(spec, Const) and spec.value is x and id(x) in self.counts

    def mark(self, x: Any, spec: Spec) -> Spec:
        if self._is_back(x, spec):
            return Again(self.numbers[id(x)])
        if isinstance(spec, Choice) and is_union(x):
            return Choice(tuple(map(self.mark, x.options_, spec.options)))
        if not isinstance(spec, Tree):
            return spec
        outer = self.outer(x)
        if outer is not None:
            return Tree(spec.cls, spec.aux, spec.parts, outer=outer)
        if id(x) in self.numbers:
            return Again(self.numbers[id(x)])
        number = None
        if self.counts[id(x)] > 1:
            number = self.numbers[id(x)] = len(self.numbers)
        pairs = self._parts(x, spec)
        parts = tuple([self.mark(*pair) for pair in pairs]) if pairs else spec.parts
        return Tree(spec.cls, spec.aux, parts, number, cyclic=id(x) in self.cyclic)

    def _parts(self, x: Any, spec: Tree) -> list[tuple[Any, Spec]]:
        found = None if is_staged_list(spec) else parts_of(x)
        if found is None or len(found[1]) != len(spec.parts):
            return []
        self.kept.append(found)
        return list(zip(found[1], spec.parts))


def marked(
    values: Sequence[Any], specs: Sequence[Spec], outer: Callable[[Any], int | None]
) -> list[Spec]:
    """``specs`` of ``values``, which leave one call together, with marks on what is one object."""
    marks = _Marks(outer)
    for x, spec in zip(values, specs):
        marks.count(x, spec)
    return [marks.mark(x, spec) for x, spec in zip(values, specs)]


class Found:
    """Collects the objects from before the call that leave it. ``place``: how a call finds a container, or None for a new one."""

    def __init__(self, place: Callable[[Any], Outer | None]):
        self.place = place
        self.outers: list[Outer] = []
        self._numbers: dict[int, tuple[Any, int]] = {}

    def __call__(self, x: Any) -> int | None:
        if id(x) not in self._numbers:
            found = self.place(x)
            if found is None:  # so far: what the code reads later may be found then
                return None
            self._numbers[id(x)] = x, len(self.outers)
            self.outers.append(found)
        return self._numbers[id(x)][1]


@dataclass(frozen=True)
class Attribute:
    """The step from a record to one of its attributes."""

    name: str


class Passed:
    """A container of the arguments: ``steps`` from the parameter ``name`` to it."""

    def __init__(self, name: str, steps: tuple[Any, ...]):
        self.name, self.steps = name, steps

    def __call__(self, bound: inspect.BoundArguments | None) -> Any:
        if bound is None:
            return None
        x = bound.arguments[self.name]
        for step in self.steps:
            x = getattr(x, step.name) if type(step) is Attribute else x[step]
        return x


class Outside:
    """A container that was read outside of the function: ``now`` gives the one of a call."""

    def __init__(self, now: Callable[..., Any]):
        self.now = now

    def __call__(self, bound: inspect.BoundArguments | None = None) -> Any:
        try:
            return self.now()
        except LOST:
            return None


def passed(
    x: Any, arguments: Mapping[str, Any], opened: frozenset[type] = frozenset()
) -> Passed | None:
    """Where a container is among the arguments of a call; None where it is in an object that is no record of ``opened``."""
    for name, argument in arguments.items():
        steps = _steps(x, argument, opened)
        if steps is not None:
            return Passed(name, steps)
    return None


# What is taken apart of methods and partial objects (``arguments``).
_HELD = {types.MethodType: ("__self__",), functools.partial: ("func", "args", "keywords")}


def _steps(x: Any, within: Any, opened: frozenset[type]) -> tuple[Any, ...] | None:
    if within is x:
        return ()
    if isinstance(within, (list, tuple)):
        items: Any = enumerate(within)
    elif isinstance(within, dict):
        items = within.items()
    elif type(within) in _HELD:
        items = [(Attribute(n), getattr(within, n)) for n in _HELD[type(within)]]
    elif type(within) in opened:
        names, parts = attributes(within)
        items = zip(map(Attribute, names), parts)
    else:
        return None
    for step, item in items:
        found = _steps(x, item, opened)
        if found is not None:
            return (step, *found)
    return None
