"""Work on torch's threads, where that helps right now.

Each place that can use threads remembers how long it took on one thread. It takes all threads as long as these are faster;
when they were slower once (another process has the cores, so that the threads wait for each other), it stays on one
thread for a while, longer each time. So a busy machine costs a loop of small steps little instead of everything.

The state of a place is three numbers: how many calls to stay on one thread, the last time on one thread, and how many
calls to stay there after the next failure. A task is ``void (i64 begin, i64 end, ptr block)``.
"""

from __future__ import annotations

from ..kernels import jit

SHORTEST, LONGEST = 16, 1 << 14

_TEXT = f"""define internal void @spread(ptr %task, ptr %block, i64 %units, i64 %grain, ptr %state) #0 {{
entry:
  %last = getelementptr i64, ptr %state, i64 1
  %next = getelementptr i64, ptr %state, i64 2
  %left = load i64, ptr %state
  %alone = icmp sgt i64 %left, 0
  %before = call i64 @llvm.readcyclecounter()
  br i1 %alone, label %one, label %all
one:
  call void %task(i64 0, i64 %units, ptr %block)
  %after1 = call i64 @llvm.readcyclecounter()
  %time1 = sub i64 %after1, %before
  store i64 %time1, ptr %last
  %fewer = sub i64 %left, 1
  store i64 %fewer, ptr %state
  ret void
all:
  %status = call i32 @torch_parallel_for(i64 0, i64 %units, i64 %grain, ptr %task, ptr %block)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %again, label %judge
again:
  call void %task(i64 0, i64 %units, ptr %block)
  br label %slower
judge:
  %after2 = call i64 @llvm.readcyclecounter()
  %time2 = sub i64 %after2, %before
  %alone_time = load i64, ptr %last
  %worse = icmp ugt i64 %time2, %alone_time
  br i1 %worse, label %slower, label %faster
slower:
  %wait = load i64, ptr %next
  store i64 %wait, ptr %state
  %twice = shl i64 %wait, 1
  %most = icmp ugt i64 %twice, {LONGEST}
  %longer = select i1 %most, i64 {LONGEST}, i64 %twice
  store i64 %longer, ptr %next
  ret void
faster:
  %old = load i64, ptr %next
  %half = lshr i64 %old, 1
  %least = icmp ult i64 %half, {SHORTEST}
  %shorter = select i1 %least, i64 {SHORTEST}, i64 %half
  store i64 %shorter, ptr %next
  ret void
}}
"""


def available() -> bool:
    """Whether there are threads to use."""
    return jit.symbol("torch_parallel_for") is not None


def call(low, name: str, task: str, block: str, units: int, grain: int) -> None:
    """Run the units of ``task``; ``name`` names the place."""
    code = low.code
    code.declares["torch_parallel_for"] = "declare i32 @torch_parallel_for(i64, i64, i64, ptr, ptr)"
    code.declares["llvm.readcyclecounter"] = "declare i64 @llvm.readcyclecounter()"
    low.globals["spread"] = _TEXT
    low.globals[f"state {name}"] = f"@state_{name} = internal global [3 x i64] [i64 1, i64 0, i64 {SHORTEST}]\n"  # fmt: skip
    code.line(f"call void @spread(ptr @{task}, ptr {block}, i64 {units}, i64 {grain}, ptr @state_{name})")  # fmt: skip
