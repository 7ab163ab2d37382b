"""Branches and loops in native code.

A loop carries numbers in registers and tensors in memory. A carried tensor has two places, which change roles at each
iteration; the first iteration reads the initial tensor where it is. Where the body computes the new tensor element by
element from the old one and nothing reads the old one afterwards, both are one place. What the body returns unchanged is
not carried at all. A branch gives one of two registers, or one of two pointers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..graph.ir import Graph, Node, Value
from ..graph.types import is_open
from ..kernels.loop_ir import LONGEST
from . import ahead, blocks, carry_modes, extents, list_memory, versions, walks
from .carries import Carry, ListCarry, typed
from .code import REGISTER
from .groups import one_element
from .grown import Grown, Remade, Shrunk, Swapped
from .polling import Strip, poll
from .telling import Text
from .text_sweeps import Sweep, makes_texts, sweeps
from .values import Decline, Fill, Listed, Mem, Operand, Reg, laid_out, numel, row_major

if TYPE_CHECKING:
    from .lower import Lowering


EMPTY = "aten.empty.memory_format"


def lower(low: Lowering, node: Node) -> None:
    """Write an If, While, Case or Call."""
    writer = {"If": _if, "While": _while, "Call": _call, "Case": _case}.get(node.op)
    if writer is None:
        raise Decline(f"{node.op} runs on the host")
    if any(n.op == "tg.assign" for r in node.regions.values() for n in r.nodes):
        raise Decline("a variable that is written inside of a branch or loop")
    writer(low, node)


def _call(low: Lowering, node: Node) -> None:
    graph = node.regions["function"]
    results = low.region(graph, [low.operand(a) for a in node.args], {})
    _bind(low, node, results)


def _bind(low: Lowering, node: Node, results: Sequence[Operand]) -> None:
    for v, x in zip(node.outputs, results):
        low.bind(v, x)
    low.release(results)


# ---- branches


def _if(low: Lowering, node: Node) -> None:
    condition = low.numbers.truth(low.register(low.operand(node.args[0])))
    then, orelse = low.code.fresh("then"), low.code.fresh("orelse")
    low.code.branch(condition, then, orelse)
    _branches(low, node, [(then, node.regions["then"]), (orelse, node.regions["orelse"])])


def _case(low: Lowering, node: Node) -> None:
    index = low.register(low.operand(node.args[0]))
    index = low.numbers.number(index, "i64")
    graphs = list(node.regions.values())
    labels = [low.code.fresh("case") for _ in graphs]
    table = " ".join(f"i64 {i}, label %{label}" for i, label in enumerate(labels[:-1]))
    low.code.line(f"switch i64 {index}, label %{labels[-1]} [ {table} ]")
    _branches(low, node, list(zip(labels, graphs)))


def _branches(low: Lowering, node: Node, branches: list[tuple[str, Graph]]) -> None:
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
        with walks.apart(low):
            found_here = [] if _raises(low, graph) else low.region(graph, args, dests)
            results = [_settled(low, v, x, dests.get(i)) for i, (v, x) in enumerate(zip(node.outputs, found_here))]  # fmt: skip
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


def _raises(low: Lowering, graph: Graph) -> bool:
    """Write a branch that does nothing but raise: what it says is made by the host."""
    if graph.outputs or not any(n.op == "tg.raise" for n in graph.nodes):
        return False
    low.fail("true")
    return True


def _settled(low: Lowering, v: Value, x: Operand, dest: Mem | None) -> Operand:
    """A branch's result in the form that both branches share; its memory is held."""
    if isinstance(x, Text):
        raise Decline("a text that depends on a branch")
    if isinstance(x, Listed):
        return _settled_list(low, x, dest)
    if one_element(v):
        return typed(v, low.register(x))
    if isinstance(x, Fill) and x.node.op == EMPTY and isinstance(dest, Mem):
        made = replace(dest, dense=True)  # whatever is there
    elif dest is not None:
        made = low.moved(x, dest)
        made = replace(made, dense=x.settled, alias=x.alias if made is x else "false", owners=dest.owners)  # fmt: skip
    elif extents.several(v.type) or (low.in_order and extents.in_order(v.type)):
        made = replace(low.row_by_row(x), dense=x.settled)
    elif is_open(v.type):
        made = extents.where_it_is(low, extents.unknown(v.type), x)
    elif isinstance(x, Mem) and x.contiguous:
        return x
    else:
        made = replace(low.contiguous(x), dense=x.settled)
    low.arena.hold(made.owners)
    low.arena.release(x.owners)
    return made


def _settled_list(low: Lowering, x: Listed, dest: Listed | None) -> Listed:
    if dest is None or x.places == dest.places:
        return x
    made = list_memory.copied(low, x, dest)
    low.arena.hold(made.owners)
    low.arena.release(x.owners)
    return made


