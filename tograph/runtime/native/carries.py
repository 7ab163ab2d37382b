"""The values that a loop of native code carries: in registers, in two places that change roles, or in one place.

``Carry`` writes the phis of one of them: at the head of the loop, and at the head of a loop around it where there is one. A tensor that begins
stored by columns, or with its dims in another order, is taken to stay so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..graph.ir import Graph, Value
from ..graph.types import DTYPE_NAMES, ScalarType
from . import list_memory
from .code import REGISTER
from .groups import updated
from .values import Decline, Listed, Mem, Operand, Reg, alike, strides, with_alias

if TYPE_CHECKING:
    from .lower import Lowering


def typed(v: Value, x: Reg) -> Reg:
    """A register with the type of ``v``."""
    dtype = DTYPE_NAMES[v.type.dtype]
    if x.dtype != dtype:
        raise Decline(f"a {x.dtype} where a {dtype} belongs")
    size = None if isinstance(v.type, ScalarType) else tuple(v.type.shape)
    return Reg(x.text, dtype, size, x.alias)


class Carry:
    """One carried value: how it enters the loop, what the head holds, where the body puts the next one.

    ``there``: the place of one that is carried in one place, where that is not for the loop to choose.
    """

    def __init__(self, low: Lowering, number: int, graph: Graph, start: Operand, mode: str, there: Mem | None = None):  # fmt: skip
        self.low, self.number, self.mode, self.graph, self.there = low, number, mode, graph, there
        self.value = graph.inputs[number]
        self.places: list[Mem] = []
        self.order: tuple[int, ...] | None = (
            None  # of the dims in memory, if it is not the usual one
        )
        self.start = self._prepare(start)

    def _prepare(self, x: Operand) -> Operand:
        low = self.low
        if self.mode == "same":
            return x
        if self.mode == "register":
            return typed(self.value, low.register(x))
        dtype, size = low.tensor(self.value)
        elsewhere = self.mode == "memory" or not updated(self.graph, self.number)
        self.order = self._turned(x) if elsewhere else None
        self.places = [self._place(dtype, size) for _ in range(1 if self.mode == "in place" else 2)]
        for p in self.places:
            low.arena.hold(p.owners)
        first = self.places[0]
        if self.order and x.stride == first.stride and self.mode == "memory":
            return x
        if self.order or self.mode == "in place" or not (isinstance(x, Mem) and x.contiguous):
            low.copy(x, first)
            shown = not self.order and _shows_in_order(x)
            dense = x.dense if self.order else x.plain or shown
            return Mem(first.pointer, dtype, size, first.stride, first.owners, dense, x.alias, gaps=shown, excused=shown)  # fmt: skip
        return x

    def _turned(self, x: Operand) -> tuple[int, ...] | None:
        if not isinstance(x, Mem) or x.contiguous or self.value in self.low.strided:
            return None
        return x.order

    def _place(self, dtype: str, size: tuple[int, ...]) -> Mem:
        if self.order is None:
            return self.there or self.low.new(dtype, size)
        made = self.low.new(dtype, tuple(size[d] for d in self.order))
        step = dict(zip(self.order, made.stride))
        return replace(made, size=size, stride=tuple(step[d] for d in range(len(size))))

    def head(self, before: str) -> Operand:
        """The value at the head of the loop."""
        low, code, x = self.low, self.low.code, self.start
        self.before = before
        if self.mode == "same":
            return x
        self.alias = "%" + code.fresh("alias")
        self.alias_phi = code.later()
        if self.mode == "in place":
            dense = x.dense and self.value not in low.strided
            return replace(with_alias(x, self.alias), dense=dense)
        self.phi = code.later()
        name = "%" + code.fresh("carry")
        self.name = name
        if self.mode == "register":
            return Reg(name, x.dtype, x.size, self.alias)
        self.next_phi, self.next = code.later(), "%" + code.fresh("next")
        owners = low.arena.either(x.owners, self.places[0].owners, self.places[1].owners)
        dense = x.dense and self.value not in low.strided
        stride = self.places[0].stride if self.order else strides(x.size)
        begun = {"gaps": x.gaps, "excused": x.excused} if isinstance(x, Mem) else {}
        return Mem(name, x.dtype, x.size, stride, owners, dense, self.alias, **begun)

    def dest(self) -> Mem | None:
        """Where the body is to compute the next value; where its dims have another order it is copied there."""
        return None if self.order else self._next()

    def _next(self) -> Mem | None:
        if self.mode == "in place":
            p = self.places[0]
            return Mem(p.pointer, p.dtype, p.size, p.stride, p.owners)
        if self.mode == "memory":
            p = self.places[0]
            return Mem(self.next, p.dtype, p.size, p.stride, p.owners | self.places[1].owners)
        return None

    def close(self, x: Operand, others: Sequence[Operand] = ()) -> None:
        """Move the body's result to where the next iteration finds it."""
        if self.mode == "same":
            return
        if self.mode == "register":
            self.result = typed(self.value, self.low.register(x))
            return
        self.result = x
        self.expect(x.plain or self._leaves_begun(x) if self.order is None else self._stays(x))
        dest = self._next()
        if getattr(x, "pointer", None) != dest.pointer:
            self.low.copy(x, dest)

    def _leaves_begun(self, x: Operand) -> bool:
        """Whether a result may be what the loop began with, and lies as that does where it is."""
        return (
            isinstance(x, Mem) and x.excused and x.dense and getattr(self.start, "excused", False)
        )

    def _stays(self, x: Operand) -> bool:
        """Whether a result lies in memory as the tensor that the loop began with."""
        return isinstance(x, Mem) and x.dense and alike(x.size, x.stride, self.places[0].stride)

    def expect(self, dense: bool) -> None:
        """Note where a tensor that began contiguous has other strides in eager PyTorch later: the graph is lowered again, which knows it."""
        if not dense and self.value not in self.low.strided:
            self.low.surprises.add(self.value)

    def enter(self, strip: str) -> None:
        """Make room at the head of a loop around the loop; see ``polling.Strip``."""
        self.strip, self.outer = strip, [self.low.code.later() for _ in range(3)]

    def latch(self, end: str, again: str = "") -> None:
        """Fill the phis of the head, at the end of the body, and those of the loop around it, which ends at ``again``."""
        if self.mode == "same":
            return
        result = self.result
        self._fill(self.alias_phi, self.alias, "i1", self.start.alias, result.alias, end, again)
        if self.mode == "register":
            kind = REGISTER[result.dtype]
            self._fill(self.phi, self.name, kind, self.start.text, result.text, end, again)
        elif self.mode == "memory":
            a = self._in_order()[0].pointer
            self._fill(self.phi, self.name, "ptr", self.start.pointer, self.next, end, again)
            self._fill(self.next_phi, self.next, "ptr", a, self.swapped, end, again)

    def _fill(self, place: int, name: str, kind: str, start: str, following: str, end: str, again: str) -> None:  # fmt: skip
        code, before = self.low.code, self.before
        if again:
            code.fill(self.outer.pop(0), f"{name}o = phi {kind} [{start}, %{before}], [{name}, %{again}]")  # fmt: skip
            start, before = f"{name}o", self.strip
        code.fill(place, f"{name} = phi {kind} [{start}, %{before}], [{following}, %{end}]")

    def swap(self) -> None:
        """The other place, for the iteration after the next; written before the last branch."""
        if self.mode == "memory":
            a, b = (p.pointer for p in self._in_order())
            code = self.low.code
            self.swapped = code.do(f"select i1 {code.do(f'icmp eq ptr {self.next}, {a}')}, ptr {b}, ptr {a}")  # fmt: skip

    def _in_order(self) -> list[Mem]:
        """The place that the first iteration writes first: the initial value may stand in the other."""
        start = getattr(self.start, "pointer", None)
        return self.places if start != self.places[0].pointer else self.places[::-1]

    def finish(self) -> None:
        for p in self.places:
            self.low.arena.release(p.owners)


