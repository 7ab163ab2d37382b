"""Whether a ``finally`` does nothing where its body fails when the graph runs: the body needs no region of its own then.

Nothing: it changes only what is Python's own, as the gradient mode is, writes what is there already, or writes what is known
(``token = v.set(x)`` ... ``finally: v.reset(token)``): that is what is shown in these places where the body fails.

It has to do so at whatever op the body fails. So it is run twice: first in the place of a failure, where all that the body
changes is ``_Between`` and a look at it gives the answer no, then for good, as the body left things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..runtime import control_flow
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import current_graph
from ..runtime.symbols.journal import Location


class Looked(BaseException):
    """A ``finally`` looks at what its body changes."""


class _Between:
    """In the place of what a body changes: what that is depends on where the body fails."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__" and _placing:
            return _Between  # a module asks of all that is put into it whether it is a parameter
        raise Looked


def _look(*_: Any, **__: Any) -> Any:
    raise Looked


_ASKED = {n for kind in (int, float, str, list, dict) for n in vars(kind) if n.startswith("__")}
_ASKED |= {"__call__", "__next__", "__enter__", "__exit__", "__setattr__", "__delattr__"}
for _name in sorted(_ASKED - {"__new__", "__init__", "__getattribute__", "__doc__"}):
    setattr(_Between, _name, _look)
_placing: list[bool] = []
_MARKED = ("cell", "attr", "key")


def is_idle(
    final: Callable[[], None] | None, attempt: control_flow.Attempt, places: Sequence[Location]
) -> bool:
    """Run a ``finally`` behind its body; whether it does nothing, at each op of that which may fail. ``places``: the variables that the body assigns."""
    if final is None:
        return True
    body = attempt.log
    with _between(body) as hidden:
        found = _changed_by(final, body, places, keep=False) if hidden else None
    if found is None:
        return False
    left = _changed_by(final, body, places, keep=True)
    if left is None or left.keys() != found.keys():
        return False
    if any(left[key] is not content for key, content in found.items()):
        return False
    return not left or _put_back(left, attempt)


@contextmanager
def _between(body: journal.Journal) -> Iterator[bool]:
    """Inside, nobody can tell what the body left in the places that it changed; sets and dicts that it changed as a whole hold what they held before it.

    False where that cannot be, since a place takes values of its kind only (a buffer of a module).
    """
    now = [
        (place, place.get(), old)
        for place, old in body.entries.values()
        if place.refuse is None and place.key[0] in (*_MARKED, "contents")
    ]
    try:
        yield _hide(now)
    finally:
        for place, left, _ in reversed(now):
            place._set(left)


def _hide(changed: Sequence[tuple[Location, Any, Any]]) -> bool:
    between = _Between()  # one that lasts would raise in code that asks all objects for their class (``gc.get_objects()``)
    try:
        with _quiet():
            for place, left, old in changed:
                if place.key[0] in _MARKED:
                    place._set(between)
                elif isinstance(place.keep, list):
                    place._set([between])
                elif left is not old:
                    place._set(old)
    except (TypeError, AttributeError, Looked):
        return False
    return True


@contextmanager
def _quiet() -> Iterator[None]:
    """Values are put into places, which may ask for the class of each."""
    _placing.append(True)
    try:
        yield
    finally:
        _placing.pop()


def _changed_by(
    final: Callable[[], None], body: journal.Journal, places: Sequence[Location], keep: bool
) -> dict[Any, Any] | None:
    """The contents of places that a ``finally`` decides; None where it does something else.

    ``keep``: what it does stays.
    """
    graph, log = current_graph().graph, journal.push(tried=True)
    before = len(graph.nodes)
    seen = [(p, p.get()) for p in places] if control_flow.in_body() else []
    try:
        final()
        if len(graph.nodes) != before or any(place.get() is not old for place, old in seen):
            return None
        return _written(log, body)
    except (Exception, Looked):
        return None  # what it raises is raised again where the statement is staged
    finally:
        journal.unwind(log)
        if keep:
            journal.adopt(log)
        else:
            with _quiet():
                log.rollback()


def _written(log: journal.Journal, body: journal.Journal) -> dict[Any, Any] | None:
    """What a ``finally`` leaves in the places that it writes, but for those where it writes what is there anyway; None where handlers around would see it."""
    now = {key: (place.get(), old) for key, (place, old) in log.entries.items()}
    found = {k: new for k, (new, old) in now.items() if new is not old or k in body.entries}
    return None if found and control_flow.in_body() else found


def _put_back(restored: dict[Any, Any], attempt: control_flow.Attempt) -> bool:
    """What is shown where the body fails has these contents in these places; False where that cannot be had without running the ``finally``."""
    if not all(shown.put_back(restored, mark) for shown, mark in attempt.marks):
        return False
    current_graph().root.kept.update(restored)
    return True
