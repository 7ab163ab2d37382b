"""Containers that a staged construct made anew of ones that other names hold too.

Python has one object there, so what would show two begins the trace again, **apart** (``telling``): a change of either, and one that leaves
the call in the place of one that the caller holds. What leaves a trace that cannot be made apart is an equal object.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...errors import AliasError
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


def note(x: Any, name: str | None, origins: Iterable[Any]) -> None:
    """``x`` was made anew where Python has one of ``origins``."""
    guard(x, name)
    if any(map(_is_the_callers, origins)):
        current_graph().root.doubles[id(x)] = x, name


def _is_the_callers(x: Any) -> bool:
    root = current_graph().root
    lent = any(made is x for made, _ in root.lent)
    return lent or id(x) in root.doubles or structure.OUTSIDE[0](x)


def check(contents: Iterable[Any]) -> None:
    """These leave the call: none may be made anew of what the caller holds."""
    root = current_graph().root
    if root.apart or root.merged:
        return
    for content in contents if root.doubles else ():
        for _, x in containers(content):
            if id(x) in root.doubles:
                raise Retrace(apart=may_be_held(*root.doubles[id(x)]), leaving=True)


def may_be_held(x: Any, name: str | None) -> AliasError:
    kind = getattr(x, "kind_", type(x).__name__)
    names, one = (f"'{name}' and by another name", f"'{name}'") if name else ("two names", "one of them")  # fmt: skip
    return AliasError(
        f"this {kind} may be held by {names}, by a staged condition or loop, and which one is known only when "
        f"the graph runs; so it cannot be changed, or compared by `is`, here. Give {one} a copy of its own, or use one name.",
        user_location(),
    )
