"""Running a kernel's units on torch's threads: LLVM IR around its chunk function.

``i32 @NAME_threads(ptr params, i64 grain)`` gives ranges of at least ``grain`` units to the threads of torch's own pool, by
``torch_parallel_for`` (torch 2.10 and later; honours ``torch.set_num_threads`` and nesting), else by ``GOMP_parallel`` of the
OpenMP library that torch has loaded. Where there is neither, it runs on one thread. The slot after the kernel's own
parameters collects the largest error code.
"""

from __future__ import annotations

from collections.abc import Callable


def route(has: Callable[[str], bool]) -> str:
    """How threads are started in this process."""
    if has("torch_parallel_for"):
        return "torch_parallel_for"
    if has("GOMP_parallel") and has("omp_get_thread_num") and has("omp_get_num_threads"):
        return "GOMP_parallel"
    return "serial"


def imports(how: str) -> tuple[str, ...]:
    """The C functions that a route calls."""
    if how == "GOMP_parallel":
        return ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
    return ("torch_parallel_for",) if how == "torch_parallel_for" else ()


def render(name: str, units: int, slots: int, how: str) -> str:
    """The functions around chunk function ``name`` whose parameter block has ``slots`` slots."""
    body = {"torch_parallel_for": _torch, "GOMP_parallel": _gomp, "serial": _serial}[how](name, units)  # fmt: skip
    return f"""
define internal void @{name}_task(i64 %begin, i64 %end, ptr %params) #0 {{
  %code = call i32 @{name}(ptr %params, i64 %begin, i64 %end)
  %failed = icmp ne i32 %code, 0
  br i1 %failed, label %note, label %done
note:
  %slot = getelementptr i64, ptr %params, i64 {slots}
  %old = atomicrmw umax ptr %slot, i32 %code monotonic
  br label %done
done:
  ret void
}}
define i32 @{name}_threads(ptr %params, i64 %grain) #0 {{
  %slot = getelementptr i64, ptr %params, i64 {slots}
  store i64 0, ptr %slot
{body}
  %code = load i32, ptr %slot
  ret i32 %code
}}
"""


def _torch(name: str, units: int) -> str:
    return (
        f"  %status = call i32 @torch_parallel_for(i64 0, i64 {units}, i64 %grain, ptr @{name}_task, ptr %params)\n"
        "  %broken = icmp ne i32 %status, 0\n"
        "  br i1 %broken, label %alone, label %finish\n"
        "alone:\n"
        f"  call void @{name}_task(i64 0, i64 {units}, ptr %params)\n"
        "  br label %finish\nfinish:"
    )


def _serial(name: str, units: int) -> str:
    return f"  call void @{name}_task(i64 0, i64 {units}, ptr %params)"


def _gomp(name: str, units: int) -> str:
    return f"  call void @GOMP_parallel(ptr @{name}_share, ptr %params, i32 0, i32 0)"


def declarations(name: str, units: int, how: str) -> str:
    """What the functions of ``render`` need besides: declarations, and the share of one OpenMP thread."""
    if how == "torch_parallel_for":
        return "declare i32 @torch_parallel_for(i64, i64, i64, ptr, ptr)\n"
    if how == "serial":
        return ""
    return f"""
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()
define internal void @{name}_share(ptr %params) #0 {{
  %t = call i32 @omp_get_thread_num()
  %n = call i32 @omp_get_num_threads()
  %thread = zext i32 %t to i64
  %threads = zext i32 %n to i64
  %more = add i64 {units - 1}, %threads
  %share = udiv i64 %more, %threads
  %begin = mul i64 %thread, %share
  %far = add i64 %begin, %share
  %over = icmp ugt i64 %far, {units}
  %end = select i1 %over, i64 {units}, i64 %far
  %any = icmp ult i64 %begin, %end
  br i1 %any, label %work, label %done
work:
  call void @{name}_task(i64 %begin, i64 %end, ptr %params)
  br label %done
done:
  ret void
}}
"""
