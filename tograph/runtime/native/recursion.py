"""Functions that call themselves in native code: a callee is a function of the module, with a frame on the stack for each call.

A callee takes the slots that ``lower`` describes, from its caller's frame: what it is given, places for what it gives, how many calls nest, behind
these whether each of them may share memory with a tensor of the program's caller, and how far down the stack of this thread may grow. Its temporaries are in its frame. It has no calls
of torch, no buffers and no texts, which are the program's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ... import stacks
from ..graph.ir import Graph, Node, Value
from ..graph.ordering import set_control_inputs
from ..graph.rewrite import copied
from ..graph.types import DTYPE_NAMES, ScalarType
from ..passes import optimize
from . import boundary, calls, stack
from .groups import one_element
from .polling import look
from .values import NO_OWNERS, Decline, Mem, Noncontiguous, Operand, Reg, strides, with_alias

if TYPE_CHECKING:
    from .lower import Lowering

FRAME = 1 << 10  # bytes of temporaries in one frame, at most
OFTEN = 1 << 14  # calls between two looks for signals


@dataclass(frozen=True)
class Returned:
    """What a call has given."""

    values: tuple[Operand, ...]
    owners: frozenset[int] = NO_OWNERS

    dtype, size, alias = "returned", None, "false"
    dense = plain = ordered = settled = True


def item(low: Lowering, node: Node) -> Operand:
    """One of the values that a call has given."""
    found = low.operand(node.args[0])
    if not isinstance(found, Returned):
        raise Decline(f"{node.op} runs on the host")
    return found.values[node.args[1]]


def call(low: Lowering, node: Node) -> None:
    """Write a call of a callee and bind what it gives."""
    if not stacks.tells():
        raise Decline(
            "a function that calls itself, where the system does not tell the size of a stack"
        )
    function, args, captured = node.args
    callee = getattr(function.value, "__self__", None)
    graph = getattr(callee, "graph", None)
    if not isinstance(graph, Graph):
        raise Decline("a function that calls itself and whose graph is not known")
    given = [*args, *(low.graph.inputs[len(args) :] if captured is None else captured)]
    name = low.callees.get(callee) or _function(low, callee, graph)
    if len(given) != len(graph.inputs):
        raise Decline("a call with other arguments than the function has")
    frame = _Frame(low, len(graph.inputs), len(graph.outputs))
    for i, (a, v) in enumerate(zip(given, graph.inputs)):
        frame.give(i, a, v)
    made = [frame.place(i, v) for i, v in enumerate(graph.outputs)]
    frame.enter(name)
    low.work += 1000
    found = tuple(frame.taken(i, v, x) for i, (v, x) in enumerate(zip(graph.outputs, made)))
    low.bind(node.outputs[0], Returned(found, frozenset().union(*(x.owners for x in found))))
    low.release(found)


class _Frame:
    """The slots of one call."""

    def __init__(self, low: Lowering, inputs: int, outputs: int):
        self.low, self.inputs, self.count = low, inputs, inputs + outputs
        self.slots = low.code.cell(f"[{2 * self.count + 2} x i64]")

    def slot(self, i: int) -> str:
        return self.low.code.do(f"getelementptr i64, ptr {self.slots}, i64 {i}")

    def give(self, i: int, a: Any, v: Value) -> None:
        """Put an argument into its slot."""
        low, code = self.low, self.low.code
        x = low.operand(a)
        if one_element(v):
            x = low.register(x)
            dtype = DTYPE_NAMES[v.type.dtype]
            if x.dtype != dtype:
                raise Decline(f"a {x.dtype} where a {dtype} belongs")
            place = self.slot(i)
            if not isinstance(v.type, ScalarType):
                cell = code.cell("i64")
                code.line(f"store ptr {cell}, ptr {place}")
                place = cell
            code.store(dtype, x.text, place)
        else:
            if not isinstance(x, Mem) or not x.plain or (x.dtype, x.size) != low_tensor(low, v):
                raise Decline("an argument of a call that is not contiguous")
            code.line(f"store ptr {x.pointer}, ptr {self.slot(i)}")
        code.store("bool", x.alias, self.slot(self.count + 1 + i))

    def place(self, i: int, v: Value) -> Any:
        """Memory for a result, if it needs some."""
        low, code = self.low, self.low.code
        if isinstance(v.type, ScalarType):
            return None
        dtype, size = low_tensor(low, v)
        made = Mem(code.cell("i64"), dtype, size, strides(size)) if one_element(v) else low.new(dtype, size)  # fmt: skip
        low.arena.hold(made.owners)
        code.line(f"store ptr {made.pointer}, ptr {self.slot(self.inputs + i)}")
        return made

    def enter(self, name: str) -> None:
        """Call, and leave where the callee does."""
        low, code = self.low, self.low.code
        lowest = low.lowest or stack.lowest(low)
        code.line(f"store i64 {low.depth}, ptr {self.slot(self.count)}")
        code.line(f"store i64 {lowest}, ptr {self.slot(2 * self.count + 1)}")
        got = code.do(f"call i32 @{name}(ptr {self.slots})")
        calls.heed(low, got)

    def taken(self, i: int, v: Value, made: Any) -> Operand:
        """A result."""
        low, code = self.low, self.low.code
        alias = code.load("bool", self.slot(self.count + 1 + self.inputs + i))
        if made is None:
            dtype = DTYPE_NAMES[v.type.dtype]
            return Reg(code.load(dtype, self.slot(self.inputs + i)), dtype)
        return with_alias(low.register(made) if one_element(v) else made, alias)


def low_tensor(low: Lowering, v: Value) -> tuple[str, tuple[int, ...]]:
    """(dtype, size) of a tensor that a call takes or gives, which are known."""
    dtype, size = low.tensor(v)
    if any(type(n) is not int for n in size):
        raise Decline("a call with a tensor whose size is known only at run time")
    return dtype, size


def _function(low: Lowering, callee: Any, graph: Graph) -> str:
    """Write the function of a callee; its name."""
    name = low.callees[callee] = f"callee{len(low.callees)}"
    made = optimize(copied(graph), inference=False)
    set_control_inputs(made, late=True)
    inner = type(low)(made, in_place=False)
    for shared in ("functions", "_known", "globals", "kernels", "named", "calls", "callees"):
        setattr(inner, shared, getattr(low, shared))
    inner.code.declares = low.code.declares
    try:
        body = _body(inner, made)
    except Noncontiguous:
        raise Decline("a call that gives a tensor that is not contiguous") from None
    if (
        inner.asked
        or inner.buffers.count
        or inner.texts
        or inner.generators
        or inner.written
        or inner.arena.size > FRAME
    ):
        raise Decline("a function that calls itself and does more than compute with few numbers")
    low.globals[name] = f"define internal i32 @{name}(ptr %params) noinline #0 {{\n{body}\n}}\n"
    return name


def _body(low: Lowering, graph: Graph) -> str:
    code, inputs, outputs = low.code, graph.inputs, graph.outputs
    low.check(graph)
    count = len(inputs) + len(outputs)
    frame, low.base = code.later(), "%frame"
    depth = code.do(f"load i64, ptr {low.slot(count)}")
    low.depth = code.do(f"add i64 {depth}, 1")
    low.lowest = code.do(f"load i64, ptr {low.slot(2 * count + 1)}")
    _guard(low, depth)
    for i, v in enumerate(inputs):
        x = boundary.take(low, i, v)
        flag = (
            "false"
            if isinstance(v.type, ScalarType)
            else code.load("bool", low.slot(count + 1 + i))
        )
        low.bind(v, with_alias(x, flag))
    places = {i: boundary.place(low, i, v) for i, v in enumerate(outputs)}
    dests = {i: place for i, place in places.items() if place is not None}
    results = low.region(graph, None, dests)
    boundary.require_contiguous(low, results)
    for i, (v, x) in enumerate(zip(outputs, results)):
        boundary.deliver(low, i, v, x, dests.get(i))
        code.store("bool", x.alias, low.slot(count + 1 + len(inputs) + i))
    code.line("ret i32 0")
    code.label("declined")
    code.line("ret i32 1")
    code.fill(frame, f"%frame = alloca [{max(low.arena.size, 1)} x i8], align 64")
    return "\n".join(line for line in code.lines if line)


def _guard(low: Lowering, depth: str) -> None:
    """Decline where Python's limit is reached or the stack has no more room, which the host says; look for signals now and then."""
    code = low.code
    code.declare("Py_GetRecursionLimit", "i32 {}()")
    limit = code.do(f"sext i32 {code.do('call i32 @Py_GetRecursionLimit()')} to i64")
    low.fail(code.do(f"icmp sgt i64 {depth}, {limit}"))
    here = code.do("ptrtoint ptr %frame to i64")
    low.fail(code.do(f"icmp ult i64 {here}, {low.lowest}"))
    low.globals["entered"] = "@entered = internal global i64 0\n"
    entered = code.do(f"add i64 {code.do('load i64, ptr @entered')}, 1")
    code.line(f"store i64 {entered}, ptr @entered")
    now, on = code.fresh("look"), code.fresh("on")
    code.branch(code.do(f"icmp eq i64 {code.do(f'and i64 {entered}, {OFTEN - 1}')}, 0"), now, on)
    code.label(now)
    look(low)
    code.jump(on)


RULES = {"tg.recursion": call, "tg.py_item": item}
