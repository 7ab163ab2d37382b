"""What a value of a graph is while native code is written: a register, memory, or a fill.

``alias`` is an ``i1``: whether the value may share memory with a tensor that the caller holds. Eager PyTorch would then
return that very tensor or a view of it, so a program whose output has it true declines and the host runs the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..ir import Node, Value
from ..kernels.loop_ir import Open, bound
from ..types import Type

NO_OWNERS: frozenset[int] = frozenset()


class Decline(Exception):
    """Native code cannot be written for this graph; the text says why."""


class Noncontiguous(Decline):
    """A result has other strides than a new tensor. ``turned``: those that are contiguous with their dims in another order, and that order."""

    def __init__(self, turned: dict[Value, tuple[int, ...]]):
        super().__init__("a result that is not contiguous")
        self.turned = turned


@dataclass(frozen=True)
class Reg:
    """A number in a register. ``size``: the tensor's shape (all ones), or None for a Python number."""

    text: str
    dtype: str
    size: tuple[int, ...] | None = None
    alias: str = "false"

    owners = NO_OWNERS
    order = None
    dense = plain = ordered = True


@dataclass(frozen=True)
class Mem:
    """Elements in memory at ``pointer``. ``dense``: whether eager PyTorch's tensor would have the same strides."""

    pointer: str
    dtype: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    owners: frozenset[int] = NO_OWNERS
    dense: bool = True
    alias: str = "false"

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
        return self.dense and self.contiguous

    @property
    def ordered(self) -> bool:
        """Whether what eager PyTorch computes from it element by element would be contiguous."""
        steps = [s for s, n in zip(self.stride, self.size) if bound(n) > 1 and s]
        return self.dense and steps == sorted(steps, reverse=True)

    @property
    def order(self) -> tuple[int, ...] | None:
        """The order of dims in which the elements follow each other without gaps, here and in eager PyTorch; None where there is none."""
        if not self.dense or self.open:
            return None
        order = sorted(range(len(self.size)), key=lambda d: -self.stride[d])
        turned = replace(self, size=tuple(self.size[d] for d in order), stride=tuple(self.stride[d] for d in order))  # fmt: skip
        return tuple(order) if turned.packed else None


@dataclass(frozen=True)
class Fill:
    """A tensor that a node makes of numbers: it is made again wherever it is used."""

    node: Node
    dtype: str
    size: tuple[int, ...]

    owners = NO_OWNERS
    alias = "false"
    order = None
    dense = plain = ordered = True


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
    dense = plain = ordered = True


Operand = Reg | Mem | Fill | Listed


def strides(size: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous tensor; with an open size, those of the most that it can be."""
    out, step = [], 1
    for n in reversed(size):
        out.append(step)
        step *= max(bound(n), 1)
    return tuple(reversed(out))


def in_a_row(size: Sequence) -> bool:
    """Whether a tensor has at most one dim of more than one element: what is computed from any such tensors is contiguous."""
    return sum(n != 1 for n in size) <= 1


def alike(size: Sequence[int], a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether strides are the same for a size: those of dims of one element do not matter."""
    return all(s == t or n == 1 for n, s, t in zip(size, a, b))


def numel(size: tuple[int, ...]) -> int:
    """The number of elements, or the most that there can be."""
    out = 1
    for n in size:
        out *= bound(n)
    return out


def with_alias(x: Operand, alias: str) -> Operand:
    return x if isinstance(x, Fill) else replace(x, alias=alias)
