"""Loops over a few numbers: which ones count, and which exist in two versions.

A counted loop runs while a carried integer that grows by a constant is below a bound that does not change. It looks for signals
outside: inside, it runs to the nearer of its bound and the next look, so that LLVM sees a loop with one exit, and unrolls it.

A branch that computes one of two numbers can be a branch or a selection of one of both results. A selection costs the same
for all data, but the next iteration waits for it; a branch is faster where the processor foresees it, and much slower where it
does not. That depends on the data, so a loop of such branches is compiled in both versions. The first calls take them in
turn, then calls take the one whose iterations were shorter, and now and then the other. Both give the same result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..graph.families import SUMS
from ..graph.ir import Graph, Value, all_nodes
from ..graph.types import DTYPE_NAMES, ScalarType, TensorType
from .code import RARE, SIZE, UNROLL
from .groups import one_element
from .threading import COUNTER

if TYPE_CHECKING:
    from .lower import Lowering

LARGEST = 40  # nodes of a loop that is compiled twice
SMALL = 16  # nodes of a body that is worth some copies
TRIALS = 8  # calls that take the versions in turn
REPEAT = 1024  # every so many later ones take the other one, which may be many times slower
ENOUGH = 64  # iterations whose time says something
EARLY, LATER = (
    64,
    16,
)  # calls that are timed each, and then one of so many: two reads of the clock are 1 % of a short loop

_BELOW = {"aten.lt.Tensor": (0, 1), "aten.lt.Scalar": (0, 1), "py.lt": (0, 1),
          "aten.gt.Tensor": (1, 0), "aten.gt.Scalar": (1, 0), "py.gt": (1, 0)}  # fmt: skip
_OTHERS = ("If", "tg.identity", "tg.choose")

# The state of a loop: calls so far, then the shortest time of 256 iterations in each version, slowly forgotten.
TEXT = f"""define internal i1 @pick(ptr %state) {RARE} {{
  %calls = load i64, ptr %state
  %more = add i64 %calls, 1
  store i64 %more, ptr %state
  %place0 = getelementptr i64, ptr %state, i64 1
  %place1 = getelementptr i64, ptr %state, i64 2
  %time0 = load i64, ptr %place0
  %time1 = load i64, ptr %place1
  %faster = icmp ult i64 %time1, %time0
  %rest = and i64 %calls, {REPEAT - 1}
  %again = icmp eq i64 %rest, {REPEAT - 1}
  %best = xor i1 %faster, %again
  %young = icmp ult i64 %calls, {TRIALS}
  %turn = trunc i64 %calls to i1
  %chosen = select i1 %young, i1 %turn, i1 %best
  ret i1 %chosen
}}
define internal i64 @clock(ptr %state) {RARE} {{
  %calls = load i64, ptr %state
  %early = icmp ule i64 %calls, {EARLY}
  %rest = and i64 %calls, {LATER - 1}
  %turn = icmp eq i64 %rest, 0
  %due = or i1 %early, %turn
  br i1 %due, label %read, label %done
read:
  %now = call i64 @llvm.{COUNTER}()
  br label %done
done:
  %start = phi i64 [ 0, %0 ], [ %now, %read ]
  ret i64 %start
}}
define internal void @stop(ptr %state, i1 %version, i64 %start, i64 %trips) {RARE} {{
  %timed = icmp ne i64 %start, 0
  br i1 %timed, label %read, label %done
read:
  %end = call i64 @llvm.{COUNTER}()
  %ticks = sub i64 %end, %start
  call void @judge(ptr %state, i1 %version, i64 %ticks, i64 %trips)
  br label %done
done:
  ret void
}}
define internal void @judge(ptr %state, i1 %version, i64 %ticks, i64 %trips) {RARE} {{
  %enough = icmp sgt i64 %trips, {ENOUGH}
  br i1 %enough, label %known, label %done
known:
  %scaled = shl i64 %ticks, 8
  %time = udiv i64 %scaled, %trips
  %number = zext i1 %version to i64
  %index = add i64 %number, 1
  %place = getelementptr i64, ptr %state, i64 %index
  %old = load i64, ptr %place
  %eighth = lshr i64 %old, 3
  %slack = add i64 %old, %eighth
  %least = call i64 @llvm.umin.i64(i64 %time, i64 %slack)
  %first = icmp eq i64 %old, 0
  %new = select i1 %first, i64 %time, i64 %least
  store i64 %new, ptr %place
  br label %done
done:
  ret void
}}
"""


def barrier(low: Lowering) -> None:
    """What keeps LLVM from computing both branches, or a part of both: an empty instruction unlike any other."""
    number = low.code.fresh("")[1:]
    low.code.line(f'call void asm sideeffect "", "i"(i32 {number})')


def prepare(low: Lowering) -> str:
    """The place of a loop's state; the functions go to the module."""
    low.globals["pick"] = TEXT
    low.code.declares[COUNTER] = f"declare i64 @llvm.{COUNTER}()"
    low.code.declares["llvm.umin.i64"] = "declare i64 @llvm.umin.i64(i64, i64)"
    name = f"@loop_{len(low.globals)}"
    low.globals[name] = f"{name} = internal global [3 x i64] zeroinitializer\n"
    return name


