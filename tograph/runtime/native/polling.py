"""How a loop of native code lets other threads run and Python handle its signals, every few milliseconds.

``poll`` counts iterations. A counted loop needs no second counter: ``Strip`` is a loop around it that moves its bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .carries import Carry
from .code import REGISTER
from .nests import USUAL

if TYPE_CHECKING:
    from .lower import Lowering

POLL_NANOSECONDS = 5e6  # about how long a loop runs before it looks for signals


def poll(low: Lowering, counter: str, start: int, cost: float, sizes: Sequence[str]) -> None:
    """Every few milliseconds: let other threads run, and Python handle its signals.

    ``sizes``: those of the tensors that change their size in the loop; ``cost`` takes them as ``nests.USUAL``.
    """
    code = low.code
    often = max(1, int(POLL_NANOSECONDS / cost))
    code.fill(start, f"store i64 {often}, ptr {counter}")
    spent = "1"
    for n in sizes:
        spent = code.add(spent, code.do(f"udiv i64 {n}, {USUAL}"))
    left = code.do(f"sub i64 {code.do(f'load i64, ptr {counter}')}, {spent}")
    code.line(f"store i64 {left}, ptr {counter}")
    now, on = code.fresh("poll"), code.fresh("on")
    code.branch(code.do(f"icmp sle i64 {left}, 0"), now, on)
    code.label(now)
    code.line(f"store i64 {often}, ptr {counter}")
    look(low)
    code.jump(on)


def look(low: Lowering) -> None:
    """Let other threads run, and Python handle its signals; return where one of these raised."""
    code = low.code
    stopped = code.do("call i32 @poll()")
    low.globals["poll"] = _POLL
    stop, on = code.fresh("stop"), code.fresh("on")
    code.branch(code.do(f"icmp eq i32 {stopped}, 0"), on, stop)
    code.label(stop)
    code.line("ret i32 2")
    code.label(on)


class Strip:
    """A loop around a counted loop, which runs to ``limit`` at most; then it is done, or looks for signals and goes on.

    ``leave`` is where the counted loop goes at the limit.
    """

    def __init__(
        self, low: Lowering, carries: Sequence[Carry], number: Carry, bound: str, step: int
    ):
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
        now = code.fresh("look")
        code.label(self.leave)
        code.branch(self.below(self.bound), now, done)
        code.label(now)
        look(self.low)
        code.line(f"br label %{self.head}")
        return code.block


_POLL = """define internal i32 @poll() noinline optnone cold {
  %state = call ptr @PyEval_SaveThread()
  call void @PyEval_RestoreThread(ptr %state)
  %stopped = call i32 @PyErr_CheckSignals()
  ret i32 %stopped
}
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @PyErr_CheckSignals()
"""
