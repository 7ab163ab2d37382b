"""Which inputs decide whether a plan fails, and whether they are those of a call that did not.

A call whose plan has an error cell waits for the device, to raise what has to be raised. Often a few inputs alone decide it: the class numbers
of a loss, the positions of a look-up, a divisor. Where these are what they were in a call that has not failed, the
tensors the same and unchanged as far as PyTorch counts writes, this one cannot fail either, and does not wait.

PyTorch does not count writes by ``x.data``, by a replayed CUDA graph or by another library. So the cell is still set by such a
call, kept until somebody looks, and on its way to the host behind it: a later call finds it there (``LateFailureError``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ..kernels.triton_text import ERROR
from .forms import Plain
from .plan import Conditional, Copy, Host, Plan, Run, Step
from .steps import Place, bases, reads, writes


def doubts(plan: Plan) -> frozenset[int] | None:
    """The inputs of the graph, by number, that decide whether its plan fails; None where more than inputs does."""
    if plan.error is None or plan.ring is not None or any(isinstance(s, Host) for s, _ in plan.walk()):  # fmt: skip
        return None
    of = bases(plan.steps)
    steps = list(_guarded(plan.steps, ()))
    wanted: set[Place] = set()
    for step, cells in steps:
        if isinstance(step, Run) and ERROR in step.source.signature:
            wanted |= {of.get(p, p) for p in (*_decide(step), *cells)}
    before = -1
    while len(wanted) > before:
        before = len(wanted)
        for step, cells in steps:
            if not wanted.isdisjoint(of.get(p, p) for p in writes(step)):
                wanted |= {of.get(p, p) for p in (*reads(step), *cells)}
    if not wanted.isdisjoint(plan.generator or ()):
        return None
    return _numbers(plan, wanted)


def _guarded(steps: Sequence[Step], cells: tuple[Place, ...]) -> Iterator[tuple[Step, tuple[Place, ...]]]:  # fmt: skip
    """All steps, and copies one by one, each with the conditions under which it runs."""
    for step in steps:
        each = [Copy([pair]) for pair in step.pairs] if isinstance(step, Copy) else [step]
        yield from ((s, cells) for s in each)
        if isinstance(step, Conditional):
            for body in step.bodies:
                yield from _guarded(body, (*cells, step.cell))


def _decide(step: Run) -> list[Place]:
    """What decides whether a kernel fails."""
    return [p for n, p in step.arguments.items() if n != ERROR and (step.decides is None or n in step.decides)]  # fmt: skip


def _numbers(plan: Plan, wanted: set[Place]) -> frozenset[int] | None:
    """The inputs that are among places; None where one has several parts, or is on the CPU, where numpy may share it."""
    found, part = set(), 0
    for i, form in enumerate(plan.form.inputs):
        parts = plan.inputs[part : part + len(form.types)]
        part += len(form.types)
        if not wanted.isdisjoint(parts):
            if not isinstance(form, Plain) or i in plan.form.from_host:
                return None
            found.add(i)
    return frozenset(found)


class Passed:
    """The deciding inputs of a call that has not failed. ``numbers``: which they are; None where inputs do not decide."""

    def __init__(self, numbers: frozenset[int] | None):
        self._numbers = None if numbers is None else sorted(numbers)
        self._seen: list[Any] | None = None
        self._now: list[Any] | None = None

    def known(self, inputs: Sequence[Any]) -> bool:
        """Whether a call with these inputs cannot fail."""
        if self._numbers is None:
            return False
        self._now = [_state(inputs[i]) for i in self._numbers]
        return self._seen is not None and all(map(_same, self._seen, self._now))

    def note(self) -> None:
        """The call that was asked about last has not failed."""
        self._seen = None if self._now is None or None in self._now else self._now

    def forget(self) -> None:
        self._seen = None


def _state(x: Any) -> Any:
    """What tells that a tensor has been written, or is another one; a number itself. None for a tensor whose writes nobody counts."""
    if not isinstance(x, torch.Tensor):
        return type(x), x
    if x.is_inference():
        return None
    return StorageWeakRef(x.untyped_storage()), x.data_ptr(), x.stride(), x._version


def _same(before: Any, now: Any) -> bool:
    if before is None or now is None:
        return False
    if isinstance(before[0], StorageWeakRef):
        return before[1:] == now[1:] and before[0].cdata == now[0].cdata and not before[0].expired()
    return before == now
