"""Copies that a plan can do without: what is computed is written where it would be copied to.

A body ends with copies into the state of its loop, or the outputs of its branch. ``coalesced`` gives a plan in which the step that
computes a value writes it there at once, wherever the old content has been read by then. Each copy that goes is a node less
in every iteration.

A pair ``T <- S`` of a list of steps goes if
* S is memory of the plan that is used in this list only, and one step writes it;
* behind that step nothing in the list reads or writes T, up to the copy;
* behind the copy S is not read where T may have changed, and before that step, in a body that runs again, it is not read at all;
* that step does not read T, or is a kernel that reads each element of T only where it writes it (``Run.inplace``), or a product that is
  added to T.

Chunks of predicated bodies need the copies: there a body changes the state by them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .plan import Call, Copy, Host, Place, Plan, Run, Set, Step, View
from .steps import bases, both, map_places, places_in, walk, with_bodies, writes

# Library functions that may write where their first argument is: torch then copies it nowhere.
ADDED = frozenset(["aten.addmm.default", "aten.addmv.default", "aten.addbmm.default", "aten.baddbmm.default"])  # fmt: skip


def coalesced(plan: Plan) -> Plan:
    """The same plan with fewer copies. The given one stays as it is."""
    work = _Coalescing(plan)
    steps = work.steps(plan.steps)
    buffers = {p: None for p in plan.buffers if p not in work.gone}
    return replace(plan, steps=steps, buffers=buffers)


class _Coalescing:
    def __init__(self, plan: Plan):
        self.fixed = {*plan.inputs, *plan.constants, *plan.outputs, plan.error, *(plan.generator or ())}  # fmt: skip
        self.buffers = plan.buffers
        self.bases = bases(plan.steps)
        self.uses: dict[
            Place, int
        ] = {}  # how many steps of the plan read or write a place, or a view of it
        for step, _ in plan.walk():
            self._count(step)
        self.gone: set[Place] = set()

    def base(self, place: Place) -> Place:
        return self.bases.get(place, place)

    def _count(self, step: Step) -> None:
        for p in {self.base(p) for p in both(step)}:
            self.uses[p] = self.uses.get(p, 0) + 1

    def steps(self, steps: Sequence[Step]) -> list[Step]:
        made = [with_bodies(s, self.steps) for s in steps]
        for j, step in enumerate(made):
            if isinstance(step, Copy):
                for pair in list(step.pairs):
                    made = self._pair(made, j, pair)
        return [s for s in made if not (isinstance(s, Copy) and not s.pairs)]

    def _pair(self, steps: list[Step], j: int, pair: tuple[Place, Place]) -> list[Step]:
        """The steps without a pair of the copy at ``j``, or as they are."""
        target, source = pair
        if not self._local(source, steps) or self.base(target) is not target:
            return steps
        writers = [k for k, s in enumerate(steps) if source in self._touched(s, writes)]
        if len(writers) != 1 or writers[0] >= j or isinstance(steps[writers[0]], Host):
            return steps
        (k,) = writers
        if any(target in self._touched(s, both) for s in steps[k + 1 : j]):
            return steps
        if self._kept(steps, source, target, k, j):
            return steps
        others = [p for p in steps[j].pairs if p != pair]
        if target in {self.base(b) for _, b in others} or not self._may_write(steps[k], source, target):  # fmt: skip
            return steps
        made = [renamed(s, {source: target}) for s in steps]
        made[j] = renamed(Copy(others, steps[j].location), {source: target})
        self.uses[target] += self._here(target, made) - self._here(target, steps)
        del self.uses[source]
        self.gone.add(source)
        return made

    def _kept(self, steps: Sequence[Step], source: Place, target: Place, k: int, j: int) -> bool:
        """Whether what step ``k`` computes is read where the target of the copy at ``j`` may hold something else."""
        read = [i for i, s in enumerate(steps) if i != k and source in self._touched(s, both)]
        behind = steps[j + 1 : max([j, *read]) + 1]
        return min(read) < k or any(target in self._touched(s, writes) for s in behind)

    def _local(self, source: Place, steps: Sequence[Step]) -> bool:
        """Whether the memory of a value belongs to one list of steps."""
        if source not in self.buffers or source in self.fixed or self.base(source) is not source:
            return False
        return self._here(source, steps) == self.uses.get(source, 0)

    def _here(self, place: Place, steps: Sequence[Step]) -> int:
        """How many steps of a list, those inside of them too, read or write a place."""
        return sum(place in {self.base(p) for p in both(s)} for s in walk(steps))

    def _touched(self, step: Step, what: Any) -> set[Place]:
        """The memory that a step, and what is inside of it, reads or writes."""
        return {self.base(p) for s in walk([step]) for p in what(s)}

    def _may_write(self, step: Step, source: Place, target: Place) -> bool:
        if target not in self._touched(step, both):
            return True
        if isinstance(step, Call) and step.op in ADDED:
            return step.args[0] is target and target not in {self.base(p) for p in places_in((step.args[1:], step.kwargs))}  # fmt: skip
        if not isinstance(step, Run):
            return False
        outs = [n for n, p in step.arguments.items() if p is source]
        ins = [n for n, p in step.arguments.items() if self.base(p) is target]
        plain = all(step.arguments[n] is target for n in ins)
        return plain and len(outs) == 1 and set(ins) <= step.inplace.get(outs[0], frozenset())


def renamed(step: Step, names: dict[Place, Place]) -> Step:
    """A step with other memory."""

    def of(tree: Any) -> Any:
        return map_places(lambda place: names.get(place, place), tree)

    if isinstance(step, Run):
        return replace(step, arguments=of(step.arguments))
    if isinstance(step, (Call, Host)):
        return replace(step, args=of(step.args), kwargs=of(step.kwargs), outputs=of(step.outputs))
    if isinstance(step, View):
        return replace(step, args=of(step.args))
    if isinstance(step, Copy):
        return replace(step, pairs=of(step.pairs))
    if isinstance(step, Set):
        return replace(step, cell=of(step.cell))
    bodies = [[renamed(s, names) for s in body] for body in step.bodies]
    return replace(step, cell=of(step.cell), bodies=bodies)