def _merge(low: Lowering, v: Value, found: list[tuple[Operand, str]]) -> Operand:
    alias = _phi(low, "i1", [(x.alias, end) for x, end in found])
    first = found[0][0]
    if isinstance(first, Listed):
        return _merged_list(low, found, alias)
    if isinstance(first, Reg):
        text = _phi(low, REGISTER[first.dtype], [(x.text, end) for x, end in found])
        return Reg(text, first.dtype, first.size, alias)
    size = first.size if all(x.size == first.size for x, _ in found) else _merged_size(low, v, found)  # fmt: skip
    pointer = _phi(low, "ptr", [(x.pointer, end) for x, end in found])
    owners = low.arena.either(*(x.owners for x, _ in found))
    if extents.several(v.type) or (low.in_order and extents.in_order(v.type)):
        gaps = any(x.gaps for x, _ in found)
        return Mem(pointer, first.dtype, size, row_major(size), owners, all(x.dense for x, _ in found), alias, gaps=gaps)  # fmt: skip
    places = {x.place for x, _ in found}
    made = laid_out(pointer, first.dtype, size, owners, places.pop() if len(places) == 1 else "")
    dense = all(x.dense for x, _ in found)
    gaps, excused = any(x.gaps for x, _ in found), all(x.excused or x.settled for x, _ in found)
    return replace(made, dense=dense, alias=alias, gaps=gaps, excused=gaps and excused)


def _merged_size(low: Lowering, v: Value, found: list[tuple[Mem, str]]) -> tuple:
    """The size of a tensor that branches give in different sizes."""
    if not is_open(v.type):
        raise Decline("a tensor whose size depends on the branch")
    size: list[Any] = list(found[0][0].size)
    for d in (d for d, n in enumerate(v.type.shape) if n is None):
        text = _phi(low, "i64", [(low.sizes.text(x.size[d]), end) for x, end in found])
        size[d] = low.sizes.new(text, LONGEST)
    return tuple(size)


def _merged_list(low: Lowering, found: list[tuple[Listed, str]], alias: str) -> Listed:
    first = found[0][0]
    columns = zip(*(x.places for x, _ in found))
    ends = [end for _, end in found]
    places = tuple(_phi(low, "ptr", list(zip(texts, ends))) for texts in columns)
    begin, length = (
        _phi(low, "i64", [(getattr(x, n), end) for x, end in found]) for n in ("begin", "length")
    )
    owners = low.arena.either(*(x.owners for x, _ in found))
    return Listed(first.item, places, begin, length, owners, alias, any(x.fixed for x, _ in found))


def _phi(low: Lowering, kind: str, found: list[tuple[str, str]]) -> str:
    if len({text for text, _ in found}) == 1:
        return found[0][0]
    return low.code.phi(kind, *found)


# ---- loops


def _while(low: Lowering, node: Node) -> None:
    count, body = node.kwargs["carried"], node.regions["body"]
    args = [low.register(x) if _single(x) else x for x in map(low.operand, node.args)]
    modes = [carry_modes.mode(body, i) for i in range(count)]
    numbers = all(mode in ("register", "same") for mode in modes) and not makes_texts(body)
    outside = not low.inside
    low.inside += 1
    if not numbers and (done := blocks.loop(low, node, args)) is not None:
        low.inside -= 1
        for v, x in zip(node.outputs, done.state):
            low.bind(v, x)
        low.release(done.held)
        return
    count_of = versions.counted(node.regions["cond"], body, count)
    carries: list[Carry] = []
    if numbers and outside and count_of is not None and versions.branchy(body):
        state = _both_versions(low, node, args, modes, count_of)
    else:
        carries, state = _loop(low, node, args, modes, count_of)
    low.inside -= 1
    for v, x in zip(node.outputs, state):
        low.bind(v, x)
    for c in carries:
        c.finish()


def _both_versions(low: Lowering, node: Node, args: list[Operand], modes: list[str], count_of: tuple) -> list[Operand]:  # fmt: skip
    """The loop with selections and the loop with branches, and the choice between them."""
    code, found, place = low.code, [], versions.prepare(low)
    labels = [code.fresh(n) for n in ("selecting", "branching", "joined")]
    version = code.do(f"call i1 @pick(ptr {place})")
    start = code.do(f"call i64 @clock(ptr {place})")
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
    number, _, step = count_of
    kind = REGISTER[state[number].dtype]
    trips = code.do(f"sub {kind} {state[number].text}, {args[number].text}")
    trips = trips if kind == "i64" else code.do(f"sext {kind} {trips} to i64")
    trips = code.do(f"sdiv i64 {trips}, {step}")
    code.line(f"call void @stop(ptr {place}, i1 {version}, i64 {start}, i64 {trips})")
    return state


