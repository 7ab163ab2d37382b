"""Loops that the host visits only where it has something to do, instead of running each iteration.

A loop with a print is the host's: it looks at the condition, and at the branch around the print, in every iteration. Where all that the host has
to do is in one branch (``if i % 100 == 0: print(...)``), ``visited`` lets the device run on until that branch is taken:

    host WHILE pred { A; host IF p { H } else { E }; B }

becomes

    host WHILE pred { WHILE { A; visit <- p; IF not visit { E; B }; go on while not visit and pred };  host IF visit { H; B } }

What the host does comes at the same place of the same iteration, so that nothing changes in what is seen, or in what order. ``B`` stands there twice,
on the same memory, since only one of the two runs. ``visit`` is a cell of its own: ``B`` may overwrite what ``p`` is. A failure ends the inner
loop; the host sees it before it does anything. Runs behind ``coalescing``, for conditional nodes only: chunks have no loop that ends early.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..graph.ir import as_word
from ..graph.types import TensorType
from ..kernels.triton_text import HEADER, Source
from .message_kernels import paused
from .plan import Cell, Conditional, Copy, Drain, Host, Message, Place, Plan, Run, Set, Step
from .steps import walk, with_bodies


def visited(plan: Plan) -> Plan:
    """The plan with loops that the device runs between the host's visits; the same one where there is none."""
    work = _Visits(plan)
    steps = work.steps(plan.steps)
    if not work.cells:
        return plan
    return replace(plan, steps=steps, buffers={**plan.buffers, **dict.fromkeys(work.cells)})


class _Visits:
    def __init__(self, plan: Plan):
        self.device, self.ring = plan.device, plan.ring
        self.word = as_word(plan.name)
        taken = [s.handle for s, _ in plan.walk() if isinstance(s, Conditional)]
        self.handles = itertools.count(max(taken, default=-1) + 1)
        self.cells: list[Place] = []

    def steps(self, steps: Sequence[Step]) -> list[Step]:
        made = []
        for step in steps:
            if isinstance(step, Conditional):
                step = with_bodies(step, self.steps)
                step = self._loop(step) or step
            made.append(step)
        return made

    def _loop(self, loop: Conditional) -> Conditional | None:
        """A loop in the other form; None where it has none."""
        if loop.kind != "while" or not loop.yields:
            return None
        (body,) = loop.bodies
        found = visitable(loop)
        if found is None:
            return None
        (j, which), at = found, loop.location
        branch = body[j]
        assert isinstance(branch, Conditional)
        *rest, last = body[j + 1 :]
        visit, stay, go = (self._cell() for _ in range(3))
        given = {"p": branch.cell, "visit": visit, "stay": stay, "go": go}
        look = Run(self._look(which == 1), given, branch.location, frozenset(["visit", "stay", "go"]))  # fmt: skip
        inside = [*branch.bodies[1 - which], *rest, Copy([(go, loop.cell)], at)]
        here, there = next(self.handles), next(self.handles)
        alone = Conditional("if", there, stay, [inside], branch.location)
        due, drain = self._due(loop, go)
        inner = Conditional("while", here, loop.cell, [[*body[:j], look, alone, *due, Set(here, go, at)]], at)  # fmt: skip
        host = [*branch.bodies[which], *self._again(rest, {})]
        outer = Conditional("if", branch.handle, visit, [host, []], branch.location)
        return replace(loop, bodies=[[inner, outer, *drain, last]])

    def _due(self, loop: Conditional, go: Cell) -> tuple[list[Step], list[Step]]:
        """Of a loop with messages, what ends it where they are due, and what the host does then."""
        if self.ring is None or not any(isinstance(s, Message) for s in walk([loop])):
            return [], []
        name = f"{self.word}_due{len(self.cells)}"
        return [paused(self.ring, name, go, go)], [Drain(location=loop.location)]

    def _cell(self) -> Cell:
        cell = Cell(f"v{len(self.cells)}", TensorType(torch.bool, (), self.device))
        self.cells.append(cell)
        return cell

    def _look(self, inverted: bool) -> Source:
        """The kernel that tells whether the host is wanted: where ``p`` is true, or where it is false."""
        name = f"{self.word}_visit{len(self.cells)}"
        test = "==" if inverted else "!="
        text = f"{HEADER}\n\n@triton.jit\ndef {name}(p, visit, stay, go):\n"
        text += f"    wanted = tl.load(p) {test} 0\n"
        text += "    tl.store(visit, wanted)\n"
        text += "    tl.store(stay, wanted == 0)\n"
        text += "    tl.store(go, wanted & (wanted == 0))\n"
        return Source(name, text, dict.fromkeys(["p", "visit", "stay", "go"], "*i1"), {}, 1, 1)

    def _again(self, steps: Sequence[Any], numbers: dict[int, int]) -> Iterator[Step]:
        """The steps once more: their nodes have handles of their own."""
        for step in steps:
            if isinstance(step, Conditional):
                numbers[step.handle] = next(self.handles)
                bodies = [list(self._again(b, numbers)) for b in step.bodies]
                yield replace(step, handle=numbers[step.handle], bodies=bodies)
            elif isinstance(step, Set):
                yield replace(step, handle=numbers[step.handle])
            else:
                yield step


def visitable(loop: Conditional) -> tuple[int, int] | None:
    """(the number of the branch in a loop's body, which of its sides) that has all that the host has to do there; None without one."""
    (body,) = loop.bodies
    (j, *more) = [j for j, s in enumerate(body) if _yields([s])]
    branch = body[j]
    if more or not isinstance(branch, Conditional) or branch.kind != "if":
        return None
    theirs = [_yields(b) for b in branch.bodies]
    return (j, theirs.index(True)) if theirs.count(True) == 1 else None


def _yields(steps: Sequence[Step]) -> bool:
    return any(isinstance(s, Host) for s in walk(steps))
