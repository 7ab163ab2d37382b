"""Loops over elementwise state that run block by block: while the data are in registers, not once over all of it for each iteration.

``for _ in range(n): x = r * x * (1 - x)`` over a million elements would pass over memory ``n`` times. Where the elements do not need one another
(``kernels.loop_blocks``) each block of them makes all iterations at once (``block_code``), on all threads; and where a condition asks for ``any`` element that goes
on, a block whose elements have ended is done. The program makes rounds of many iterations: behind each it looks for signals, and counts
the numbers on by as many iterations as the block that went on longest has made. What its numbers cannot be fails there, in the first iteration in
which it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from ..graph.ir import Node, Value
from ..graph.types import DTYPE_NAMES, TensorType
from ..inference.shapes import Meta
from ..kernels.build import build, expressible
from ..kernels.kernel import WORK_PER_THREAD, target, work_of
from ..kernels.llvm import Plan, Target
from ..kernels.loop_formulas import size_of
from ..kernels.loop_ir import ITEM_SIZES, Kernel, Unsupported
from ..kernels.planning import plan
from . import threading
from .block_code import Task
from .block_parts import Parts
from .carries import typed
from .code import REGISTER
from .nests import Nest
from .polling import look
from .values import Decline, Fill, Mem, Operand, Reg, strides
from .walks import counted

if TYPE_CHECKING:
    from .lower import Lowering

LEAST = 64  # elements of a state that is worth it
VECTORS = 8  # of a unit, each as many as are there at once
# Vectors at once: at most, registers for what they keep, of 32, and simple operations in an iteration, of which more take long to compile and wait for
# one another less.
PIECES, REGISTERS, BODY = 8, 24, 160
USUAL = 32  # iterations that a loop is taken to make where threads are shared out
ROUND = 1 << 25  # about how many operations on elements a round makes
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Done:
    """What the state has become, and what has to be released when that is bound."""

    state: list[Operand]
    held: list[Operand]


def loop(low: Lowering, node: Node, args: Sequence[Operand]) -> Done | None:
    """Write a ``While`` block by block; None where it has no such form."""
    try:
        parts = Parts(node)
        task = _task(low, node, parts, args)
        text = task.function(name := f"blocks{len(low.kernels)}")
    except (Unsupported, Decline):
        return None
    inner = task.inner
    if inner.asked or inner.buffers.count or inner.texts or inner.generators or inner.written or inner.arena.size > _EMPTY:  # fmt: skip
        return None
    low.functions.append(text)
    low.kernels.append(Nest(name, text, task.kernel))
    return _Driver(low, node, parts, task, name, args).write()


_EMPTY = 64  # what the plan of memory has for a program without temporaries


def _task(low: Lowering, node: Node, parts: Parts, args: Sequence[Operand]) -> Task:
    machine = target()
    if machine is None:
        raise Unsupported("no compiler")
    given = dict(zip(parts.body.inputs, args))
    shape = tuple(parts.next[0].type.shape)
    if any(tuple(parts.body.inputs[j].type.shape) != shape for j in parts.elements):
        raise Unsupported("state of several shapes")
    if size_of(parts.next[0]) < LEAST:
        raise Unsupported("few elements")
    for j in parts.elements:
        x, v = args[j], parts.body.inputs[j]
        if v in low.strided or not (isinstance(x, Fill) or (isinstance(x, Mem) and x.plain)):
            raise Unsupported("state that is not contiguous")
    for n in parts.region.nodes:
        if not expressible(n.op):
            raise Unsupported(f"{n.op} in a loop over blocks")
    kernel = build(parts.region, _metas(parts, given), f"blocks{len(low.kernels)}")
    inner = type(low)(parts.step, in_place=False)
    for shared in ("functions", "_known", "globals", "kernels", "named", "calls", "callees"):
        setattr(inner, shared, getattr(low, shared))
    inner.code.declares = low.code.declares
    return Task(kernel, machine, _plan(kernel, plan(kernel, machine), machine), parts, inner)


def _metas(parts: Parts, given: dict[Value, Operand]) -> dict[Value, Meta]:
    """Sizes and strides of the elements' nodes and of what they read."""
    metas = {}
    made = [v for n in parts.region.nodes for v in n.outputs]
    for v in dict.fromkeys([*parts.region.inputs, *made]):
        if not isinstance(v.type, TensorType):
            continue
        size = tuple(v.type.shape)
        stride, x = strides(size), given.get(v)
        if isinstance(x, Mem):
            if not x.ordered or x.size != size:
                raise Unsupported("a tensor whose elements lie in another order")
            stride = x.stride
        metas[v] = Meta(v.type.dtype, size, stride if size_of(v) > 1 else (0,) * len(size), 0, _CPU)
    return metas


