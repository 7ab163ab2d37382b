"""Of which objects of a call the code asks which they are: copies of them (``Watch.copies``) cannot tell.

By ``is`` the code asks for one object; by ``==``, a key or a member also for all that a container, or an object that compares by its attributes, has in it.
Of several copies the key of the trace tells which are one, so only what is compared with something else counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import torch

from ..values.pytrees import attributes, is_record_class
from .guards import ATOMS

MOST = 10_000  # parts of what is compared that are looked at
_CONTAINERS = (tuple, list, dict, set, frozenset)


def within(xs: Iterable[Any]) -> Iterator[Any]:
    """The objects among ``xs`` and in what they hold, where the comparison goes into it."""
    todo, seen = list(xs), set[int]()
    while todo and len(seen) < MOST:
        x = todo.pop()
        if isinstance(x, (*ATOMS, torch.Tensor)) or x is None or id(x) in seen:
            continue
        seen.add(id(x))
        kind = next((k for k in _CONTAINERS if issubclass(type(x), k)), None)
        if kind is not None:
            todo += kind.__iter__(x)
            todo += dict.values(x) if kind is dict else ()
        elif type(x).__eq__ is object.__eq__:
            yield x
        elif is_record_class(type(x)):
            todo += attributes(x)[1]


def asked(copies: Collection[int], xs: Iterable[Any], alone: bool) -> set[int]:
    """Which of the copies are compared with something else. ``alone``: all are."""
    found = [id(x) for x in within(xs)]
    mine = copies & set(found)
    return mine if alone or len(mine) < len(set(found)) else set()


def keyed(copies: Collection[int], key: Any, others: Callable[[], Iterable[Any]]) -> set[int]:
    """The same of a key and those that a dict or set has."""
    if isinstance(key, (*ATOMS, torch.Tensor)) or next(within([key]), None) is None:
        return set()
    return asked(copies, [key, *others()], alone=False)
