"""Branches and loops in native code.

A loop carries numbers in registers and tensors in memory. A carried tensor has two places, which change roles at each
iteration; the first iteration reads the initial tensor where it is. Where the body computes the new tensor element by
element from the old one and nothing reads the old one afterwards, both are one place. What the body returns unchanged is
not carried at all. A branch gives one of two registers, or one of two pointers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Graph, Node, Value
from ..kernels.gathers import sources
from ..types import DTYPE_NAMES, ScalarType
from . import versions
from .code import REGISTER
from .groups import one_element, overwrites, schedule
from .threading import COUNTER
from .values import Decline, Mem, Operand, Reg, numel, strides, with_alias

POLL_NANOSECONDS = 5e6  # about how long a loop runs before it looks for signals


def lower(low, node: Node) -> None:
    """Write an If, While, Case or Call."""
    writer = {"If": _if, "While": _while, "Call": _call, "Case": _case}.get(node.op)
    if writer is None:
        raise Decline(f"{node.op} runs on the host")
    if any(n.op == "tg.assign" for r in node.regions.values() for n in r.nodes):
        raise Decline("a variable that is written inside of a branch or loop")
    writer(low, node)


def _call(low, node: Node) -> None:
    graph = node.regions["function"]
    results = low.region(graph, [low.operand(a) for a in node.args], {})
    _bind(low, node, results)


def _bind(low, node: Node, results: Sequence[Operand]) -> None:
    for v, x in zip(node.outputs, results):
        low.bind(v, x)
    low.release(results)


# ---- branches


def _if(low, node: Node) -> None:
    condition = low.numbers.truth(low.register(low.operand(node.args[0])))
    then, orelse = low.code.fresh("then"), low.code.fresh("orelse")
    low.code.branch(condition, then, orelse)
    _branches(low, node, [(then, node.regions["then"]), (orelse, node.regions["orelse"])])


def _case(low, node: Node) -> None:
    index = low.register(low.operand(node.args[0]))
    index = low.numbers.number(index, "i64")
    graphs = list(node.regions.values())
    labels = [low.code.fresh("case") for _ in graphs]
    table = " ".join(f"i64 {i}, label %{label}" for i, label in enumerate(labels[:-1]))
    low.code.line(f"switch i64 {index}, label %{labels[-1]} [ {table} ]")
    _branches(low, node, list(zip(labels, graphs)))


def _branches(low, node: Node, branches: list[tuple[str, Graph]]) -> None:
    code, after = low.code, low.code.fresh("endif")
    args = [low.operand(a) for a in node.args[1:]]
    dests = {i: low.dests.pop(v) for i, v in enumerate(node.outputs) if v in low.dests}
    ends, found, before = [], [], low.work
    most = before
    for label, graph in branches:
        code.label(label)
        if low.branching:
            versions.barrier(low)
        low.work = before
        results = [_settled(low, v, x, dests.get(i)) for i, (v, x) in enumerate(zip(node.outputs, low.region(graph, args, dests)))]  # fmt: skip
        most = max(most, low.work)
        ends.append(code.block)
        code.line(f"br label %{after}")
        found.append(results)
    low.work = most
    code.label(after)
    merged = [_merge(low, v, list(zip(xs, ends))) for v, xs in zip(node.outputs, zip(*found))]
    for v, x in zip(node.outputs, merged):
        low.bind(v, x)
    for results in found:
        low.release(results)


def _settled(low, v: Value, x: Operand, dest: Mem | None) -> Operand:
    """A branch's result in the form that both branches share; its memory is held."""
    if one_element(v):
        return _typed(v, low.register(x))
    if dest is not None:
        if x is not dest and getattr(x, "pointer", None) != dest.pointer:
            low.copy(x, dest)
        low.arena.release(x.owners)
        low.arena.hold(dest.owners)
        return Mem(dest.pointer, dest.dtype, dest.size, dest.stride, dest.owners, x.plain)
    if isinstance(x, Mem) and x.contiguous:
        return x
    made = low.contiguous(x)
    low.arena.hold(made.owners)
    low.arena.release(x.owners)
    return made if x.plain else Mem(made.pointer, made.dtype, made.size, made.stride, made.owners, False)  # fmt: skip