def _plan(kernel: Kernel, found: Plan, machine: Target) -> Plan:
    """As many vectors at once as registers hold, so that one does not wait for itself, and units of a few times as many."""
    if found.lanes is None or type(found.lanes.size) is not int or not found.block:
        return found
    kept = [b.dtype for b in kernel.buffers if not b.written]
    registers = sum(max(ITEM_SIZES[d] // 4, 1) for d in kept if d != "bool")
    most = REGISTERS if machine.avx512 else REGISTERS // 2
    n, pieces = found.lanes.size, PIECES
    work = work_of(kernel)
    while pieces > 1 and (pieces * registers > most or pieces * found.narrow > n or pieces * work > BODY):  # fmt: skip
        pieces //= 2
    wide = pieces * found.narrow
    block = min(VECTORS * wide, n)
    outside = found.units // -(-n // found.block)
    return replace(found, wide=wide, block=block, units=outside * -(-n // block))


class _Driver:
    """The rounds of a loop in the program."""

    def __init__(self, low: Lowering, node: Node, parts: Parts, task: Task, name: str, args: Sequence[Operand]):  # fmt: skip
        self.low, self.node, self.parts, self.task, self.name, self.args = low, node, parts, task, name, args  # fmt: skip
        self.held: list[Operand] = []

    def write(self) -> Done:
        low, code, parts = self.low, self.low.code, self.parts
        inputs = dict(zip(parts.body.inputs, self.args))
        starts = [self._hold(low.contiguous(inputs[v])) for v in self.task.state]
        places = [self._hold(self._place(j)) for j in parts.elements]
        reads = {name: self._hold(low.memory(inputs[v])).pointer for v, name in self.task.parameters.items() if name in self.task.read_only}  # fmt: skip
        self.block = code.cell(f"[{len(self.task.slots)} x i64]")
        self._slots = {name: code.do(f"getelementptr i64, ptr {self.block}, i64 {i}") for i, name in enumerate(self.task.slots)}  # fmt: skip
        for name, pointer in reads.items():
            code.line(f"store ptr {pointer}, ptr {self._slots[name]}")
        for j, place in enumerate(places):
            code.line(f"store ptr {starts[j].pointer}, ptr {self._slots[f'start{j}']}")
            code.line(f"store ptr {place.pointer}, ptr {self._slots[f'place{j}']}")
        small = [typed(v, low.register(inputs[v])) for v in self.task.small]
        state = _State(self, small)
        self._rounds(state, places)
        return Done(self._state(places, state), self.held)

    def _hold(self, x: Any) -> Any:
        self.low.arena.hold(x.owners)
        self.held.append(x)
        return x

    def _place(self, j: int) -> Mem:
        """Where a part of the state goes: where the caller wants it, or new memory."""
        low, v = self.low, self.node.outputs[j]
        dest = low.dests.get(v)
        if isinstance(dest, Mem) and low.inside == 1 and dest.pointer in low.callers and dest.contiguous:  # fmt: skip
            return low.dests.pop(v)
        return low.new(*low.tensor(self.parts.body.inputs[j]))

    def _rounds(self, state: _State, places: Sequence[Mem]) -> None:
        """Write the rounds, which leave ``state`` as it is behind the loop."""
        low, code = self.low, self.low.code
        head, again, done = (code.fresh(s) for s in ("round", "another", "rounds"))
        limit = max(ROUND // (size_of(self.parts.next[0]) * work_of(self.task.kernel)), 1)
        code.jump(head)
        for i, v in enumerate(self.task.small):
            code.store(DTYPE_NAMES[v.type.dtype], state.get(i).text, self._slots[f"number{i}"])
        for name, number in (("limit", limit), ("steps", 0), ("failed", 0)):
            code.line(f"store i64 {number}, ptr {self._slots[name]}")
        self._call()
        failed = code.do(f"load i64, ptr {self._slots['failed']}")
        low.fail(code.do(f"icmp ne i64 {failed}, 0"))
        most = code.do(f"load i64, ptr {self._slots['steps']}")
        steps = code.do(f"lshr i64 {most}, 1")
        state.advance(steps, code.do(f"trunc i64 {most} to i1"))
        code.branch(code.do(f"icmp slt i64 {steps}, {limit}"), done, again)
        code.label(again)
        look(low)
        for j, place in enumerate(places):
            code.line(f"store ptr {place.pointer}, ptr {self._slots[f'start{j}']}")
        code.line(f"br label %{head}")
        code.label(done)
        low.work += USUAL * size_of(self.parts.next[0]) * work_of(self.task.kernel) * 0.01

    def _call(self) -> None:
        units = self.task.plan.units
        per_unit = self.task.plan.block * work_of(self.task.kernel) * USUAL
        grain = max(1, -(-WORK_PER_THREAD // per_unit))
        if units > grain and threading.available():
            threading.call(self.low, self.name, self.name, self.block, units, grain)
        else:
            self.low.code.line(f"call void @{self.name}(i64 0, i64 {units}, ptr {self.block})")

    # ---- results

    def _state(self, places: Sequence[Mem], state: _State) -> list[Operand]:  # fmt: skip
        parts, found = self.parts, list[Operand]()
        small = iter(state.get(self.task.small.index(parts.body.inputs[j])) for j in parts.numbers)
        made = dict(zip(parts.elements, places))
        for j in range(self.node.kwargs["carried"]):
            if j in parts.numbers:
                found.append(next(small))
            elif j in made:
                found.append(replace(made[j], dense=True, alias=state.alias(j)))  # fmt: skip
            else:
                found.append(self.args[j])
        return found


class _State:
    """What the program knows of the state between rounds, in cells that become registers: the numbers, and whether elements are a tensor of the caller."""

    def __init__(self, driver: _Driver, small: list[Reg]):
        self.low, self.parts, self.small = driver.low, driver.parts, small
        self.inputs = self.parts.body.inputs
        self.places = {j: driver.task.small.index(self.inputs[j]) for j in self.parts.numbers}
        self.values = {i: self._cell(REGISTER[small[i].dtype], small[i].text) for i in self.places.values()}  # fmt: skip
        self.aliases = {j: self._cell("i1", driver.args[j].alias) for j in (*self.parts.numbers, *self.parts.elements)}  # fmt: skip
        self.of_number = {i: j for j, i in self.places.items()}

    def _cell(self, kind: str, text: str) -> str:
        cell = self.low.code.cell(kind)
        self.low.code.line(f"store {kind} {text}, ptr {cell}")
        return cell

    def get(self, i: int) -> Reg:
        if i not in self.values:
            return self.small[i]
        text = self.low.code.do(f"load {REGISTER[self.small[i].dtype]}, ptr {self.values[i]}")
        return replace(self.small[i], text=text, alias=self.alias(self.of_number[i]))

    def alias(self, j: int) -> str:
        return self.low.code.do(f"load i1, ptr {self.aliases[j]}")

    def registers(self) -> list[Reg]:
        return [self.get(i) for i in range(len(self.small))]

    def advance(self, steps: str, going: str) -> None:
        """Count on by so many iterations; ``going``: whether the elements were to go on in the last one, as in those before."""
        low, code, parts = self.low, self.low.code, self.parts
        with counted(code, steps) as k:
            if parts.blocks.late:
                self._answer(code.do(f"icmp eq i64 {k}, {code.do(f'sub i64 {steps}, 1')}"), going)
            results = [low.register(x) for x in low.region(parts.step, self.registers(), {})]
            truths = dict(zip(parts.truths, results[len(parts.numbers) :]))
            following = [self._following(v, truths) for v in parts.next]
            for j, x in zip(parts.numbers, results):
                i = self.places[j]
                kind = REGISTER[self.small[i].dtype]
                code.line(f"store {kind} {typed(self.inputs[j], x).text}, ptr {self.values[i]}")
                code.line(f"store i1 {x.alias}, ptr {self.aliases[j]}")
            for j, text in zip(parts.elements, following):
                code.line(f"store i1 {text}, ptr {self.aliases[j]}")

    def _answer(self, last: str, going: str) -> None:
        """Bind what the elements have answered in an iteration."""
        code, blocks = self.low.code, self.parts.blocks
        goes = code.do(f"select i1 {last}, i1 {going}, i1 true")
        answer = goes if blocks.wanted else code.do(f"xor i1 {goes}, true")
        for v in self.parts.answers:
            self.low.bind(v, Reg(answer, "bool", ()))

    def _following(self, v: Any, truths: dict[Value, Reg]) -> str:
        """Whether what elements become in an iteration is a tensor of the caller."""
        found = self.parts.handed(v)
        if found is None:
            return "false"
        if not isinstance(found, tuple):
            return self.alias(self.inputs.index(found))
        truth, then, orelse = found
        a, b = self._following(then, truths), self._following(orelse, truths)
        truth = self.low.numbers.truth(truths[truth])
        return a if a == b else self.low.code.do(f"select i1 {truth}, i1 {a}, i1 {b}")


__all__ = ["Done", "loop"]
