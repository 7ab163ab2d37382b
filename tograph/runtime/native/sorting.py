"""Sorts of numbers in a row: runs of a few are sorted by insertion, then merged by twos, from one piece of memory to another.

Sorting is stable, as ``torch.sort(stable=True)`` is; other sorts leave the order of equal numbers open. NaN is more than all numbers.
Torch is asked for other dtypes, and ``LONG`` numbers or more, of which its loads and stores are the better ones; so it is for the rows of a matrix
for ``MANY`` numbers in all, or ``FEW`` in rows of more than ``RUN``, and where they are no rows. Where only the run knows how many there are, the code has both ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..graph.ir import Node, Value
from ..kernels.loop_ir import bound
from . import calls, walks
from .callees import Call
from .code import REGISTER, SIZE
from .groups import one_element
from .lanes import choice
from .values import Decline, Mem, in_a_row, numel, strides

if TYPE_CHECKING:
    from .lower import Lowering

OPS = {"aten.sort.default", "aten.sort.stable"}
LONG = 1 << 10  # numbers that are left to torch
USUAL = 1 << 6  # numbers where work is estimated, of a number that only the run knows
FEW, MANY = 1 << 9, 1 << 15  # numbers in all rows of a matrix
RUN = 16  # numbers that are sorted by insertion
_DTYPES = ("f32", "f64", "i32", "i64")


def lower(low: Lowering, node: Node) -> None:
    """Write the sort, or a call of torch where it has another form."""
    ordered = low.operand(node.args[0]).ordered
    try:
        x, descending = _operands(low, node)
    except Decline:
        calls.lower(low, node)
        return
    low.native_ops += 1
    places = [low.new(dtype, size) for dtype in (x.dtype, "i64") for size in (x.size, x.size[-1:])]
    for place in (x, *places):
        low.arena.hold(place.owners)
    made = dict(zip(node.outputs, places[::2], strict=True))
    if _short(x):
        _write(low, x, descending, places)
    else:
        count = low.sizes.text(x.size[0])
        choice(low.code, f"icmp slt i64 {count}, {LONG}",
                lambda: _write(low, x, descending, places), lambda: _ask(low, node, x, made))  # fmt: skip
    for v, place in made.items():
        low.dests.pop(v, None)
        if v in low.used:
            # Eager PyTorch's results have the order of dims of what is sorted.
            low.bind(v, replace(place, dense=ordered or in_a_row(place.size)))
    for place in (x, *places):
        low.arena.release(place.owners)


def _write(low: Lowering, x: Mem, descending: bool, places: list[Mem]) -> None:
    """Sort ``x`` to ``places``: values and memory for as many, indices and memory for as many."""
    n, rows = x.size[-1], numel(x.size[:-1])
    name = low.function("sort", _function(x.dtype, descending))
    low.code.declare("llvm.smin.i64", "i64 {}(i64, i64)")
    low.code.declare("llvm.memcpy.p0.p0.i64", "void {}(ptr, ptr, i64, i1)")
    with walks.counted(low.code, str(rows)) if rows > 1 else nullcontext("0") as row:
        at = low.code.multiply(row, n) if rows > 1 else "0"
        given = ", ".join(f"ptr {_from(low, p, at)}" for p in (x, *places))
        low.code.line(f"call void @{name}({given}, i64 {low.sizes.text(n)})")
    low.work += 10 * rows * (n if isinstance(n, int) else min(bound(n), USUAL))


def _from(low: Lowering, x: Mem, at: str) -> str:
    """Where the row of a matrix that begins at an element is; the memory for one row is for each."""
    if at == "0" or len(x.size) == 1:
        return x.pointer
    return low.code.do(f"getelementptr {REGISTER[x.dtype]}, ptr {x.pointer}, i64 {at}")


def _ask(low: Lowering, node: Node, x: Mem, made: dict[Value, Mem]) -> None:
    """Have torch sort ``x`` to where the native code would."""
    used = [v for v in made if v in low.used]
    targets = [made[v] for v in used]
    call = Call(node, [node.args[0]], [x], targets, [True] * len(used), [v.index for v in used])
    low.native_ops += call.native_ops  # for it, too, there is native code
    work = low.work
    calls.ask(low, call, calls.block(low, call, [x, *targets]))
    low.work = work


def _operands(low: Lowering, node: Node) -> tuple[Mem, bool]:
    """What is sorted, in memory without gaps, and whether the largest comes first."""
    first, *rest = node.args
    names = ("dim", "descending") if node.op == "aten.sort.default" else ("stable", "dim", "descending")  # fmt: skip
    given = {**dict(zip(names, rest)), **node.kwargs}
    shape = first.type.shape
    if one_element(first) or not shape or (len(shape) > 1 and not _short_rows(shape)):
        raise Decline("no row of numbers, or no short rows")
    if given.get("dim", -1) not in (-1, len(shape) - 1) or not isinstance(
        given.get("descending", False), bool
    ):
        raise Decline("a direction that only the run knows")
    x = low.operand(first)
    if not isinstance(x, Mem) or x.dtype not in _DTYPES:
        raise Decline(f"numbers of {x.dtype}")
    if isinstance(x.size[-1], int) and not _short(x):
        raise Decline("a long row")
    return (x if x.stride == strides(x.size) else low.contiguous(x)), given.get("descending", False)


def _short(x: Mem) -> bool:
    """Whether there are never so many numbers that torch sorts them."""
    return bound(x.size[-1]) < LONG


def _short_rows(shape: Sequence[Any]) -> bool:
    """Whether a tensor has rows of so few numbers each that torch need not sort them."""
    return None not in shape and 0 < numel(shape) < (MANY if shape[-1] <= RUN else FEW)


def _before(dtype: str, descending: bool, name: str, a: str, b: str) -> str:
    """Instructions for ``name``: whether ``a`` has to stand ahead of ``b``, which stood ahead of it."""
    kind = REGISTER[dtype]
    less, more = (b, a) if descending else (a, b)
    if dtype[0] == "i":
        return f"  %{name} = icmp slt {kind} {less}, {more}"
    return f"""  %{name}.less = fcmp olt {kind} {less}, {more}
  %{name}.nan = fcmp uno {kind} {more}, {more}
  %{name}.real = fcmp ord {kind} {less}, {less}
  %{name}.only = and i1 %{name}.nan, %{name}.real
  %{name} = or i1 %{name}.less, %{name}.only"""


def _function(dtype: str, descending: bool) -> str:
    """``X`` sorted to ``V`` and the places of its numbers to ``I``; ``W`` and ``J`` are as large."""
    kind = REGISTER[dtype]
    body = _INSERTION + _MERGES
    for name, text in {
        "KIND": kind,
        "RUN": str(RUN),
        "SIZE": str(SIZE[dtype]),
        "X_BEFORE_Y": _before(dtype, descending, "less", "%x", "%y"),
        "RIGHT_BEFORE_LEFT": _before(dtype, descending, "other", "%right", "%left"),
    }.items():
        body = body.replace(f"<{name}>", text)
    return f"(ptr noalias %X, ptr noalias %V, ptr noalias %W, ptr noalias %I, ptr noalias %J, i64 %n) noinline #0 {{\n{body}}}\n"


_INSERTION = """entry:
  br label %runs
