"""Which inputs decide whether a plan fails, and whether they are those of a call that did not.

A call whose plan has an error cell waits for the device, to raise what has to be raised. Often a few inputs alone decide it: the class numbers
of a loss, the positions of a look-up, a divisor, the lengths of lists. Where these are what they were in a call that has not failed, the
tensors the same and unchanged as far as PyTorch counts writes, this one cannot fail either, and does not wait. Of numbers alone every
combination counts that has been there: the gradient of a loop waits once for each number of its trips.

PyTorch does not count writes by ``x.data``, by a replayed CUDA graph or by another library. So the cell is still set by such a
call, kept until somebody looks, and on its way to the host behind it: a later call finds it there (``LateFailureError``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ..graph.types import ScalarType
from ..kernels.triton_text import ERROR
from .forms import Plain
from .plan import Conditional, Copy, Host, Plan, Run, Step
from .steps import Place, bases, reads, writes

MOST = 1024  # combinations of numbers that are kept


def doubts(plan: Plan) -> frozenset[int] | None:
    """The inputs of a plan, by number, that decide whether it fails; None where more than inputs does."""
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
    """The inputs among places; None where one is memory that only stands for what the call is given, or is on the CPU, where numpy may share it."""
    found, k = set(), 0
    for i, form in enumerate(plan.form.inputs):
        for kind in form.types:
            if plan.inputs[k] in wanted:
                whole = isinstance(form, Plain) and i not in plan.form.from_host
                if not whole and not isinstance(kind, ScalarType):
                    return None
                found.add(k)
            k += 1
    return frozenset(found)


class Passed:
    """The deciding inputs of calls that have not failed. ``numbers``: which they are; None where inputs do not decide."""

    def __init__(self, numbers: frozenset[int] | None):
        self._numbers = None if numbers is None else sorted(numbers)
        self._seen: dict[tuple, list[Any]] = {}  # tensors by the numbers beside them
        self._now: tuple[tuple, list[Any]] = (), []

    def known(self, parts: Sequence[Any]) -> bool:
        """Whether a call with these inputs of the plan cannot fail."""
        if self._numbers is None:
            return False
        given = [parts[k] for k in self._numbers]
        numbers = tuple((type(x), x) for x in given if not isinstance(x, torch.Tensor))
        self._now = numbers, [_state(x) for x in given if isinstance(x, torch.Tensor)]
        seen = self._seen.get(numbers)
        return seen is not None and all(map(_same, seen, self._now[1]))

    def note(self) -> None:
        """The call that was asked about last has not failed."""
        numbers, tensors = self._now
        if None in tensors:
            self._seen.pop(numbers, None)
            return
        if len(self._seen) >= MOST:
            self._seen.clear()
        self._seen[numbers] = tensors

    def forget(self) -> None:
        self._seen.clear()


def _state(x: torch.Tensor) -> Any:
    """What tells that a tensor has been written, or is another one. None for a tensor whose writes nobody counts."""
    if x.is_inference():
        return None
    return StorageWeakRef(x.untyped_storage()), x.data_ptr(), x.stride(), x._version


def _same(before: Any, now: Any) -> bool:
    if before is None or now is None:
        return False
    return before[1:] == now[1:] and before[0].cdata == now[0].cdata and not before[0].expired()
