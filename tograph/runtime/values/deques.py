"""``StagedDeque``: the ``collections.deque`` of converted code, which can become a list of the graph.

``deque(...)`` in a traced function makes one. It is a ``StagedList`` with the methods of a deque; its class holds ``maxlen``,
so that contents of different bounds are of different kinds. What leaves the function is a ``collections.deque``.

Invariant: there are never more than ``maxlen`` items: an addition at one end drops what is too many at the other.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable
from typing import Any

from ..symbols.funcgraph import current_graph, is_tracing
from .growing import StagedList


class StagedDeque(StagedList):
    """A deque whose content may be a value of the graph."""

    maxlen: int | None = None
    kind_ = "deque"

    def __init__(self, items: Any = ()):
        super().__init__(items)
        if type(items) is not type(self):
            self._drop(left=True)

    @property
    def __class__(self) -> type:
        return deque

    @classmethod
    def _plain(cls, items: Any) -> Any:
        return deque(items, cls.maxlen)

    def _drop(self, left: bool) -> None:
        """Drop what is too many, at the left or right end."""
        most = self.maxlen
        if most is None:
            return
        if self.handle is not None:
            bounds = (-most, None) if left and most else (None, most)
            self._update("list_slice", *bounds, None)
        elif list.__len__(self) > most:
            first = list.__len__(self) - most
            list.__delitem__(self, slice(0, first) if left else slice(most, None))

    def __iter__(self):
        if self.handle is not None:
            self._refuse("be iterated outside of converted code")
        size, graph = list.__len__(self), current_graph() if is_tracing() else None
        for x in list.__iter__(self):
            yield x
            same = graph is None or current_graph() is graph
            if same and self.handle is None and list.__len__(self) != size:
                raise RuntimeError("deque mutated during iteration")

    def append(self, x: Any) -> None:
        super().append(x)
        self._drop(left=True)

    def appendleft(self, x: Any) -> None:
        super().insert(0, x)
        self._drop(left=False)

    def insert(self, index: Any, x: Any) -> None:
        if self.maxlen is not None:
            if self.handle is not None:
                self._refuse("be inserted into when it has a maxlen")
            if list.__len__(self) >= self.maxlen:
                raise IndexError("deque already at its maximum size")
        super().insert(index, x)

    def extend(self, items: Any) -> None:
        super().extend(list.copy(self) if items is self and self.handle is None else items)
        self._drop(left=True)

    def extendleft(self, items: Iterable[Any]) -> None:
        for x in list.copy(self) if items is self and self.handle is None else items:
            self.appendleft(x)

    def pop(self) -> Any:
        return self._taken(-1)

    def popleft(self) -> Any:
        return self._taken(0)

    def _taken(self, index: int) -> Any:
        if self.handle is None and not list.__len__(self):
            raise IndexError("pop from an empty deque")
        return self.take(index)

    def rotate(self, n: int = 1) -> None:
        if self.handle is not None:
            self._refuse("be rotated by a number that is known")
        size = list.__len__(self)
        cut = -n % size if size else 0
        self.become(list.__getitem__(self, slice(cut, None)) + list.__getitem__(self, slice(cut)))

    def copy(self) -> StagedDeque:
        return type(self)(self)

    __copy__ = copy

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise TypeError("sequence index must be integer, not 'slice'")
        if self.handle is None:
            try:
                return list.__getitem__(self, index)
            except IndexError:
                raise IndexError("deque index out of range") from None
        return self.item(index)

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, deque):
            raise TypeError(
                f'can only concatenate deque (not "{other.__class__.__name__}") to deque'
            )
        made = self.copy()
        made.extend(other)
        return made

    def __radd__(self, other: Any) -> Any:
        raise TypeError('can only concatenate list (not "collections.deque") to list')

    def __mul__(self, count: Any) -> Any:
        made = super().__mul__(count)
        return type(self)(made)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return super().__eq__(_items(other)) if isinstance(other, deque) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return super().__ne__(_items(other)) if isinstance(other, deque) else NotImplemented

    def __repr__(self) -> str:
        if self.handle is not None:
            return super().__repr__()
        bound = "" if self.maxlen is None else f", maxlen={self.maxlen}"
        return f"deque({super().__repr__()}{bound})"

    def __reduce_ex__(self, protocol: Any):
        return deque, (list(self), self.maxlen)

    @property
    def sort(self) -> Any:
        raise AttributeError("'collections.deque' object has no attribute 'sort'")


StagedDeque.__name__ = "collections.deque"  # in messages of Python


def _items(x: Any) -> Any:
    """A deque of Python as a list, to compare with."""
    return x if isinstance(x, StagedList) else list(x)


@functools.cache
def bounded(maxlen: int | None) -> type[StagedDeque]:
    """The class of deques of at most ``maxlen`` items."""
    if maxlen is None:
        return StagedDeque
    return type(StagedDeque.__name__, (StagedDeque,), {"maxlen": maxlen})
