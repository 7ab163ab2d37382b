"""Handles of conditional nodes set by the kernels that compute their conditions, instead of by kernels of their own.

``fused`` gives a plan in which a kernel of one program that writes a condition is a ``Setting``, which calls what the setter calls
(``fused_code``): a node less in every iteration of a loop, and one or two less before a branch. The setter stays wherever

* the cell is written last by something else: a library function, a kernel of several programs, a step of the host, a body;
* a step behind that kernel may fail: the setter, which comes last, sees that, and ends the loop at once;
* the kernel reads an input that is elsewhere in each call (``refresh``), or has no such code for the device.

A cell that is a copy is set where its source is computed. A copy into the cell of a loop that nobody reads any more goes too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields, replace

import torch

from ..graph.types import TensorType
from ..kernels import setter
from ..kernels.triton_text import ERROR
from .plan import Cell, Conditional, Copy, Host, Place, Plan, Run, Set, Setting, Step, Telling
from .steps import bases, reads, walk, with_bodies, writes

KINDS = {setter.SET: "*i1", setter.INVERTED: "*i1", setter.SET_INDEX: "*i64"}


def fused(
    plan: Plan, works: Callable[[Setting], bool] = lambda step: True, kept: Collection[Place] = ()
) -> Plan:
    """The plan with fewer setters; the given one stays as it is.

    ``works``: whether there is code for a kernel that sets handles. ``kept``: places whose readers stay as they are.
    """
    made = replace(plan, steps=_Fusing(plan, works, frozenset(kept)).steps(plan.steps))
    for loop in loops(made):
        read = [p for s, _ in made.walk() if s is not loop for p in reads(s)]
        if loop.cell not in {*read, *plan.inputs, *plan.constants, *plan.outputs}:
            loop.bodies[0] = list(_without(loop.bodies[0], loop.cell))
    return made


def guarded(plan: Plan) -> Plan:
    """A fused plan to try: each body first has the setter set the handle to 0.

    So a kernel that sets nothing gives a wrong answer, and no loop that never ends.
    """
    never = Cell("never", TensorType(torch.bool, (), plan.device), False)
    made = replace(plan, constants={**plan.constants, never: False})
    for loop in loops(made):
        loop.bodies[0].insert(0, Set(loop.handle, never, loop.location))
    return made


def loops(plan: Plan) -> Iterator[Conditional]:
    """The loops whose kernels set their handles."""
    told = {t.handle for s, _ in plan.walk() if isinstance(s, Setting) for t in s.told}
    for step, _ in plan.walk():
        if not isinstance(step, Conditional) or step.kind != "while" or step.handle not in told:
            continue
        if not any(isinstance(s, Set) and s.handle == step.handle for s in step.bodies[0]):
            yield step


class _Fusing:
    def __init__(self, plan: Plan, works: Callable[[Setting], bool], kept: frozenset[Place]):
        self.error, self.works, self.kept = plan.error, works, kept
        self.bases = bases(plan.steps)
        self.nodes = {s.handle for s, _ in plan.walk() if isinstance(s, Conditional) and not s.yields}  # fmt: skip

    def steps(self, steps: Sequence[Step]) -> list[Step]:
        made = [with_bodies(s, self.steps) for s in steps]
        gone = set()
        for j, step in enumerate(made):
            if isinstance(step, Conditional) and not step.yields:
                if self._told(made, j, ways(step)):
                    made[j] = replace(step, told=True)
            elif isinstance(step, Set) and step.handle in self.nodes and self._told(made, j, [setter.SET]):  # fmt: skip
                gone.add(j)
        return [s for j, s in enumerate(made) if j not in gone]

    def _told(self, steps: list[Step], j: int, how: Sequence[str]) -> bool:
        """Have a kernel set the handle that step ``j`` sets; False where none can."""
        target = steps[j]
        assert isinstance(target, (Conditional, Set))
        found = self._writer(steps, j, target.cell, KINDS[how[0]])
        if found is None:
            return False
        k, parameter = found
        step = steps[k]
        assert isinstance(step, Run)
        last = len(target.bodies) - 1 if isinstance(target, Conditional) else 0
        told = tuple(Telling(target.handle, h, parameter, last) for h in how)
        if isinstance(step, Setting):
            made = replace(step, told=step.told + told)
        else:
            given = {f.name: getattr(step, f.name) for f in fields(Run)}
            error = {} if self.error is None else {ERROR: self.error}
            made = Setting(**given | {"arguments": step.arguments | error}, told=told)
        if not self.works(made):
            return False
        steps[k] = made
        return True

    def _writer(self, steps: Sequence[Step], j: int, at: Place, kind: str) -> tuple[int, str] | None:  # fmt: skip
        """(the number of the kernel that computes a cell before step ``j``, its parameter); None where the setter is needed."""
        for k in range(j - 1, -1, -1):
            step = steps[k]
            inside = list(walk([step]))
            if self._base(at) is not at or any(isinstance(s, Host) for s in inside):
                return None
            if at in {self._base(p) for s in inside for p in writes(s)}:
                if not isinstance(step, Copy):
                    parameter = self._parameter(step, at, kind)
                    return (k, parameter) if parameter else None
                (at,) = {b for a, b in step.pairs if self._base(a) is at}
            if self.error is not None and any(isinstance(s, Run) and ERROR in s.source.signature for s in inside):  # fmt: skip
                return None
        return None

    def _base(self, place: Place) -> Place:
        return self.bases.get(place, place)

    def _parameter(self, step: Step, at: Place, kind: str) -> str:
        """The parameter by which a kernel of one program writes a cell; empty for other steps."""
        if type(step) not in (Run, Setting) or step.source.programs != 1:
            return ""
        if not self.kept.isdisjoint(step.arguments.values()):
            return ""
        found = [n for n in step.writes if step.arguments[n] is at]
        return found[0] if len(found) == 1 and step.source.signature[found[0]] == kind else ""


def ways(step: Conditional) -> list[str]:
    """The setters of the handles of a conditional node; a branch with two bodies is two nodes."""
    return [setter.SET_INDEX] if step.kind == "switch" else [setter.SET, setter.INVERTED][: len(step.bodies)]  # fmt: skip


def _without(steps: Sequence[Step], cell: Place) -> Iterator[Step]:
    """The steps without copies to a cell."""
    for step in steps:
        if isinstance(step, Copy):
            step = replace(step, pairs=[p for p in step.pairs if p[0] is not cell])
            if not step.pairs:
                continue
        yield step
