"""What methods of built-in containers do to them: changes are recorded in the journal, looks in the watch of the trace."""

from __future__ import annotations

from typing import Any

from ..errors import StagingError
from ..runtime.guarding import guards, reads
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import user_location
from ..runtime.values import conditional_items, locations
from ..runtime.values.reserved import shrinks
from ..runtime.values.structure import may_miss
from . import tensor_keys
from .registry import hashable


def record_change(owner, name, args, kwargs) -> None:
    """A method is about to change a container: a step of its own when it neither looks at the content nor fails."""
    blind = name in _BLIND and not kwargs
    if name in ("pop", "popitem", "clear", "__delitem__"):
        shrinks(owner)
    if blind and name in ("extend", "extendleft", "update", "__iadd__"):
        reads.passed(args)
        blind = all(type(a) in guards.CONTAINERS for a in args)
        args = (
            tuple(list(a) if not isinstance(a, dict) else dict(a) for a in args) if blind else args
        )
    if not blind:
        watch = reads.current()
        if watch is not None:
            watch.whole(owner)
    if name == "__setitem__" and isinstance(owner, dict):
        record_key(owner, args[0])
        return
    journal.record(locations.contents(owner), (name, args) if blind else None)


def record_key(x: dict, key: Any) -> None:
    """A key of a dict is about to be set."""
    if not journal.active():
        return
    tensor_keys.refuse_new(x, key)
    if not dict.__contains__(x, key) and journal.removed(x, key):
        journal.record(locations.contents(x))  # it comes back as the last key
    elif may_miss(dict.get(x, key)) and key not in {next(reversed(x)): None}:  # as a dict asks
        conditional_items.unorder(x)  # where it was not there, it is the last key now
    journal.record(locations.key_of(x, key, f"[{key!r}]"))


def note_look(owner, name, args) -> None:
    """A method looks at a container."""
    watch = reads.current()
    if watch is None or watch.source_of(owner) is None:
        return
    if name == "get" and args and isinstance(owner, dict) and hashable(args[0]):
        found = dict.get(owner, args[0], _ABSENT)  # a user's class may have a `get` of its own
        if found is _ABSENT:
            watch.missing_key(owner, args[0])
        else:
            watch.item(owner, args[0], found)
    else:
        watch.whole(owner)


_ABSENT = object()
# Changes that do not depend on the content, and cannot fail.
_BLIND = frozenset([
    "append", "appendleft", "extend", "extendleft", "insert", "add", "update", "discard", "clear", "reverse",
])  # fmt: skip
CHANGING = frozenset([
    "append", "insert", "extend", "add", "update", "setdefault", "appendleft", "extendleft", "pop", "popitem", "popleft", "remove",
    "discard", "clear", "sort", "reverse", "rotate", "difference_update", "intersection_update", "symmetric_difference_update",
    "move_to_end", "__setitem__", "__delitem__", "__iadd__", "__imul__",
    "__ior__", "__iand__", "__isub__", "__ixor__",
])  # fmt: skip


def check_default(default: Any) -> None:
    """StagingError for a ``setdefault`` that puts a container under a key by a staged condition: what it gives would be another one."""
    if isinstance(default, (list, dict, set)):
        raise StagingError(
            "setdefault() with a list, dict or set, where a staged condition decides whether the key is there: set the keys before",
            user_location(),
        )
