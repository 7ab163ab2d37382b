"""``s.discard(n)`` and ``s.remove(n)`` with a number, string or tuple that only the run knows.

Of a set of a few items that are known each is compared, and is in the set by a condition from there on. Any other is a table of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import members
from .calls import call
from .keyed import where_key
from .new_keys import need_table
from .staging import is_staged_key

MOST = 64  # items of which each is compared


def _taken(x: set, item: Any, name: str, absent: Callable[[], None]) -> Any:
    if not is_staged_key(item):
        return members.METHODS[name](x, item)
    if len(x) > MOST or any(map(is_staged_key, x)):
        need_table(x)
    return where_key(x, item, lambda known: call(getattr(x, name), known), absent)


def discard(x: set, item: Any) -> Any:
    return _taken(x, item, "discard", lambda: None)


def remove(x: set, item: Any) -> Any:
    def absent() -> None:
        raise KeyError(item)

    return _taken(x, item, "remove", absent)


METHODS: dict[str, Callable[..., Any]] = {"discard": discard, "remove": remove}
