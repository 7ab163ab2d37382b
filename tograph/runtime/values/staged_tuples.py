"""``StagedTuple``: the tuple of converted code whose length is known only when the graph runs.

``tuple(xs)``, ``(*xs,)`` and ``*args`` make one of a list of the graph. It is a ``StagedList`` without what changes lists, so that two names
of it never differ. What leaves the function is a tuple.

Invariant: its content is always one of the graph; a tuple whose length is known is Python's own.
"""

from __future__ import annotations

from typing import Any

from ..symbols.funcgraph import current_graph
from . import inner_lists, structure
from .growing import StagedList, as_staged
from .list_lengths import known_length

_CHANGES = ("append", "insert", "extend", "pop", "remove", "clear", "reverse", "sort", "copy")


class StagedTuple(StagedList):
    """A tuple whose content is a value of the graph."""

    kind_ = "tuple"
    frozen = True
    __tograph_frozen__ = True

    @property
    def __class__(self) -> type:
        return tuple

    @classmethod
    def _plain(cls, items: Any) -> Any:
        return tuple(items)

    def __hash__(self) -> int:
        return self._refuse("be hashed")

    def sliced(self, bounds: slice) -> Any:
        return as_tuple(super().sliced(bounds))

    def __setitem__(self, index: Any, x: Any) -> None:
        raise TypeError("'tuple' object does not support item assignment")

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, tuple):
            raise TypeError(
                f'can only concatenate tuple (not "{other.__class__.__name__}") to tuple'
            )
        return self._joined_to(self, other)

    __iadd__ = __add__

    def __radd__(self, other: Any) -> Any:
        return self._joined_to(other, self) if isinstance(other, tuple) else NotImplemented

    def __delitem__(self, index: Any) -> None:
        raise TypeError("'tuple' object doesn't support item deletion")

    def __mul__(self, count: Any) -> Any:
        return as_tuple(super().__mul__(count))

    __rmul__ = __imul__ = __mul__

    @staticmethod
    def _joined_to(a: Any, b: Any) -> Any:
        made = StagedList(a)
        made.extend(StagedList(b))
        return as_tuple(made)

    def __copy__(self) -> Any:
        return self

    def __reduce_ex__(self, protocol: Any):
        return tuple, (list(self),)


def _absent(name: str) -> property:
    def missing(self):
        raise AttributeError(f"'tuple' object has no attribute {name!r}")

    return property(missing)


structure.STAGED.tuples = StagedTuple
StagedTuple.__name__ = "tuple"  # in messages of Python
for _name in _CHANGES:
    setattr(StagedTuple, _name, _absent(_name))


def as_tuple(items: Any) -> Any:
    """A tuple of the items of a list: Python's own where their number is known."""
    count = number_of(items)
    if count is None:
        return inner_lists.copies(StagedTuple(items))
    return tuple(items if items.handle is None else [items.item(i) for i in range(count)])


def number_of(items: StagedList) -> int | None:
    """How many items a list has; None where only the run knows."""
    if items.handle is None:
        return list.__len__(items)
    return known_length(items.values(current_graph())[0])


def joined(parts: list[Any]) -> Any:
    """A tuple of the items of several sequences, of which some are of the graph."""
    made = as_staged(StagedList(parts[0]))
    for part in parts[1:]:
        made.extend(StagedList(part))
    return as_tuple(made)