runs:
  %begin = phi i64 [0, %entry], [%end, %placed]
  %some = icmp slt i64 %begin, %n
  br i1 %some, label %run, label %merges
run:
  %next = add i64 %begin, <RUN>
  %end = call i64 @llvm.smin.i64(i64 %next, i64 %n)
  br label %item
item:
  %i = phi i64 [%begin, %run], [%i.next, %placed]
  %x.at = getelementptr <KIND>, ptr %X, i64 %i
  %x = load <KIND>, ptr %x.at, align <SIZE>
  br label %search
search:
  %j = phi i64 [%i, %item], [%j.before, %shift]
  %v.at = getelementptr <KIND>, ptr %V, i64 %j
  %i.at = getelementptr i64, ptr %I, i64 %j
  %inside = icmp sgt i64 %j, %begin
  br i1 %inside, label %compare, label %placed
compare:
  %j.before = add i64 %j, -1
  %y.at = getelementptr <KIND>, ptr %V, i64 %j.before
  %y = load <KIND>, ptr %y.at, align <SIZE>
<X_BEFORE_Y>
  br i1 %less, label %shift, label %placed
shift:
  store <KIND> %y, ptr %v.at, align <SIZE>
  %p.at = getelementptr i64, ptr %I, i64 %j.before
  %p = load i64, ptr %p.at, align 8
  store i64 %p, ptr %i.at, align 8
  br label %search
