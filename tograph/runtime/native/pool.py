"""Lists that go from a forward program to its backward one, and round: the objects and the memory of earlier calls.

What a loop or a branch saves for its gradient is a list in buffers of the program (``buffers``), one or several (``rows``). It leaves with
their blocks, and when the gradient has been taken nobody has it any more. So an output keeps its latest lists: one that only the pool refers to gives its
blocks back to the buffers and takes those which a call has just filled. Machine code does this (``entry_left``), by two words each: where the object is, and where its words are.

A list whose memory was made a tensor never goes round again: the tensor may outlive the list.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

from ..graph.types import STR, ScalarType, Type
from .buffers import KEPT, Buffers, tensor_over
from .list_items import PAIR, inside, listed, paired
from .rows import Rows, leave, leaver

# Words of a list in a pool: its length, where each buffer's block is, as a slot has it; then the capacity of each block; last whether a tensor is over one.
DATA = 1


def fits(kind: Type) -> bool:
    """Whether values of a type are lists that may go round."""
    return listed(kind) and _levels(inside(kind))[-1] != STR


def _levels(item: Type) -> list[Type]:
    """What the items of each buffer of a list of such items are."""
    found = [item]
    while paired(found[-1]):
        found.append(inside(found[-1]))
    return found


def maker(block: Any, kind: Type, buffers: Buffers, private: bool) -> Callable[[], Any]:
    """What gives the result that a call left in buffers; a ``private`` one is read by other programs only."""
    if private and fits(kind) and offsets() is not None:
        return Pool(block, kind, buffers)
    return leaver(block, kind, buffers, private)


@functools.cache
def offsets() -> tuple[int, int] | None:
    """At which bytes of ``Rows`` machine code finds the type of the items and where the words are; None where that does not show, or a count of
    references does not tell who has an object."""
    if "free-threading" in sys.version:
        return None
    made = Rows(ScalarType(bool), (), (ctypes.c_int64 * 4)())
    size, start = Rows.__basicsize__, id(made)
    found = [
        [k for k in range(0, size, 8) if ctypes.c_size_t.from_address(start + k).value == id(x)]
        for x in (made.item, made.at)
    ]
    return (found[0][0], found[1][0]) if [len(f) for f in found] == [1, 1] else None


class Memory:
    """The block of a buffer of a list in a pool, which it owns. ``words``: those of the list; ``number``: that of the buffer among ``levels``."""

    __slots__ = ("__weakref__", "_release", "dtype", "levels", "number", "shape", "words")

    def __init__(self, words: Any, number: int, levels: list[Type], release: Callable[[int], None]):
        self.words, self.number, self.levels, self._release = words, number, len(levels), release
        item = levels[number]
        self.dtype = torch.int64 if paired(item) else item.dtype
        self.shape = (2,) if paired(item) else () if isinstance(item, ScalarType) else tuple(item.shape)  # fmt: skip

    def __len__(self) -> int:
        count = self.words[0]
        for data in self.words[DATA : DATA + self.number]:
            # The last pair of a buffer tells where what is in the next one ends.
            count = ctypes.c_int64.from_address(data + PAIR * count - 8).value if count else 0
        return count

    def data_ptr(self) -> int:
        """Where the items are."""
        return self.words[DATA + self.number]

    @property
    def nbytes(self) -> int:
        """Of all items."""
        return len(self) * torch.Size(self.shape).numel() * self.dtype.itemsize

    def tensor(self) -> torch.Tensor:
        """The items as a tensor over the block."""
        self.words[-1] = 1
        capacity = self.words[DATA + self.levels + self.number]
        return tensor_over(self, self.data_ptr(), capacity, self.dtype, (len(self), *self.shape))

    def __del__(self) -> None:
        if self.data_ptr():
            self._release(self.data_ptr())


class Pool:
    """Makes the list that a call left in buffers; ``block`` tells of it (``rows.block``). ``address``: where two words for each kept list are."""

    def __init__(self, block: Any, kind: Type, buffers: Buffers):
        self._block, self._kind, self._buffers = block, kind, buffers
        self._levels = _levels(inside(kind))
        self._kept: list[Rows | None] = [None] * KEPT
        self._words: list[Any] = [None] * KEPT
        self._table = (ctypes.c_int64 * (2 * KEPT))()

    @property
    def address(self) -> int:
        return ctypes.addressof(self._table)

    @property
    def depth(self) -> int:
        """How many buffers its lists have."""
        return len(self._levels)

    def __call__(self) -> Rows:
        """The list in an object that goes round from now on, where there is room for one, else in one of its own."""
        for k, words in enumerate(self._words):
            if words is None or words[-1]:
                return self._fill(k)
        return leave(self._block, self._kind, self._buffers, True)

    def _fill(self, k: int) -> Rows:
        length, *places = self._block
        data, capacities = zip(*map(self._buffers.give, places), strict=True)
        words = (ctypes.c_int64 * (2 + 2 * self.depth))(length, *data, *capacities, 0)
        drop, levels = self._buffers.drop, self._levels
        parts = tuple(Memory(words, i, levels, drop) for i in range(self.depth))
        made = Rows(levels[0], parts, words)
        self._kept[k], self._words[k] = made, words
        self._table[2 * k], self._table[2 * k + 1] = id(made), ctypes.addressof(words)
        return made
