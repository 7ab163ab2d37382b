"""Lists that go from a forward program to its backward one, and round: the objects and the memory of earlier calls.

What a loop saves for its gradient is a list in a buffer of the program (``buffers``). It leaves with its block, and when the gradient has
been taken nobody has it any more. So an output keeps its latest lists: one that only the pool refers to gives its block back to the buffer
and takes that which a call has just filled. Machine code does this (``entry_left``), by two words each: where the object is, and where its words are.

A list whose memory was made a tensor never goes round again: the tensor may outlive the list.
"""

from __future__ import annotations

import ctypes
import functools
import sysconfig
from collections.abc import Callable
from typing import Any

import torch

from ..graph.types import ScalarType, Type
from .buffers import KEPT, Buffers, tensor_over
from .list_items import inside, listed, paired
from .rows import Rows, leave, leaver

DATA, CAPACITY, TAKEN = 1, 2, 3  # words of a list in a pool, behind its length


def fits(kind: Type) -> bool:
    """Whether values of a type are lists in one buffer, whose items follow each other."""
    return listed(kind) and not paired(inside(kind))


def maker(block: Any, kind: Type, buffers: Buffers, private: bool) -> Callable[[], Any]:
    """What gives the result that a call left in buffers; a ``private`` one is read by other programs only."""
    if private and fits(kind) and offsets() is not None:
        return Pool(block, kind, buffers)
    return leaver(block, kind, buffers, private)


@functools.cache
def offsets() -> tuple[int, int] | None:
    """At which bytes of ``Rows`` machine code finds the type of the items and where the words are; None where that does not show, or a count of
    references does not tell who has an object."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    made = Rows(ScalarType(bool), (), (ctypes.c_int64 * 4)())
    size, start = Rows.__basicsize__, id(made)
    found = [
        [k for k in range(0, size, 8) if ctypes.c_size_t.from_address(start + k).value == id(x)]
        for x in (made.item, made.at)
    ]
    return (found[0][0], found[1][0]) if [len(f) for f in found] == [1, 1] else None


class Memory:
    """The block of a list in a pool, which it owns. ``words``: length, block, capacity, and whether a tensor is over it."""

    __slots__ = ("__weakref__", "_release", "dtype", "shape", "words")

    def __init__(self, words: Any, item: Type, release: Callable[[int], None]):
        self.words, self.dtype, self._release = words, item.dtype, release
        self.shape = () if isinstance(item, ScalarType) else tuple(item.shape)

    def __len__(self) -> int:
        return self.words[0]

    def data_ptr(self) -> int:
        """Where the items are."""
        return self.words[DATA]

    @property
    def nbytes(self) -> int:
        """Of all items."""
        return len(self) * torch.Size(self.shape).numel() * self.dtype.itemsize

    def tensor(self) -> torch.Tensor:
        """The items as a tensor over the block."""
        self.words[TAKEN] = 1
        return tensor_over(self, self.words[DATA], self.words[CAPACITY], self.dtype, (len(self), *self.shape))  # fmt: skip

    def __del__(self) -> None:
        if self.words[DATA]:
            self._release(self.words[DATA])


class Pool:
    """Makes the list that a call left in a buffer; ``block`` tells of it (``rows.block``). ``address``: where two words for each kept list are."""

    def __init__(self, block: Any, kind: Type, buffers: Buffers):
        self._block, self._kind, self._buffers = block, kind, buffers
        self._item = inside(kind)
        self._kept: list[Rows | None] = [None] * KEPT
        self._words: list[Any] = [None] * KEPT
        self._table = (ctypes.c_int64 * (2 * KEPT))()

    @property
    def address(self) -> int:
        return ctypes.addressof(self._table)

    def __call__(self) -> Rows:
        """The list in an object that goes round from now on, where there is room for one, else in one of its own."""
        for k, words in enumerate(self._words):
            if words is None or words[TAKEN]:
                return self._fill(k)
        return leave(self._block, self._kind, self._buffers, True)

    def _fill(self, k: int) -> Rows:
        length, place = self._block
        words = (ctypes.c_int64 * 4)(length, *self._buffers.give(place), 0)
        made = Rows(self._item, (Memory(words, self._item, self._buffers.drop),), words)
        self._kept[k], self._words[k] = made, words
        self._table[2 * k], self._table[2 * k + 1] = id(made), ctypes.addressof(words)
        return made