def _typed(v: Value, x: Reg) -> Reg:
    """A register with the type of ``v``."""
    dtype = DTYPE_NAMES[v.type.dtype]
    if x.dtype != dtype:
        raise Decline(f"a {x.dtype} where a {dtype} belongs")
    size = None if isinstance(v.type, ScalarType) else tuple(v.type.shape)
    return Reg(x.text, dtype, size, x.alias)


def _merge(low, v: Value, found: list[tuple[Operand, str]]) -> Operand:
    alias = _phi(low, "i1", [(x.alias, end) for x, end in found])
    first = found[0][0]
    if isinstance(first, Reg):
        text = _phi(low, REGISTER[first.dtype], [(x.text, end) for x, end in found])
        return Reg(text, first.dtype, first.size, alias)
    pointer = _phi(low, "ptr", [(x.pointer, end) for x, end in found])
    owners = frozenset().union(*(x.owners for x, _ in found))
    dense = all(x.dense for x, _ in found)
    return Mem(pointer, first.dtype, first.size, strides(first.size), owners, dense, alias)


def _phi(low, kind: str, found: list[tuple[str, str]]) -> str:
    if len({text for text, _ in found}) == 1:
        return found[0][0]
    return low.code.phi(kind, *found)


# ---- loops


class _Carry:
    """One carried value: how it enters the loop, what the head holds, where the body puts the next one."""

    def __init__(self, low, number: int, graph: Graph, start: Operand, mode: str):
        self.low, self.number, self.mode, self.graph = low, number, mode, graph
        self.value = graph.inputs[number]
        self.places: list[Mem] = []
        self.start = self._prepare(start)

    def _prepare(self, x: Operand) -> Operand:
        low = self.low
        if self.mode == "same":
            return x
        if self.mode == "register":
            return _typed(self.value, low.register(x))
        dtype, size = low.tensor(self.value)
        self.places = [low.new(dtype, size) for _ in range(1 if self.mode == "in place" else 2)]
        for p in self.places:
            low.arena.hold(p.owners)
        if self.mode == "in place" or not (isinstance(x, Mem) and x.contiguous):
            low.copy(x, self.places[0])
            return Mem(self.places[0].pointer, dtype, size, strides(size), self.places[0].owners, x.plain, x.alias)  # fmt: skip
        return x

    def head(self, before: str) -> Operand:
        """The value at the head of the loop."""
        code, x = self.low.code, self.start
        self.before = before
        if self.mode == "same":
            return x
        self.alias = "%" + code.fresh("alias")
        self.alias_phi = code.later()
        if self.mode == "in place":
            return with_alias(x, self.alias)
        self.phi = code.later()
        name = "%" + code.fresh("carry")
        self.name = name
        if self.mode == "register":
            return Reg(name, x.dtype, x.size, self.alias)
        self.next_phi, self.next = code.later(), "%" + code.fresh("next")
        owners = x.owners | self.places[0].owners | self.places[1].owners
        return Mem(name, x.dtype, x.size, strides(x.size), owners, x.dense, self.alias)

    def dest(self) -> Mem | None:
        """Where the body is to compute the next value."""
        if self.mode == "in place":
            p = self.places[0]
            return Mem(p.pointer, p.dtype, p.size, p.stride, p.owners)
        if self.mode == "memory":
            p = self.places[0]
            return Mem(self.next, p.dtype, p.size, p.stride, p.owners | self.places[1].owners)
        return None

    def close(self, x: Operand) -> None:
        """Move the body's result to where the next iteration finds it."""
        if self.mode == "same":
            return
        if self.mode == "register":
            self.result = _typed(self.value, self.low.register(x))
            return
        self.result = x
        if not x.plain:
            raise Decline("a carried tensor that becomes strided")
        dest = self.dest()
        if getattr(x, "pointer", None) != dest.pointer:
            self.low.copy(x, dest)

    def enter(self, strip: str) -> None:
        """Make room at the head of a loop around the loop; see ``_Strip``."""
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


def _while(low, node: Node) -> None:
    count, body = node.kwargs["carried"], node.regions["body"]
    args = [low.register(x) if _single(x) else x for x in map(low.operand, node.args)]
    modes = [_mode(body, i) for i in range(count)]
    numbers = all(mode in ("register", "same") for mode in modes)
    outside = not low.inside
    low.inside += 1
    count_of = versions.counted(node.regions["cond"], body, count)
    carries: list[_Carry] = []
    if numbers and outside and count_of is not None and versions.branchy(body):
        state = _both_versions(low, node, args, modes, count_of)
    else:
        carries, state = _loop(low, node, args, modes, count_of)
    low.inside -= 1
    for v, x in zip(node.outputs, state):
        low.bind(v, x)
    for c in carries:
        c.finish()