def _loop(
    low: Lowering, node: Node, args: list[Operand], modes: list[str], count_of: tuple | None
) -> tuple[list[Any], list[Operand]]:
    """Write the loop; (its carries, what they hold after it)."""
    count = node.kwargs["carried"]
    cond, body = node.regions["cond"], node.regions["body"]
    sweep = Sweep(low) if sweeps(body, count) else None
    carries = [_carry(low, body, i, args[i], modes[i], node.outputs[i]) for i in range(count)]
    low.moving.update(v for v, mode in zip(body.inputs, modes) if mode != "same")
    longer = [c for c in carries if modes[c.number] in _OPEN]
    code, work, before = low.code, low.work, low.code.block
    numbers = all(mode in ("register", "same") for mode in modes) and not makes_texts(body)
    strip = _strip(low, cond, carries, args, count_of) if not longer else None
    counter, start = ("", 0) if strip else (code.cell("i64"), code.later())
    head, inside, done = (code.fresh(n) for n in ("while", "body", "endwhile"))
    code.jump(head)
    state = [c.head(before) for c in carries]
    inputs = [*state, *args[count:]]
    if strip:
        code.branch(strip.below(strip.limit), inside, strip.leave)
    else:
        code.branch(_holds(low, cond, inputs), inside, done)
    code.label(inside)
    first = len(code.lines)
    _iteration(low, body, carries, inputs)
    if sweep is not None:
        sweep.close(carries)
    cost = max(low.work - work, 1.0)
    if not strip:
        poll(low, counter, start, cost, [n for c in longer for n in c.lengths])
    for c in carries:
        c.swap()
    end = code.block
    unrolled = versions.unrolled(code.lines[first:], body, numbers, low.branching)
    code.line(f"br label %{head}{unrolled}")
    again = strip.close(cost, done) if strip else ""
    for c in carries:
        c.latch(end, again)
    code.label(done)
    low.work = work + 100 * cost
    return carries, state


def _strip(
    low: Lowering, cond: Graph, carries: list[Any], args: list[Operand], count_of: tuple | None
) -> Strip | None:
    """The strips of a loop that counts a register up to a bound."""
    number, bound, step = count_of or (0, None, 0)
    if count_of is None or carries[number].mode != "register":
        return None
    return Strip(low, carries, carries[number], _bound(low, cond, bound, args), step)


def _holds(low: Lowering, cond: Graph, inputs: list[Operand]) -> str:
    """Whether the condition of a loop holds."""
    test = low.region(cond, inputs, {})
    condition = low.numbers.truth(low.register(test[0]))
    low.release(test)
    return condition


def _iteration(low: Lowering, body: Graph, carries: list[Any], inputs: list[Operand]) -> None:
    """The body once; then each carry holds what it left."""
    dests = {c.number: d for c in carries if (d := c.dest()) is not None}
    outside, low.coming = low.coming, []
    low.steps.update(ahead.steps(body))
    results = low.region(body, inputs, dests)
    low.coming = outside
    with walks.apart(low):
        for c in sorted(carries, key=lambda c: c.mode == "in place"):
            if isinstance(c, ListCarry):
                c.close(results[c.number], [x for i, x in enumerate(results[: len(carries)]) if i != c.number])  # fmt: skip
            else:
                c.close(results[c.number])
    low.release(results)


_OPEN = {"grown": Grown, "shrunk": Shrunk, "swapped": Swapped, "remade": Remade}


def _carry(low: Lowering, body: Graph, i: int, start: Operand, mode: str, result: Value) -> Any:
    if isinstance(start, Listed):
        return ListCarry(low, i, body, start, mode, result)
    if mode in _OPEN:
        return _OPEN[mode](low, i, body, start, mode, result)
    return Carry(low, i, body, start, mode, _caller_memory(low, result, mode))


def _caller_memory(low: Lowering, result: Value, mode: str) -> Mem | None:
    """Where the caller wants the result of a loop that is carried in one place, such as a sum: it is added up there, and not copied at the end."""
    dest = low.dests.get(result)
    if mode != "in place" or low.inside > 1 or getattr(dest, "pointer", None) not in low.callers:
        return None
    return low.dests.pop(result)


def _bound(low: Lowering, cond: Graph, bound: Value | int, args: list[Operand]) -> str:
    if isinstance(bound, Value):
        return low.register(args[cond.inputs.index(bound)]).text
    return str(bound)


def _single(x: Operand) -> bool:
    return not isinstance(x, (Reg, Listed, Text)) and numel(x.size or ()) == 1
