"""Containers that a staged construct made anew of ones that other names hold too.

Python has one object there, so what would show two begins the trace again, **apart** (``telling``): a change of either, one that leaves
the call in the place of one that the caller holds, and two that leave it. What leaves a trace that cannot be made apart is an equal object.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, NamedTuple

from ...errors import AliasError
from ..guarding import reads
from ..symbols import journal
from ..symbols.funcgraph import current_graph, user_location
from ..symbols.retrace import Retrace
from ..values import structure
from .containers import containers


def guard(x: Any, name: str | None) -> None:
    """A change of ``x`` is an error, if not followed. ``name``: of the variable or place that holds it."""

    def refuse() -> None:
        error = may_be_held(x, name)
        if current_graph().root.apart:
            raise error
        raise Retrace(apart=error)

    journal.guard(x, refuse)


class Double(NamedTuple):
    """``x``, which was made anew where Python has one of ``of``, by identity, or, ``callers``, one of what the caller holds; ``name``: of what holds it."""

    x: Any
    name: str | None
    of: dict[int, Any]
    callers: bool


class Origins(NamedTuple):
    """What Python has in the place of what was made anew; ``of`` and ``callers`` as of ``Double``."""

    of: dict[int, Any]
    callers: bool


def origins(found: Iterable[Any], before: Container[int] = ()) -> Origins:
    """``before``: which of those that were found, by identity, existed before the construct."""
    doubles, unique = current_graph().root.doubles, {id(x): x for x in found}
    of = dict[int, Any]()
    for i, x in unique.items():
        if i in before:
            of |= doubles[i].of if i in doubles else {i: x}
    return Origins(of, any(map(_is_the_callers, unique.values())))


def note(x: Any, name: str | None, from_: Origins) -> None:
    """``x`` was made anew."""
    guard(x, name)
    if from_.of or from_.callers:
        current_graph().root.doubles[id(x)] = Double(x, name, *from_)


def _is_the_callers(x: Any) -> bool:
    root = current_graph().root
    lent = any(made is x for made, _ in root.lent)
    double = root.doubles.get(id(x))
    return lent or (double is not None and double.callers) or structure.OUTSIDE[0](x)


def check(contents: Iterable[Any]) -> None:
    """These leave the call: none may be made anew of what the caller holds, or of what leaves too."""
    root = current_graph().root
    watch = reads.current()
    if root.apart or root.merged or not root.doubles or (watch is not None and watch.acted):
        return
    leaving = {id(x): x for content in contents for _, x in containers(content)}
    seen: set[int] = set(leaving)
    for double in filter(None, map(root.doubles.get, leaving)):
        of = double.of.keys() - {id(double.x)}
        if double.callers or not seen.isdisjoint(of):
            raise Retrace(apart=may_be_held(double.x, double.name), leaving=True)
        seen |= of


def may_be_held(x: Any, name: str | None) -> AliasError:
    kind = getattr(x, "kind_", type(x).__name__)
    names, one = (f"'{name}' and by another name", f"'{name}'") if name else ("two names", "one of them")  # fmt: skip
    return AliasError(
        f"this {kind} may be held by {names}, by a staged condition or loop, and which one is known only when "
        f"the graph runs; so it cannot be changed, or compared by `is`, here. Give {one} a copy of its own, or use one name.",
        user_location(),
    )