def unrolled(lines: list[str], body: Graph, numbers: bool, branching: bool) -> str:
    """How the branch back of a loop ends, whose code is ``lines``. ``numbers``: it carries numbers only.

    Copies of a small body of numbers save what a loop costs itself; with real branches, each copy's are foreseen by themselves.
    One that calls the host, or has a loop inside, saves nothing: LLVM would refuse, and print that it does.
    """
    if any("!llvm.loop" in line or "@ask(" in line for line in lines if line):
        return ""
    if branching:
        return UNROLL[8]
    return UNROLL[4] if numbers and sum(1 for _ in all_nodes(body)) <= SMALL else ""


def counted(cond: Graph, body: Graph, carried: int) -> tuple[int, Any, int] | None:
    """(the carried integer's number, its bound, its step) of a counted loop; the bound is a value of ``cond`` or an int."""
    if len(cond.nodes) != 1 or cond.nodes[0].op not in _BELOW or cond.nodes[0].kwargs:
        return None
    node = cond.nodes[0]
    number, bound = (node.args[i] for i in _BELOW[node.op])
    place = _place(cond, number)
    if place is None or place >= carried or cond.outputs[0].node is not node:
        return None
    step = _step(body, place)
    if step is None:
        return None
    if isinstance(bound, Value):
        at = _place(cond, bound)
        fixed = at is not None and (at >= carried or body.outputs[at] is body.inputs[at])
        return (place, bound, step) if fixed and _dtype(bound) == _dtype(number) else None
    limit = 1 << (8 * SIZE[_dtype(number) or "i32"] - 1)
    return (place, bound, step) if type(bound) is int and -limit <= bound < limit else None


def _place(graph: Graph, value: Any) -> int | None:
    return next((i for i, v in enumerate(graph.inputs) if v is value), None)


def _dtype(value: Value) -> str | None:
    """i32 or i64 for a number of that kind."""
    if not isinstance(value.type, (ScalarType, TensorType)) or not one_element(value):
        return None
    name = DTYPE_NAMES[value.type.dtype]
    return name if name in ("i32", "i64") else None


def _step(body: Graph, place: int) -> int | None:
    """By how much the body raises a carried integer: a positive constant."""
    value, result = body.inputs[place], body.outputs[place]
    node = result.node
    if node is None or node.op not in SUMS or node.kwargs or _dtype(value) is None:
        return None
    if node.args[0] is not value or type(node.args[1]) is not int or not 0 < node.args[1] < 1 << 16:
        return None
    return node.args[1] if _dtype(result) == _dtype(value) else None


def branchy(body: Graph) -> bool:
    """Whether a body computes a few numbers and chooses among them by branches."""
    found = list(all_nodes(body))
    if len(found) > LARGEST or not any(n.op == "If" for n in found):
        return False
    plain = all(n.op.startswith(("aten.", "py.")) or n.op in _OTHERS for n in found)
    return plain and all(one_element(v) for n in found for v in (*n.inputs, *n.outputs))
