"""What an exception that leaves a trace tells.

The changes of a trace are undone where it fails, those of the exception itself, and of what the code has put into it, too. But the exception leaves, and no
call makes it again: what it and the objects in it that the code made held is put there again. What the code found outside is changed by the part of the
graph that runs before the exception goes on.
"""

from __future__ import annotations

from typing import Any

from ...errors import TographError
from .. import control_flow
from ..guarding.reads import Watch
from ..symbols.journal import Journal, Location
from ..values.reach import reachable
from .shown import shows_staged


def told(error: BaseException, log: Journal, watch: Watch) -> list[tuple[Location, Any]]:
    """The places of objects that the code made, and that an exception shows, with what they hold."""
    changed = [place for place in log.locations() if place.keep is not None]
    if not changed:
        return []
    shown = reachable(_chain(error), [place.keep for place in changed])
    made = [p for p in changed if id(p.keep) in shown and watch.source_of(p.keep) is None]
    return [(place, place.get()) for place in made]


def put_again(contents: list[tuple[Location, Any]]) -> None:
    """After the changes were undone: what places held before that."""
    for place, content in contents:
        place._set(content)


def _chain(error: BaseException) -> list[BaseException]:
    """An exception and those that it was raised from, or while they were handled."""
    found = list[BaseException]()
    todo: list[BaseException | None] = [error]
    while todo:
        e = todo.pop()
        if e is not None and not any(e is known for known in found):
            found.append(e)
            todo += [e.__cause__, e.__context__]
    return found


def is_own(error: BaseException) -> bool:
    """Whether an exception is one of the program: plain Python raises it too, after the same effects."""
    if isinstance(error, TographError):
        return isinstance(error, control_flow.ConditionError)
    return isinstance(error, Exception)


def tells_staged(error: BaseException) -> bool:
    """Whether the arguments or attributes of an exception are known only when the graph runs."""
    return any(map(shows_staged, (error, *vars(error).values())))


def without(error: BaseException, other: BaseException) -> None:
    """Take ``other``, and what led to it, out of what is shown as the context of ``error``."""
    at = error
    while at.__context__ is not None:
        if at.__context__ is other:
            at.__context__ = None
            return
        at = at.__context__
