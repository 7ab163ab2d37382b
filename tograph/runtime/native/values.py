"""What a value of a graph is while native code is written: a register, memory, or a fill.

``alias`` is an ``i1``: whether the value may share memory with a tensor that the caller holds. Eager PyTorch would then
return that very tensor or a view of it, so a program whose output has it true declines and the host runs the graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..graph.ir import Node, Value
from ..graph.types import Type
from ..kernels.loop_ir import Open, bound

NO_OWNERS: frozenset[int] = frozenset()


class Decline(Exception):
    """Native code cannot be written for this graph; the text says why."""


class Noncontiguous(Decline):
    """A result has other strides than a new tensor. ``turned``: those that are contiguous with their dims in another order, and that order;

    ``within``: those that are the first elements of a contiguous tensor of a larger size, and that size. Both empty where one is neither.
    """

    def __init__(self, turned: dict[Value, tuple[int, ...]], within: dict[Value, tuple[int, ...]]):
        super().__init__("a result that is not contiguous")
        self.turned, self.within = turned, within


@dataclass(frozen=True)
class Reg:
    """A number in a register. ``size``: the tensor's shape (all ones), or None for a Python number."""

    text: str
    dtype: str
    size: tuple[int, ...] | None = None
    alias: str = "false"

    owners = NO_OWNERS
    order = within = None
    dense = plain = ordered = settled = True