def _both_versions(low, node: Node, args: list[Operand], modes: list[str], count_of: tuple) -> list[Operand]:  # fmt: skip
    """The loop with selections and the loop with branches, and the choice between them."""
    code, found, place = low.code, [], versions.prepare(low)
    labels = [code.fresh(n) for n in ("selecting", "branching", "joined")]
    version = code.do(f"call i1 @pick(ptr {place})")
    before = code.do(f"call i64 @llvm.{COUNTER}()")
    work = low.work
    code.branch(version, labels[1], labels[0])
    for branching, label in enumerate(labels[:2]):
        code.label(label)
        low.branching, low.work = bool(branching), work
        _, state = _loop(low, node, args, modes, count_of)
        found.append((state, code.block))
        code.line(f"br label %{labels[2]}")
    low.branching = False
    code.label(labels[2])
    ends = [end for _, end in found]
    state = [_merge(low, v, list(zip(xs, ends))) for v, xs in zip(node.outputs, zip(*(s for s, _ in found)))]  # fmt: skip
    after = code.do(f"call i64 @llvm.{COUNTER}()")
    ticks = code.do(f"sub i64 {after}, {before}")
    number, _, step = count_of
    kind = REGISTER[state[number].dtype]
    trips = code.do(f"sub {kind} {state[number].text}, {args[number].text}")
    trips = trips if kind == "i64" else code.do(f"sext {kind} {trips} to i64")
    trips = code.do(f"sdiv i64 {trips}, {step}")
    code.line(f"call void @judge(ptr {place}, i1 {version}, i64 {ticks}, i64 {trips})")
    return state


def _loop(low, node: Node, args: list[Operand], modes: list[str], count_of: tuple | None):
    """Write the loop; (its carries, what they hold after it)."""
    count = node.kwargs["carried"]
    cond, body = node.regions["cond"], node.regions["body"]
    carries = [_Carry(low, i, body, args[i], modes[i]) for i in range(count)]
    code, work = low.code, low.work
    number, bound, step = count_of or (0, None, 0)
    before, strip = code.block, None
    if count_of is not None and modes[number] == "register":
        strip = _Strip(low, carries, carries[number], _bound(low, cond, bound, args), step)
    counter, start = ("", 0) if strip else (code.cell("i64"), code.later())
    head, inside, done = (code.fresh(n) for n in ("while", "body", "endwhile"))
    code.jump(head)
    state = [c.head(before) for c in carries]
    inputs = [*state, *args[count:]]
    if strip:
        code.branch(strip.below(strip.limit), inside, strip.leave)
    else:
        test = low.region(cond, inputs, {})
        condition = low.numbers.truth(low.register(test[0]))
        low.release(test)
        code.branch(condition, inside, done)
    code.label(inside)
    dests = {c.number: d for c in carries if (d := c.dest()) is not None}
    results = low.region(body, inputs, dests)
    for c in sorted(carries, key=lambda c: c.mode == "in place"):
        c.close(results[c.number])
    low.release(results)
    cost = max(low.work - work, 1.0)
    if not strip:
        _poll(low, counter, start, cost)
    for c in carries:
        c.swap()
    end = code.block
    again = ""
    code.line(f"br label %{head}{versions.unrolled(low) if low.branching else ''}")
    if strip:
        again = strip.close(cost, done)
    for c in carries:
        c.latch(end, again)
    code.label(done)
    low.work = work + 100 * cost
    return carries, state


def _bound(low, cond: Graph, bound: Value | int, args: list[Operand]) -> str:
    if isinstance(bound, Value):
        return low.register(args[cond.inputs.index(bound)]).text
    return str(bound)


