"""The methods of sets whose items depend on a condition, or that are given what only the run knows; ``a <= b`` and its kind of sets of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import StagingError
from ...runtime.symbols.funcgraph import user_location
from ...runtime.values.growing import StagedList
from ...runtime.values.structure import is_growing
from ...runtime.values.tables import is_table
from .. import members, staged_members
from ..calls import call
from ..left_alone import leave_alone
from ..logical import and_
from ..new_keys import need_table
from ..registry import GROWING, METHODS
from ..staging import is_staged_key
from ..table_algebra import OF_SETS, as_set, no_frozen
from ..user_operators import TABLES_ORDERED, lt

_ASKED = ("isdisjoint", "issubset", "issuperset")
_MADE = ("union", "difference", "intersection", "symmetric_difference")
_CHANGED = ("difference_update", "intersection_update", "symmetric_difference_update")
_NAMES = {set: (*_ASKED, *_MADE, *_CHANGED), frozenset: (*_ASKED, *_MADE)}


def ordered(name: str, a: Any, b: Any) -> Any:
    """``a <= b`` and its kind, one of them a table; None where there is no such order."""
    a, b = as_set(a), as_set(b)
    if not all(isinstance(x, (set, frozenset)) for x in (a, b)):
        return None
    less, more = (a, b) if name[0] == "l" else (b, a)
    found = OF_SETS["issubset"](less, more)
    return found if name[1] == "e" else and_(found, lambda: lt(call(len, less), call(len, more)))


def _given(x: Any) -> Any:
    """A list or tuple with items that only the run knows as a set; anything else as it is."""
    plain = isinstance(x, (list, tuple)) and not is_growing(x)
    return call(set, x) if plain and any(map(is_staged_key, x)) else as_set(x)


def _method(kind: type, name: str) -> Callable[..., Any]:
    own = METHODS.get((kind, name))

    def method(x: Any, *others: Any) -> Any:
        given = tuple(map(_given, others))
        if not any(is_table(o) or is_growing(o) for o in given):  # fmt: skip
            if own is not None:
                return own(x, *others)
            return (
                leave_alone(getattr(x, name), others, {}) if kind is frozenset else NotImplemented
            )
        if name in _CHANGED:
            need_table(x)
            raise StagingError("a set that is changed by items that are known only when the graph runs has to be made in the function", user_location())  # fmt: skip
        if name in _MADE and kind is frozenset:
            raise no_frozen()
        return OF_SETS[name](x, *given)

    return method


def _keys_apart(keys: StagedList, other: Any) -> Any:
    """``d.keys().isdisjoint(other)``"""
    return OF_SETS["isdisjoint"](as_set(keys), other)


GROWING["isdisjoint"] = _keys_apart
TABLES_ORDERED.append(ordered)
for _name, _form in (members.METHODS | staged_members.METHODS).items():
    METHODS[set, _name] = _form
for _kind, _names in _NAMES.items():
    for _name in _names:
        METHODS[_kind, _name] = _method(_kind, _name)
