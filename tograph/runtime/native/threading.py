"""Work on torch's threads, where that helps right now.

Each place that can use threads knows how long it takes on one thread, and keeps an account: what a call on all threads saved
goes in, what it lost goes out. While there is credit it takes all threads, so that one call that waited for a processor does
not count for more than many that were faster. Without credit (another process has the cores, so that the threads wait for
each other) it stays on one thread for some calls, for more each time. So a busy machine costs a loop of small steps
little instead of everything, and a quiet one is used.

The other threads sleep when there has been nothing for them: the first call that goes back to them wakes them, which takes a
processor that is idle as long as many small steps, and is not counted.

The state of a place, in ticks of the processor's counter where it is a time: how many calls to stay on one thread (-1: the next one wakes the others), the time on
one thread of ``PARTS`` units (only the run may know how many there are), how many calls to stay there after the next failure, and the credit. A task is ``void (i64 begin, i64 end, ptr block)``.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..kernels import jit

if TYPE_CHECKING:
    from .lower import Lowering

PRODUCT = 1 << 20  # multiply-adds from which on matrix products use threads
SHORTEST, LONGEST = 16, 1 << 14  # calls on one thread after a failure
START, MOST = 4, 64  # the credit of a new attempt and the largest, in times on one thread
PARTS = 1 << 8  # units that a time is of
WORST = 32  # what one call on all threads is taken to cost at most, in times on one thread

# The counter that a program may read: the cycle counter of ARM processors is the system's.
COUNTER, _PATIENCE = ("readsteadycounter", 26) if platform.machine() in ("aarch64", "arm64") else ("readcyclecounter", 30)  # fmt: skip


def _text(name: str, alone: str, together: str) -> str:
    """A function that runs a task on one thread, as ``alone`` says, or on all, as ``together`` does; %status is not 0 where that failed."""
    return f"""define internal void @{name}(ptr %task, ptr %block, i64 %units, i64 %grain, ptr %state) noinline #0 {{
entry:
  %enough = icmp sgt i64 %units, %grain
  br i1 %enough, label %choose, label %few
few:
  call void %task(i64 0, i64 %units, ptr %block)
  ret void
choose:
  %time_place = getelementptr i64, ptr %state, i64 1
  %wait_place = getelementptr i64, ptr %state, i64 2
  %credit_place = getelementptr i64, ptr %state, i64 3
  %left = load i64, ptr %state
  %alone = icmp sgt i64 %left, 0
  %each = load i64, ptr %time_place
  %whole = mul i64 %each, %units
  %time = udiv i64 %whole, {PARTS}
  %before = call i64 @llvm.{COUNTER}()
  br i1 %alone, label %one, label %all
one:
  {alone}
  %after1 = call i64 @llvm.{COUNTER}()
  %time1 = sub i64 %after1, %before
  %first = icmp eq i64 %each, 0
  %eighth = lshr i64 %time, 3
  %slack = add i64 %time, %eighth
  %less = call i64 @llvm.umin.i64(i64 %time1, i64 %slack)
  %new = select i1 %first, i64 %time1, i64 %less
  %parts = mul i64 %new, {PARTS}
  %of_parts = udiv i64 %parts, %units
  store i64 %of_parts, ptr %time_place
  %fewer = sub i64 %left, 1
  %last = icmp eq i64 %fewer, 0
  %next = select i1 %last, i64 -1, i64 %fewer
  store i64 %next, ptr %state
  %begin = mul i64 %new, {START}
  store i64 %begin, ptr %credit_place
  ret void
all:
  {together}
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %again, label %judge
again:
  call void %task(i64 0, i64 %units, ptr %block)
  br label %slower
judge:
  %woken = icmp slt i64 %left, 0
  br i1 %woken, label %awake, label %weigh
awake:
  store i64 0, ptr %state
  ret void
weigh:
  %after2 = call i64 @llvm.{COUNTER}()
  %time2 = sub i64 %after2, %before
  %worst = mul i64 %time, {WORST}
  %cost = call i64 @llvm.umin.i64(i64 %time2, i64 %worst)
  %saved = sub i64 %time, %cost
  %credit = load i64, ptr %credit_place
  %sum = add i64 %credit, %saved
  %limit = mul i64 %time, {MOST}
  %kept = call i64 @llvm.smin.i64(i64 %sum, i64 %limit)
  store i64 %kept, ptr %credit_place
  %worse = icmp slt i64 %kept, 0
  br i1 %worse, label %slower, label %faster
