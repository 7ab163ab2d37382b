"""Kernels of a plan that give the same in every call, run once: when the memory of the plan is made.

What such a kernel reads is constant (mostly it reads nothing: zeros, ones and their like beside each other), and nothing else writes where it
writes. ``hoisted`` puts them into ``Plan.once``. An output stays, since a call may give away its memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ..kernels.triton_loops import ACTIVE
from .plan import Place, Plan, Run, Step
from .steps import bases, reads, with_bodies, writes


def hoisted(plan: Plan) -> Plan:
    """The plan with such kernels in ``once``; the given one stays as it is."""
    work = _Once(plan)
    steps = work.steps(plan.steps)
    return replace(plan, steps=steps, once=[*plan.once, *work.found])


class _Once:
    def __init__(self, plan: Plan):
        self.bases = bases(plan.steps)
        self.written = Counter(self._base(p) for s, _ in plan.walk() for p in writes(s))
        special = (plan.error, *(plan.generator or ()), *plan.outputs, *plan.inputs)
        self.kept = {self._base(p) for p in special if p is not None}
        self.constant = {p for p in plan.constants if p not in self.kept and not self.written[p]}
        if plan.ring is not None:
            self.constant -= {plan.ring.position, *plan.ring.shared}
        self.found: list[Run] = []

    def _base(self, place: Place) -> Place:
        return self.bases.get(place, place)

    def steps(self, steps: Sequence[Step]) -> list[Step]:
        made: list[Step] = []
        for step in steps:
            if isinstance(step, Run) and self._same(step):
                self.found.append(step)
                self.constant |= {*writes(step)}
            else:
                made.append(with_bodies(step, self.steps))
        return made

    def _same(self, step: Run) -> bool:
        """Whether a kernel gives the same in every call."""
        if type(step) is not Run or ACTIVE in step.source.signature:
            return False
        there = [*writes(step)]
        alone = all(self._base(p) is p and self.written[p] == 1 and p not in self.kept for p in there)  # fmt: skip
        return alone and {self._base(p) for p in reads(step)} <= self.constant
