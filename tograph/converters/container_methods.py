"""Calls of methods of lists, dicts, sets, deques and bytearrays: forms of their own, and changes, which are recorded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ..runtime.guarding import outer_lists, reads
from ..runtime.symbols import journal
from ..runtime.values import inner_lists
from ..runtime.values.structure import is_union
from . import tensor_keys, union
from .call_rules import missing_method
from .container_changes import CHANGING, note_look, record_change
from .left_alone import leave_alone
from .registry import METHODS

MUTABLE = (list, dict, set, deque, bytearray)


def container_method(
    call: Callable[..., Any], f: Any, owner: Any, args: tuple, kwargs: dict
) -> Any:
    """The result of a method of a container; ``call``: how converted code calls."""
    if f.__name__ in ("append", "extend") and type(owner) is list:
        grown = outer_lists.additions(owner, reads.current())
        if grown is not None:
            outer_lists.check_kinds(
                owner, args if f.__name__ == "append" else args[0], reads.current()
            )
            return call(getattr(grown, f.__name__), *args, **kwargs)
    if args:
        tensor_keys.identify(owner, args[0])
    if (
        args
        and is_union(args[0])
        and f.__name__ in _BY_KEY.get(type(owner).__mro__[-2], frozenset())
    ):
        return union.distribute(lambda key: call(f, key, *args[1:], **kwargs), args[0])
    form = METHODS.get((type(owner), f.__name__))
    if form is not None:
        result = form(owner, *args, **kwargs)
        if result is not NotImplemented:
            return result
    if f.__name__ in CHANGING and journal.active():
        return inner_lists.changing(owner, lambda: _recorded(f, owner, args, kwargs))
    if f.__name__ in CHANGING:
        return f(*args, **kwargs)
    note_look(owner, f.__name__, args)
    missing = missing_method(owner, *args) if f.__name__ == "__getitem__" else None
    return call(missing, owner, *args) if missing else leave_alone(f, args, kwargs)


def _recorded(f, owner, args, kwargs):
    record_change(owner, f.__name__, args, kwargs)
    return f(*args, **kwargs)


# Methods whose first argument is a key, an index or a member.
_BY_KEY: dict[type, frozenset[str]] = {
    dict: frozenset(["get", "pop", "setdefault"]),
    set: frozenset(["add", "discard", "remove"]),
    list: frozenset(["pop", "insert"]),
}