class _Strip:
    """A loop around a counted loop, which runs to ``limit`` at most; then it is done, or looks for signals and goes on.

    ``leave`` is where the counted loop goes at the limit.
    """

    def __init__(self, low, carries: list[_Carry], number: _Carry, bound: str, step: int):
        self.low, self.number, self.bound, self.step = low, number, bound, step
        code = low.code
        self.kind = kind = REGISTER[number.start.dtype]
        self.head, self.leave = code.fresh("strip"), code.fresh("leave")
        for name in ("smin", "sadd.sat"):
            code.declare(f"llvm.{name}.{kind}", f"{kind} {{}}({kind}, {kind})")
        code.jump(self.head)
        for c in carries:
            c.enter(self.head)
        self.far_place, self.far = code.later(), "%" + code.fresh("far")
        self.limit = code.do(f"call {kind} @llvm.smin.{kind}({kind} {self.far}, {kind} {bound})")

    def below(self, limit: str) -> str:
        return self.low.code.do(f"icmp slt {self.kind} {self.number.name}, {limit}")

    def close(self, cost: float, done: str) -> str:
        """Write what follows the limit; the last block of the loop."""
        code, kind = self.low.code, self.kind
        often = min(max(1, int(POLL_NANOSECONDS / cost)) * self.step, (1 << 31) - 1)
        code.fill(self.far_place, f"{self.far} = call {kind} @llvm.sadd.sat.{kind}({kind} {self.number.name}o, {kind} {often})")  # fmt: skip
        look = code.fresh("look")
        code.label(self.leave)
        code.branch(self.below(self.bound), look, done)
        code.label(look)
        _look(self.low)
        code.line(f"br label %{self.head}")
        return code.block


def _single(x: Operand) -> bool:
    return not isinstance(x, Reg) and numel(x.size or ()) == 1


def _mode(body: Graph, i: int) -> str:
    value, result = body.inputs[i], body.outputs[i]
    if value is result:
        return "same"
    if one_element(value):
        return "register"
    return (
        "in place" if _in_place(body, value, result) or _updated(body, value, result) else "memory"
    )


def _updated(body: Graph, value: Value, result: Value) -> bool:
    """Whether ``result`` is ``value`` with parts of it updated, each in the place of the one before."""
    if body.outputs.count(result) > 1:
        return False
    found = overwrites(body)
    while result in found:
        result = found[result][0]
        if result is value:
            return True
    return False


def _in_place(body: Graph, value: Value, result: Value) -> bool:
    """Whether ``result`` may be written over ``value``: element by element, and nobody reads the old one later."""
    if value in body.outputs or body.outputs.count(result) > 1 or result.node is None:
        return False
    groups = schedule(body)
    number = {id(n): g for g, group in enumerate(groups) for n in group.nodes}
    own = number[id(result.node)]
    if groups[own].kind != "loop" or groups[own].dims is not None:
        return False
    if result.type.shape != value.type.shape:
        return False
    names, aliases = {value}, [value]
    for v in aliases:
        for n in body.nodes:
            if v not in n.inputs:
                continue
            if n.regions or number[id(n)] > own:
                return False
            if number[id(n)] == own and (v is not value or v in sources(n)):
                return False
            if groups[number[id(n)]].kind == "scalar":
                aliases += [o for o in n.outputs if o not in names]
                names.update(n.outputs)
    return True


def _poll(low, counter: str, start: int, cost: float) -> None:
    """Every few milliseconds: let other threads run, and Python handle its signals."""
    code = low.code
    often = max(1, int(POLL_NANOSECONDS / cost))
    code.fill(start, f"store i64 {often}, ptr {counter}")
    left = code.do(f"sub i64 {code.do(f'load i64, ptr {counter}')}, 1")
    code.line(f"store i64 {left}, ptr {counter}")
    poll, on = code.fresh("poll"), code.fresh("on")
    code.branch(code.do(f"icmp eq i64 {left}, 0"), poll, on)
    code.label(poll)
    code.line(f"store i64 {often}, ptr {counter}")
    _look(low)
    code.jump(on)


def _look(low) -> None:
    """Let other threads run, and Python handle its signals; return where one of these raised."""
    code = low.code
    stopped = code.do("call i32 @poll()")
    low.globals["poll"] = _POLL
    stop, on = code.fresh("stop"), code.fresh("on")
    code.branch(code.do(f"icmp eq i32 {stopped}, 0"), on, stop)
    code.label(stop)
    code.line("ret i32 2")
    code.label(on)


_POLL = """define internal i32 @poll() noinline cold {
  %state = call ptr @PyEval_SaveThread()
  call void @PyEval_RestoreThread(ptr %state)
  %stopped = call i32 @PyErr_CheckSignals()
  ret i32 %stopped
}
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @PyErr_CheckSignals()
"""
