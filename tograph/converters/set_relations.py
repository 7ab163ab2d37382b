"""What sets have in common where their items depend on a staged condition: ``a <= b``, ``a.isdisjoint(b)`` and their kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .left_alone import leave_alone
from .logical import and_, not_, or_
from .members import Listing, as_set, entries_of, is_conditional, present
from .registry import METHODS, handles


def _within(a: Any, b: Any) -> Any:
    """Whether every item of one set is in another one."""
    found: Any = True
    for test, item in entries_of(a):
        there = present(b, item)
        found = and_(found, lambda test=test, there=there: or_(not_(test), lambda: there))
    return found


def _asked(answer: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A question about the items of a set and of something else that can be gone over."""

    def method(x: set, other: Any) -> Any:
        if not any(map(is_conditional, (x, other))):
            return NotImplemented
        return answer(x, as_set(other, False))

    return method


def _apart(x: Any, other: Any) -> Any:
    found: Any = True
    for test, item in entries_of(x):
        there = present(other, item)
        found = and_(found, lambda test=test, there=there: not_(and_(test, lambda: there)))
    return found


def ordered(name: str, a: Any, b: Any) -> Any:
    """``a <= b`` and its kind of two sets; NotImplemented for anything else."""
    if not all(isinstance(x, (set, frozenset)) for x in (a, b)) or name not in _ORDERS:
        return NotImplemented
    less, more = (a, b) if name[0] == "l" else (b, a)
    found = _within(less, more)
    return found if name[1] == "e" else and_(found, lambda: not_(_within(more, less)))


_ORDERS = ("le", "lt", "ge", "gt")


def _of_keys(keys: Listing, other: Any) -> Any:
    if keys.kind != "keys":
        keys.refuse()
    return _apart(as_set(keys, True), as_set(other, False))


handles(Listing.isdisjoint)(_of_keys)


def _of_frozen(name: str) -> Callable[..., Any]:
    """A method of sets for one that does not change; Python's own where no condition is met."""

    def method(x: frozenset, other: Any) -> Any:
        found = METHODS[set, name](x, other)
        return leave_alone(getattr(x, name), (other,), {}) if found is NotImplemented else found

    return method


METHODS[set, "isdisjoint"] = _asked(_apart)
METHODS[set, "issubset"] = _asked(_within)
METHODS[set, "issuperset"] = _asked(lambda x, other: _within(other, x))
for _name in ("isdisjoint", "issubset", "issuperset"):
    METHODS[frozenset, _name] = _of_frozen(_name)
