"""Lists as they go into and out of native code.

A list that goes from one program to another, as what a forward pass saves for the backward one, is ``Rows``: the memory of
its buffers as tensors. Everybody else gets the tuple of items that the host makes, each in memory of its own.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils._pytree import register_pytree_node

from ..gradients.transforms import is_wrapped
from ..graph.types import STR, ListType, ScalarType, TensorType, Type
from .buffers import Buffers
from .extents import in_order, unknown
from .list_items import depth, inside, paired
from .text_pool import taken

_WORD = torch.int64
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class Sized:
    """A tensor that lies row by row, with sizes that only the run knows, as an input. ``address``: where these are, and behind them where it is."""

    __slots__ = ("_words", "tensor")

    def __init__(self, x: torch.Tensor, kind: TensorType):
        given = *(n for n, m in zip(x.shape, kind.shape) if m is None), x.data_ptr()
        self.tensor, self._words = x, (ctypes.c_int64 * len(given))(*given)

    def address(self) -> int:
        """What a slot points to."""
        return ctypes.addressof(self._words)

    def spans(self) -> list[tuple[int, int]]:
        """Where it begins and ends."""
        return [(self.tensor.data_ptr(), self.tensor.data_ptr() + self.tensor.nbytes)]


class Rows:
    """A list of items of type ``item``. ``parts``: its buffers, see ``values.Listed``.

    ``words``: the length of the list, and where its buffers are; ``at``: where the words are, 0 before somebody asked.
    """

    __slots__ = ("_parts", "_words", "at", "item")

    def __init__(self, item: Type, parts: Sequence[Any], words: Any = None):
        self.item, self._parts, self._words = known(item), parts, words
        self.at = 0 if words is None else ctypes.addressof(words)

    def address(self) -> int:
        """What a slot points to: the words."""
        if not self.at:
            given = len(self._parts[0]), *(p.data_ptr() for p in self._parts)
            self._words = (ctypes.c_int64 * len(given))(*given)
            self.at = ctypes.addressof(self._words)
        return self.at

    @property
    def parts(self) -> tuple[torch.Tensor, ...]:
        """The buffers as tensors."""
        made = tuple(p if isinstance(p, torch.Tensor) else p.tensor() for p in self._parts)
        self._parts = made
        return made

    def spans(self) -> list[tuple[int, int]]:
        """Where its buffers begin and end."""
        return [(p.data_ptr(), p.data_ptr() + p.nbytes) for p in self._parts]

    def items(self) -> tuple:
        """The items as the host has them."""
        return _items(self.item, self.parts, 0, len(self.parts[0]))


_TYPES: dict[Type, Type] = {}


def known(item: Type) -> Type:
    """The one object that stands for a type in ``Rows``: machine code compares by identity."""
    return _TYPES.setdefault(item, item)


register_pytree_node(Rows, lambda x: (list(x.parts), x.item), lambda parts, item: Rows(item, tuple(parts)))  # fmt: skip


def _items(item: Type, parts: tuple[torch.Tensor, ...], first: int, end: int) -> tuple:
    if paired(item):
        pairs = parts[0][first:end].tolist()
        if isinstance(item, TensorType):
            return tuple(_turned(parts[1][a:b], unknown(item)) for a, b in pairs)
        return tuple(_items(item.element, parts[1:], a, b) for a, b in pairs)
    found = parts[0][first:end]
    return tuple(found.tolist() if isinstance(item, ScalarType) else found.unbind(0))


IN_CELLS = (Sized, Rows)  # inputs whose slots point to words


def plain(x: Any) -> Any:
    """A value as the host has it."""
    return x.items() if type(x) is Rows else x


_LETTERS = {torch.int64: "q", torch.float64: "d", torch.bool: "?"}  # of ``struct``


def grows(kind: Type) -> bool:
    """Whether a result leaves in buffers."""
    return kind == STR or paired(kind)


def block(kind: Type) -> Any:
    """Memory for the length of a result and the places of its buffers."""
    if in_order(kind):
        return (ctypes.c_int64 * (kind.shape.count(None) + 1))()
    return (ctypes.c_int64 * (1 + (0 if kind == STR else depth(inside(kind)))))()


def leaver(block: Any, kind: Type, buffers: Buffers, private: bool) -> Callable[[], Any]:
    """What gives the result that a call left in buffers."""
    if kind == STR:
        return lambda: taken(block[0])
    if in_order(kind):
        return lambda: _sized(block, kind, buffers)
    item = inside(kind)
    if item == STR:
        return lambda: _strings(buffers.read(block[1], 8 * block[0]))
    if isinstance(item, ScalarType) and not private:
        letter, word = _LETTERS[item.dtype], item.dtype.itemsize
        return lambda: struct.unpack(f"{block[0]}{letter}", buffers.read(block[1], word * block[0]))
    if not private and (leaf := _numbers_in(item)) is not None:
        letter, word = _LETTERS[leaf.dtype], leaf.dtype.itemsize
        return lambda: _nested(block, buffers, letter, word)
    if not isinstance(kind, TensorType) or paired(item):
        return functools.partial(leave, block, kind, buffers, private)
    d, dtype = unknown(kind), kind.dtype
    rest = (*kind.shape[:d], *kind.shape[d + 1 :])

    def tensor() -> torch.Tensor:
        x = buffers.take(block[1], dtype, (block[0], *rest))
        return _turned(x, d) if d else x

    return tensor


def _sized(block: Any, kind: TensorType, buffers: Buffers) -> torch.Tensor:
    """A tensor that lies row by row, with sizes that only the run knew."""
    *lengths, place = block
    rest = iter(lengths)
    return buffers.take(
        place, kind.dtype, tuple(next(rest) if n is None else n for n in kind.shape)
    )


def _numbers_in(item: Type) -> ScalarType | None:
    """The type of the numbers in lists of lists of numbers; None for others."""
    while paired(item) and not isinstance(item, TensorType):
        item = inside(item)
    return item if isinstance(item, ScalarType) and item.dtype in _LETTERS else None


def _nested(block: Any, buffers: Buffers, letter: str, word: int) -> tuple:
    """Lists of lists of numbers, without a tensor between."""
    count, *places, last = block
    levels = []
    for place in places:
        levels.append(struct.unpack(f"{2 * count}q", buffers.read(place, 16 * count)))
        count = levels[-1][-1] if count else 0
    items: tuple = struct.unpack(f"{count}{letter}", buffers.read(last, word * count))
    for pairs in reversed(levels):
        ends = iter(pairs)
        items = tuple([items[a:b] for a, b in zip(ends, ends)])
    return items


def _strings(words: bytes) -> tuple[str, ...]:
    return tuple(taken(x) for (x,) in struct.iter_unpack("q", words))


def leave(block: Any, kind: Type, buffers: Buffers, private: bool) -> Any:
    """The result that a call left in buffers."""
    item, length = inside(kind), block[0]
    parts, inner, count = [], item, length
    take = buffers.left if private else buffers.take
    for place in block[1:]:
        if paired(inner):
            parts.append(buffers.take(place, _WORD, (count, 2)))
            count, inner = int(parts[-1][-1, 1]) if count else 0, inside(inner)
        else:
            shape = () if isinstance(inner, ScalarType) else tuple(inner.shape)
            parts.append(take(place, inner.dtype, (count, *shape)))
    made = Rows(item, parts)
    if isinstance(kind, TensorType):
        return _turned(made.parts[0], unknown(kind))
    if private:
        made.address()
    return made if private else _apart(made.items())


def _turned(x: torch.Tensor, d: int) -> torch.Tensor:
    """A new tensor of the elements of ``x``, whose first dimension becomes the dimension ``d``."""
    made = x.movedim(0, d)
    if not made.is_contiguous():
        return made.contiguous()
    # With the strides of a new tensor, also where there is one element.
    return x.view(-1).view(made.shape)


def _apart(items: Any) -> Any:
    if isinstance(items, tuple):
        return tuple(map(_apart, items))
    return items.clone() if isinstance(items, torch.Tensor) else items


def packed(x: Any, kind: Type) -> Rows | Sized | None:
    """A list as ``Rows``, a tensor as ``Rows`` or ``Sized``; None where it is not what the type says."""
    if in_order(kind):
        fits = type(x) in _PLAIN and len(x.shape) == len(kind.shape) and x.is_contiguous()
        wanted = replace(kind, shape=tuple(n if m is None else m for n, m in zip(x.shape, kind.shape))) if fits else kind  # fmt: skip
        return Sized(x, kind) if fits and _fits(x, wanted) else None
    item = inside(kind)
    if type(x) is Rows:
        return x if x.item == item else None
    if isinstance(kind, TensorType):
        if type(x) not in _PLAIN or x.dim() != len(kind.shape) or not x.is_contiguous():
            return None
        x = x.movedim(unknown(kind), 0)
        return Rows(item, (x.contiguous(),)) if _fits(x, item, whole=True) else None
    parts = _pack(list(x), item)
    return None if parts is None else Rows(item, tuple(parts))


def _pack(items: list[Any], item: Type) -> list[torch.Tensor] | None:
    if paired(item):
        found = _pack_tensors(items, item) if isinstance(item, TensorType) else _pack_lists(items, item)  # fmt: skip
        if found is None:
            return None
        ends = itertools.accumulate(found[0], initial=0)
        pairs = torch.tensor(list(itertools.pairwise(ends)), dtype=_WORD).view(-1, 2)
        return [pairs, *found[1]]
    if isinstance(item, ScalarType):
        good = all(type(v) is item.kind for v in items)
        return [torch.tensor(items, dtype=item.dtype)] if good else None
    if not all(_fits(v, item) for v in items):
        return None
    if not items:
        return [torch.empty((0, *item.shape), dtype=item.dtype)]
    return [torch.stack(items).contiguous()]  # items that are all channels last give such a stack


def _pack_lists(items: list[Any], item: ListType) -> tuple[list[int], list[torch.Tensor]] | None:
    """(the lengths of lists, what is in them as one list)."""
    if not all(isinstance(v, (tuple, list)) for v in items):
        return None
    inner = _pack([w for v in items for w in v], item.element)
    return None if inner is None else ([len(v) for v in items], inner)


def _pack_tensors(items: list[Any], item: TensorType) -> tuple[list[int], list[torch.Tensor]] | None:  # fmt: skip
    """(the sizes of tensors in the dimension where only the run knows them, all of them joined there)."""
    d = unknown(item)
    if not all(type(v) in _PLAIN and v.dim() == len(item.shape) for v in items):
        return None
    parts, kind = [v.movedim(d, 0) for v in items], inside(item)
    if not all(_fits(v, kind, whole=True) for v in parts):
        return None
    none = torch.empty((0, *kind.shape), dtype=item.dtype)
    return [len(v) for v in parts], [torch.cat([none, *parts]).contiguous()]


def _fits(v: Any, item: Any, whole: bool = False) -> bool:
    """Whether a tensor is an item of a type, or (``whole``) a row of such items."""
    return (
        type(v) in _PLAIN
        and v.dtype is item.dtype
        and (v.shape[1:] if whole else v.shape) == item.shape
        and v.device.type == "cpu"
        and v.layout is torch.strided
        and not v.is_neg()
        and not v._is_zerotensor()
        and not (torch.is_grad_enabled() and v.requires_grad)
        and not is_wrapped(v)
    )
