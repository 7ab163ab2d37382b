"""Carried tensors one size of which only the run knows, as those that a loop makes longer.

Such a tensor lies in memory with that dimension first (``values.strides``), so it grows at its end: its strides stay, only its address
and its size change. There are three kinds, and one more. ``Grown``: each iteration appends (``updated``), in the buffer of the tensor, which
gets twice the room where it has none left. ``Shrunk``: the next one is a part of the one before, and only place and size are
carried. ``Swapped``: any other next one, in two buffers that change roles. ``Remade`` has several such sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..graph.ir import Graph, Value
from ..kernels.loop_ir import LONGEST
from .carries import Carry
from .code import SIZE
from .extents import alone, unknown, where_it_is
from .values import NO_OWNERS, Decline, Mem, Operand, Room, laid_out, row_major, with_alias

if TYPE_CHECKING:
    from .lower import Lowering


class _OpenCarry(Carry):
    """What the three have in common: the address and the size at the head of the loop."""

    owners: frozenset[int]
    start: Mem
    result: Mem

    def __init__(
        self, low: Lowering, number: int, graph: Graph, start: Operand, mode: str, result: Value
    ):
        self.result_value, self.dim = result, unknown(graph.inputs[number].type)
        super().__init__(low, number, graph, start, mode)

    def head(self, before: str) -> Mem:
        code, x = self.low.code, self.start
        self.before = before
        self.alias, self.length, self.name = ("%" + code.fresh(n) for n in ("alias", "length", "carry"))  # fmt: skip
        self.lengths = [self.length]
        self.alias_phi, self.length_phi, self.phi = (code.later() for _ in range(3))
        d = self.dim
        n = self.low.sizes.new(self.length, LONGEST)
        made = laid_out(self.name, x.dtype, (*x.size[:d], n, *x.size[d + 1 :]), self.owners)
        dense = x.settled and self.value not in self.low.strided
        return replace(with_alias(made, self.alias), dense=dense)

    def dest(self) -> Room | None:
        return None

    def close(self, x: Operand, others: Sequence[Operand] = ()) -> None:
        self.expect(x.settled)
        self.result = self._arrived(x)

    def _arrived(self, x: Operand) -> Mem:
        """What an iteration gives, where the next one takes it."""
        raise NotImplementedError

    def latch(self, end: str, again: str = "") -> None:
        result, d = self.result, self.dim
        text = self.low.sizes.text
        self._fill(self.alias_phi, self.alias, "i1", self.start.alias, result.alias, end, again)
        self._fill(self.length_phi, self.length, "i64", text(self.start.size[d]), text(result.size[d]), end, again)  # fmt: skip
        self._fill(self.phi, self.name, "ptr", self.start.pointer, result.pointer, end, again)

    def swap(self) -> None:
        pass

    def finish(self) -> None:
        self.low.arena.release(self.owners)


class Grown(_OpenCarry):
    """A tensor that is appended to in its own buffer: that of the tensor that the loop begins with, where that may change."""

    def _prepare(self, x: Operand) -> Mem:
        low = self.low
        room = low.dests.pop(self.result_value, None)
        there = isinstance(x, Mem) and bool(x.place)
        if room is not None:
            found = low.moved(x, room)
        elif there and self.result_value in low.updates and alone(low, x):
            found = x
        else:
            place, owner = low.buffers.new()
            found = low.moved(x, Room(place, frozenset([owner]), self.dim))
        self.owners = found.owners
        low.arena.hold(self.owners)
        return with_alias(found, x.alias)

    def head(self, before: str) -> Mem:
        return replace(super().head(before), place=self.start.place)

    def dest(self) -> Room:
        return Room(self.start.place, self.owners, self.dim)

    def _arrived(self, x: Operand) -> Mem:
        return with_alias(self.low.moved(x, self.dest()), x.alias)


class Shrunk(_OpenCarry):
    """A tensor of which each iteration keeps a part."""

    def _prepare(self, x: Operand) -> Mem:
        found = where_it_is(self.low, self.dim, x)
        self.owners = found.owners
        self.low.arena.hold(self.owners)
        return found

    def _arrived(self, x: Operand) -> Mem:
        found = where_it_is(self.low, self.dim, x)
        if not found.owners <= self.owners or found.place:
            raise Decline("a part of a carried tensor with other strides")
        return found


class Swapped(_OpenCarry):
    """A tensor that each iteration makes anew, in the one of two buffers where the old one is not."""

    def _prepare(self, x: Operand) -> Mem:
        made = [self.low.buffers.new() for _ in range(2)]
        own = frozenset(owner for _, owner in made)
        self.rooms = [Room(place, own, self.dim) for place, _ in made]
        found = where_it_is(self.low, self.dim, x)
        self.owners = self.low.arena.either(found.owners, own)
        self.low.arena.hold(self.owners)
        return found

    def head(self, before: str) -> Mem:
        code = self.low.code
        made = super().head(before)
        self.next_phi, self.next = code.later(), "%" + code.fresh("next")
        return made

    def dest(self) -> Room:
        return replace(self.rooms[0], place=self.next, owners=self.owners)

    def _arrived(self, x: Operand) -> Mem:
        return with_alias(self.low.moved(x, self.dest()), x.alias)

    def swap(self) -> None:
        a, b = (room.place for room in self.rooms)
        code = self.low.code
        self.swapped = code.do(f"select i1 {code.do(f'icmp eq ptr {self.next}, {a}')}, ptr {b}, ptr {a}")  # fmt: skip

    def latch(self, end: str, again: str = "") -> None:
        super().latch(end, again)
        self._fill(self.next_phi, self.next, "ptr", self.rooms[0].place, self.swapped, end, again)


class Remade(Carry):
    """A tensor with several sizes that only the run knows: row by row, each iteration's in the one of two buffers where the one before is not."""

    start: Mem
    result: Mem

    def _prepare(self, x: Operand) -> Mem:
        low = self.low
        made = [low.buffers.new() for _ in range(2)]
        self.rooms = [place for place, _ in made]
        own = frozenset(owner for _, owner in made)
        low.arena.hold(own)
        found = replace(low.row_by_row(x), dense=x.settled)
        low.arena.hold(found.owners)
        self.owners, self.held = low.arena.either(found.owners, own), (own, found.owners)
        return found

    def head(self, before: str) -> Mem:
        low, code, x = self.low, self.low.code, self.start
        self.before = before
        self.dims = [d for d, n in enumerate(self.value.type.shape) if n is None]
        self.alias, self.name, self.next = ("%" + code.fresh(n) for n in ("alias", "carry", "next"))
        self.lengths = ["%" + code.fresh("length") for _ in self.dims]
        self.phis = [code.later() for _ in range(3 + len(self.dims))]
        size: list[Any] = list(x.size)
        for d, name in zip(self.dims, self.lengths):
            size[d] = low.sizes.new(name, LONGEST)
        dense = x.dense and self.value not in low.strided
        return Mem(self.name, x.dtype, tuple(size), row_major(size), self.owners, dense, self.alias)

    def dest(self) -> None:
        return None

    def close(self, x: Operand, others: Sequence[Operand] = ()) -> None:
        self.expect(x.settled)
        low, dtype = self.low, x.dtype
        for n, wanted in zip(x.size, self.value.type.shape, strict=True):
            if wanted is not None:
                low.sizes.require(n, wanted)
        nbytes = low.code.multiply(low.sizes.elements(x.size), SIZE[dtype])
        data = low.buffers.room(self.next, "0", nbytes, NO_OWNERS)
        self.result = Mem(data, dtype, x.size, row_major(x.size), alias=x.alias)
        low.copy(x, self.result)

    def latch(self, end: str, again: str = "") -> None:
        a, text = self.rooms[0], self.low.sizes.text
        values = [
            (self.alias, "i1", self.start.alias, self.result.alias),
            (self.name, "ptr", self.start.pointer, self.result.pointer),
            (self.next, "ptr", a, self.swapped),
            *((name, "i64", text(self.start.size[d]), text(self.result.size[d])) for d, name in zip(self.dims, self.lengths)),
        ]  # fmt: skip
        for phi, (name, kind, start, following) in zip(self.phis, values, strict=True):
            self._fill(phi, name, kind, start, following, end, again)

    def swap(self) -> None:
        a, b = self.rooms
        code = self.low.code
        self.swapped = code.do(f"select i1 {code.do(f'icmp eq ptr {self.next}, {a}')}, ptr {b}, ptr {a}")  # fmt: skip

    def finish(self) -> None:
        for owners in self.held:
            self.low.arena.release(owners)


def is_part(value: Value, result: Value) -> bool:
    """Whether ``result`` is ``value`` without some of its beginning or end."""
    while result is not value and result.node is not None and result.node.op == "aten.slice.Tensor":
        result = result.node.args[0]
    return result is value