placed:
  store <KIND> %x, ptr %v.at, align <SIZE>
  store i64 %i, ptr %i.at, align 8
  %i.next = add i64 %i, 1
  %again = icmp slt i64 %i.next, %end
  br i1 %again, label %item, label %runs
"""
_MERGES = """merges:
  %w = phi i64 [<RUN>, %runs], [%w.next, %pair.end]
  %V0 = phi ptr [%V, %runs], [%V1, %pair.end]
  %V1 = phi ptr [%W, %runs], [%V0, %pair.end]
  %I0 = phi ptr [%I, %runs], [%I1, %pair.end]
  %I1 = phi ptr [%J, %runs], [%I0, %pair.end]
  %w.next = shl i64 %w, 1
  %parted = icmp slt i64 %w, %n
  br i1 %parted, label %pair, label %finish
pair:
  %low = phi i64 [0, %merges], [%high, %pair.end]
  %middle.far = add i64 %low, %w
  %middle = call i64 @llvm.smin.i64(i64 %middle.far, i64 %n)
  %high.far = add i64 %low, %w.next
  %high = call i64 @llvm.smin.i64(i64 %high.far, i64 %n)
  br label %take
take:
  %k = phi i64 [%low, %pair], [%k.next, %took]
  %l = phi i64 [%low, %pair], [%l.next, %took]
  %r = phi i64 [%middle, %pair], [%r.next, %took]
  %some.left = icmp slt i64 %l, %middle
  br i1 %some.left, label %left.there, label %took
left.there:
  %some.right = icmp slt i64 %r, %high
  br i1 %some.right, label %both, label %took
both:
  %left.at = getelementptr <KIND>, ptr %V0, i64 %l
  %left = load <KIND>, ptr %left.at, align <SIZE>
  %right.at = getelementptr <KIND>, ptr %V0, i64 %r
  %right = load <KIND>, ptr %right.at, align <SIZE>
<RIGHT_BEFORE_LEFT>
  br label %took
took:
  %of.right = phi i1 [true, %take], [false, %left.there], [%other, %both]
  %from = select i1 %of.right, i64 %r, i64 %l
  %one.right = zext i1 %of.right to i64
  %one.left = sub i64 1, %one.right
  %source = getelementptr <KIND>, ptr %V0, i64 %from
  %number = load <KIND>, ptr %source, align <SIZE>
  %target = getelementptr <KIND>, ptr %V1, i64 %k
  store <KIND> %number, ptr %target, align <SIZE>
  %i.source = getelementptr i64, ptr %I0, i64 %from
  %place = load i64, ptr %i.source, align 8
  %i.target = getelementptr i64, ptr %I1, i64 %k
  store i64 %place, ptr %i.target, align 8
  %l.next = add i64 %l, %one.left
  %r.next = add i64 %r, %one.right
  %k.next = add i64 %k, 1
  %rest = icmp slt i64 %k.next, %high
  br i1 %rest, label %take, label %pair.end
pair.end:
  %more = icmp slt i64 %high, %n
  br i1 %more, label %pair, label %merges
finish:
  %there = icmp eq ptr %V0, %V
  br i1 %there, label %done, label %back
back:
  %v.bytes = mul i64 %n, <SIZE>
  call void @llvm.memcpy.p0.p0.i64(ptr %V, ptr %W, i64 %v.bytes, i1 false)
  %i.bytes = mul i64 %n, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %I, ptr %J, i64 %i.bytes, i1 false)
  br label %done
done:
  ret void
"""