def _shows_in_order(x: Operand) -> bool:
    """Whether a tensor is a view of the caller's whose elements an op takes in the order of a contiguous tensor, but for gaps and repetitions."""
    return isinstance(x, Mem) and not x.open and not x.plain and x.ordered and x.alias == "true"


class ListCarry(Carry):
    """A carried list: it stays in the same buffers, its length is in a register.

    ``result``: what the loop gives for it. The buffers are those of the list that the loop begins with, where that list is
    read no more and nothing else stands there; else that list is copied.
    """

    start: Listed
    result: Listed

    def __init__(
        self, low: Lowering, number: int, graph: Graph, start: Listed, mode: str, result: Value
    ):
        self.result_value = result
        super().__init__(low, number, graph, start, mode)

    def _prepare(self, x: Operand) -> Operand:
        if self.mode == "same":
            return x
        if x.item != getattr(self.value.type, "element", None):
            raise Decline("a carried list whose items change their type")
        self.held = list_memory.own(self.low, x, self.result_value)
        if self.held.begin != "0":
            self.held = list_memory.copied(self.low, self.held)
        self.low.arena.hold(self.held.owners)
        return self.held

    def head(self, before: str) -> Operand:
        self.before = before
        if self.mode == "same":
            return self.start
        code = self.low.code
        self.alias, self.name = "%" + code.fresh("alias"), "%" + code.fresh("length")
        self.alias_phi, self.phi = code.later(), code.later()
        return replace(self.start, length=self.name, alias=self.alias)

    def dest(self) -> Listed | None:
        return None if self.mode == "same" else self.held

    def close(self, x: Operand, others: Sequence[Operand] = ()) -> None:
        if self.mode == "same":
            return
        if x.places != self.held.places:
            if any(not o.owners.isdisjoint(self.held.owners) for o in others):
                raise Decline("lists that change places in a loop")
            x = list_memory.copied(self.low, x, self.held)
        elif x.begin != "0":
            raise Decline("a carried list that loses its first items")
        self.result = x

    def latch(self, end: str, again: str = "") -> None:
        if self.mode == "same":
            return
        result = self.result
        self._fill(self.alias_phi, self.alias, "i1", self.start.alias, result.alias, end, again)
        self._fill(self.phi, self.name, "i64", self.start.length, result.length, end, again)

    def swap(self) -> None:
        pass

    def finish(self) -> None:
        if self.mode != "same":
            self.low.arena.release(self.held.owners)