slower:
  %wait = load i64, ptr %wait_place
  store i64 %wait, ptr %state
  %twice = shl i64 %wait, 1
  %ticks = or i64 %time, 1
  %calls = udiv i64 {1 << _PATIENCE}, %ticks
  %bounded = call i64 @llvm.umin.i64(i64 %calls, i64 {LONGEST})
  %longest = call i64 @llvm.umax.i64(i64 %bounded, i64 {SHORTEST})
  %longer = call i64 @llvm.umin.i64(i64 %twice, i64 %longest)
  store i64 %longer, ptr %wait_place
  ret void
faster:
  %full = icmp eq i64 %kept, %limit
  br i1 %full, label %well, label %done
well:
  store i64 {SHORTEST}, ptr %wait_place
  br label %done
done:
  ret void
}}
"""


_TASK = "call void %task(i64 0, i64 %units, ptr %block)"
_SPREAD = _text("spread", _TASK, "%status = call i32 @torch_parallel_for(i64 0, i64 %units, i64 %grain, ptr %task, ptr %block)")  # fmt: skip
# A library that has threads of its own is kept from them.
_KEEP = "MKL_Set_Num_Threads_Local"
_ALONE = f"%own = call i32 @{_KEEP}(i32 1)\n  {_TASK}\n  call i32 @{_KEEP}(i32 %own)"
_WHOLE = _text("whole", _ALONE, f"{_TASK}\n  %status = add i32 0, 0")


def available() -> bool:
    """Whether there are threads to use."""
    return jit.symbol("torch_parallel_for") is not None


def packed(low: Lowering, function: str, pointers: Sequence[str], bounds: str = "") -> tuple[str, str]:  # fmt: skip
    """(task, block): a task that calls ``function`` with ``pointers``, which the block holds, and with ``bounds``: its first unit and the last."""
    loads = "".join(
        f"  %q{i} = getelementptr ptr, ptr %block, i64 {i}\n  %p{i} = load ptr, ptr %q{i}\n"
        for i in range(len(pointers))
    )
    given = ", ".join(f"ptr %p{i}" for i in range(len(pointers)))
    task = low.function(
        f"{function}_chunk",
        f"(i64 %begin, i64 %end, ptr %block) #0 {{\n{loads}"
        f"  call void @{function}({given}{bounds})\n  ret void\n}}\n",
    )
    return task, block(low, pointers)


def block(low: Lowering, pointers: Sequence[str]) -> str:
    """The address of memory that holds ``pointers``."""
    code = low.code
    made = code.cell(f"[{len(pointers)} x ptr]")
    for i, p in enumerate(pointers):
        code.line(f"store ptr {p}, ptr {code.do(f'getelementptr ptr, ptr {made}, i64 {i}')}")
    return made


def call(low: Lowering, name: str, task: str, block: str, units: int | str, grain: int) -> None:
    """Run the units of ``task``, as many as a register says where ``units`` is one; ``name`` names the place."""
    low.code.declares["torch_parallel_for"] = "declare i32 @torch_parallel_for(i64, i64, i64, ptr, ptr)"  # fmt: skip
    _call(low, "spread", _SPREAD, name, f"ptr @{task}, ptr {block}, i64 {units}, i64 {grain}")


def whole(low: Lowering, name: str, task: str, block: str, units: str) -> None:
    """Run a ``task`` that is a library's, with or without the library's threads; with them where they cannot be kept from it. ``units``: how much it does."""
    if jit.symbol(_KEEP) is None:
        low.code.line(f"call void @{task}(i64 0, i64 {units}, ptr {block})")
        return
    low.code.declares[_KEEP] = f"declare i32 @{_KEEP}(i32)"
    _call(low, "whole", _WHOLE, name, f"ptr @{task}, ptr {block}, i64 {units}, i64 0")


def _call(low: Lowering, function: str, text: str, name: str, arguments: str) -> None:
    code = low.code
    code.declares[COUNTER] = f"declare i64 @llvm.{COUNTER}()"
    for bound in ("umin", "umax", "smin"):
        code.declares[f"llvm.{bound}.i64"] = f"declare i64 @llvm.{bound}.i64(i64, i64)"
    low.globals[function] = text
    low.globals[f"state {name}"] = f"@state_{name} = internal global [4 x i64] [i64 2, i64 0, i64 {SHORTEST}, i64 0]\n"  # fmt: skip
    code.line(f"call void @{function}({arguments}, ptr @state_{name})")