@dataclass(frozen=True)
class Mem:
    """Elements in memory at ``pointer``. ``dense``: whether eager PyTorch's tensor would have the same strides.

    ``place``: the buffer (see ``buffers``) that it begins, if it does. Where an endless dimension that is not the first one is laid
    out first, ``lead`` is (its stride, the stride that it has in eager PyTorch). ``gaps``: whether eager PyTorch's tensor has such, as
    a part of the inner dimensions of another one, where the strides here do not tell. ``excused``: whether it has them only where ``alias`` is
    true, as the state of a loop that begins with a view.
    """

    pointer: str
    dtype: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    owners: frozenset[int] = NO_OWNERS
    dense: bool = True
    alias: str = "false"
    place: str = ""
    lead: tuple[int, int] | None = None
    gaps: bool = False
    excused: bool = False

    @property
    def open(self) -> bool:
        """Whether a size is known only at run time."""
        return any(isinstance(n, Open) for n in self.size)

    @property
    def contiguous(self) -> bool:
        """Whether the elements follow each other without gaps; never so where a size is open."""
        return not self.open and self.packed

    @property
    def packed(self) -> bool:
        return self.stride == strides(self.size) or all(
            s == w or n == 1 for s, w, n in zip(self.stride, strides(self.size), self.size)
        )

    @property
    def plain(self) -> bool:
        """Whether it is contiguous here and would be in eager PyTorch."""
        return self.dense and self.contiguous and not self.gaps

    @property
    def ordered(self) -> bool:
        """Whether what eager PyTorch computes from it element by element would be contiguous."""
        steps = [self.step(s) for s, n in zip(self.stride, self.size) if bound(n) > 1 and s]
        return self.dense and steps == sorted(steps, reverse=True)

    @property
    def order(self) -> tuple[int, ...] | None:
        """The order of dims in which the elements follow each other without gaps, here and in eager PyTorch; None where there is none."""
        if not self.dense or self.open or self.gaps:
            return None
        order = sorted(range(len(self.size)), key=lambda d: -self.step(self.stride[d]))
        turned = replace(self, size=tuple(self.size[d] for d in order), stride=tuple(self.stride[d] for d in order))  # fmt: skip
        return tuple(order) if turned.packed else None

    @property
    def within(self) -> tuple[int, ...] | None:
        """The size of a contiguous tensor that has these strides, of which this is the first part; None where there is none."""
        if not self.dense or self.open or self.gaps or self.stride[-1:] != (1,):
            return None
        pairs = list(zip(self.stride, self.stride[1:], self.size[1:]))
        if any(s <= 0 or outer % s or outer // s < n for outer, s, n in pairs):
            return None
        return (self.size[0], *(outer // s for outer, s, _ in pairs))

    @property
    def settled(self) -> bool:
        """Whether eager PyTorch's tensor is contiguous."""
        if not self.open:
            return self.plain
        close = self.packed or alike(self.size, self.stride, row_major(self.size))
        return self.ordered and close and not self.gaps

    def step(self, stride: int) -> int:
        """A stride as a number that orders the dimensions as eager PyTorch's strides do."""
        if self.lead is None:
            return stride
        first, own = self.lead
        return stride if stride < own else own if stride >= first else stride + first


@dataclass(frozen=True)
class Room:
    """Where a tensor is to be computed whose size ``dim`` nobody knows yet: at the start of a buffer."""

    place: str
    owners: frozenset[int]
    dim: int

    pointer = ""


@dataclass(frozen=True)
class Fill:
    """A tensor that a node makes of numbers: it is made again wherever it is used.

    ``ordered``: whether it is contiguous in eager PyTorch, as it is unless it was made like a tensor that is not.
    """

    node: Node
    dtype: str
    size: tuple[int, ...]
    ordered: bool = True

    owners = NO_OWNERS
    alias = "false"
    order = within = None
    dense = plain = settled = property(lambda self: self.ordered)


@dataclass(frozen=True)
class Listed:
    """A list or an optional: ``length`` items from ``begin`` on, in buffers (``places``, see ``buffers``).

    Items of one size stand in one buffer. Items that are lists are pairs (first, end) in the first buffer, and what is in
    them stands, one after the other, in the others. ``item``: the type of the items. ``fixed``: whether the memory is that of
    an argument, which stays as it is.
    """

    item: Type
    places: tuple[str, ...]
    begin: str
    length: str
    owners: frozenset[int] = NO_OWNERS
    alias: str = "false"
    fixed: bool = False

    dtype, size, stride = "list", (0,), (1,)
    dense = plain = ordered = settled = True


class Span(int):
    """A stride that sizes without a bound are factors of: ``factor`` times all ``sizes``.

    As an int it has the value for the most that they can be, so that strides compare as those of eager PyTorch do; what would compute with
    that value declines.
    """

    factor: int
    sizes: tuple[Open, ...]

    def __new__(cls, factor: int, sizes: tuple[Open, ...]) -> Span:
        made = super().__new__(cls, factor * numel(sizes))
        made.factor, made.sizes = factor, sizes
        return made

    def __reduce__(self) -> Any:
        return Span, (self.factor, self.sizes)

    def value(self, sizes: Mapping[Open, int]) -> int:
        """The stride for the sizes of a run."""
        out = self.factor
        for n in self.sizes:
            out *= sizes[n]
        return out

    def __mul__(self, by: Any) -> Any:
        if isinstance(by, Open):
            return Span(self.factor, (*self.sizes, by))
        return Span(self.factor * by, self.sizes) if by else 0

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Span) or self.factor != other.factor:
            return False
        return sorted(n.name for n in self.sizes) == sorted(n.name for n in other.sizes)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__

    def _unknown(self, *_: object) -> Any:
        raise Decline("arithmetic with a stride that is known only at run time")

    __add__ = __radd__ = __sub__ = __rsub__ = __floordiv__ = __mod__ = _unknown
    __str__ = __format__ = __index__ = _unknown


Operand = Reg | Mem | Fill | Listed


def strides(size: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous tensor; with an open size, those of the most that it can be, an endless one first.

    With two endless sizes, or one that is laid out in its place, they are ``Span``s.
    """
    if wide(size):
        return _spans(size)
    first = endless(size)
    out, step = [0] * len(size), 1
    for d in reversed(range(len(size))):
        if d != first:
            out[d] = step
            step *= max(bound(size[d]), 1)
    if first is not None:
        out[first] = step
    return tuple(out)


def endless(size: Sequence[int]) -> int | None:
    """The dimension of a size that has no bound and is laid out first, if there is one such."""
    found = _endless(size)
    return found[0] if len(found) == 1 and not wide(size) else None


def _endless(size: Sequence[int]) -> list[int]:
    return [d for d, n in enumerate(size) if isinstance(n, Open) and n.endless]


def wide(size: Sequence[int]) -> bool:
    """Whether strides have factors that only the run knows: two dimensions have no bound, or one that is laid out in its place, behind others."""
    found = _endless(size)
    if len(found) != 1:
        return len(found) > 1
    (d,) = found
    n: Any = size[d]
    return n.in_order and numel(tuple(size[:d])) != 1


def _spans(size: Sequence[Any]) -> tuple[int, ...]:
    return row_major([n if isinstance(n, Open) and n.endless else bound(n) for n in size])


def row_major(size: Sequence[Any]) -> tuple[int, ...]:
    """The strides of a tensor whose elements follow each other in eager PyTorch's order, without room for more."""
    out, step = [], 1
    for n in reversed(size):
        out.append(step)
        if isinstance(n, Open):
            step = step * n if isinstance(step, Span) else Span(step, (n,))
        else:
            step = step * max(n, 1)
    return tuple(reversed(out))


def laid_out(pointer: str, dtype: str, size: tuple, owners: frozenset[int] = NO_OWNERS, place: str = "") -> Mem:  # fmt: skip
    """A new tensor at ``pointer``."""
    stride, first = strides(size), endless(size)
    lead = (stride[first], numel(size[first + 1 :])) if first else None
    return Mem(pointer, dtype, size, stride, owners, place=place, lead=lead)


def in_a_row(size: Sequence) -> bool:
    """Whether a tensor has at most one dim of more than one element: what is computed from any such tensors is contiguous."""
    return sum(n != 1 for n in size) <= 1


def alike(size: Sequence[int], a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether strides are the same for a size: those of dims of one element do not matter."""
    return all(s == t or n == 1 for n, s, t in zip(size, a, b))


def numel(size: tuple[int, ...]) -> int:
    """The number of elements, or the most that there can be."""
    return math.prod(map(bound, size))


def extent(size: Sequence[int], steps: Sequence[int]) -> int:
    """How many elements of memory a tensor reaches over."""
    return 1 + sum((n - 1) * step for n, step in zip(size, steps)) if 0 not in size else 0


def with_alias(x: Operand, alias: str) -> Operand:
    return x if isinstance(x, Fill) else replace(x, alias=alias)


def view_of(x: Mem, size: Sequence[int], stride: Sequence[int], pointer: str | None = None) -> Mem:
    """The elements of ``x`` with another size and strides; from another first one where ``pointer`` is given."""
    return replace(x, pointer=pointer or x.pointer, size=tuple(size), stride=tuple(stride), place="")  # fmt: skip
