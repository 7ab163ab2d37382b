"""Prints in loops and branches as messages of the device: the loop runs on, the host prints when it looks (``ring``).

A print in a loop would have the host run that loop. ``told`` has the device write what it is given into a ring instead:

    host WHILE pred { A; host print x; B }

becomes

    host WHILE pred { WHILE { A; message x; B; go on while pred and the ring has room };  drain }

The inner loop ends where the ring is half full, or where the host has waited for a while; the host prints and starts it again, in the
next iteration. In an inner loop a message may find no room: that is an error like that of a list that gets full, and the graph runs again with a
larger ring. Once a ring is as large as it may get, inner loops come back themselves, and the host runs those around them (``nested``).

Order: the messages of a plan are one memory, so none overtakes another; the ring is read before anything else that the host does, at the end
of a run, and before an error is raised. A message waits for all steps before it that may fail (``hazards``) and is not written
where one has; those that a failure behind them keeps out are printed when the graph is run once more (``resume``).

What can be a message: a print and the texts that it is made of, with up to ``MOST`` elements. Where a loop has more for the host to do, in one
of its branches, that is left to ``visits``; else the loop is the host's as before, but loops inside of it are looked at by themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from ..graph.ir import as_word
from ..graph.types import DTYPE_NAMES, ObjectType, ScalarType, TensorType
from ..inference.shapes import Meta, contiguous
from ..kernels.triton_loops import ACTIVE
from ..kernels.triton_ops import SIGNATURE
from ..kernels.triton_source import ERROR
from . import message_kernels
from .plan import Cell, Conditional, Copy, Drain, Host, Message, Place, Plan, Run, Set, Step
from .resume import HOST_OPS
from .ring import Ring, Site
from .steps import bases, places_in, reads, walk, with_bodies, writes
from .visits import visitable

MOST = 512  # elements of a message
KINDS = HOST_OPS - {"tg.py_call", "tg.py_item"}


@dataclass(frozen=True)
class Room:
    """``words`` of the ring; ``nested``: whether only the outermost loop with messages comes back when it is full."""

    words: int = 1 << 14
    nested: bool = True

    def more(self) -> Room | None:
        """The next one to try where a message has found no room."""
        if self.words < 1 << 21:
            return Room(self.words * 8, self.nested)
        return Room(self.words, False) if self.nested else None


def told(plan: Plan, room: Room | None = None, visits: bool = True) -> Plan:
    """The plan with messages in the place of prints; the same one where there are none. ``visits``: whether that pass follows."""
    work = _Messages(plan, room or Room(), visits)
    steps = work.steps(plan.steps)
    if not work.ring.sites:
        return plan
    own = [work.ring.position, *work.ring.shared, *work.cells]
    return replace(
        plan,
        steps=steps,
        ring=work.ring,
        error=work.error,
        buffers={**plan.buffers, **dict.fromkeys(own)},
        constants={**plan.constants, work.error: 0, work.always: True},
    )


class _Messages:
    def __init__(self, plan: Plan, room: Room, visits: bool):
        self.plan, self.room, self.visits = plan, room, visits
        self.bases = bases(plan.steps)
        word, flag = (TensorType(t, (), plan.device) for t in (torch.int64, torch.bool))
        memory = TensorType(torch.int64, (room.words,), "cpu")
        self.ring = Ring(Cell("position", word), Cell("ring", memory), Cell("asked", replace(word, device="cpu")), room.words)  # fmt: skip
        self.flag, self.always = flag, Cell("always", flag, True)
        self.error = plan.error or Cell(ERROR, TensorType(torch.int32, (1,), plan.device), 0)
        self.handles = itertools.count(max((s.handle for s, _ in plan.walk() if isinstance(s, Conditional)), default=-1) + 1)  # fmt: skip
        self.cells: list[Cell] = []
        self.prefix = as_word(plan.name)

    def steps(self, steps: Sequence[Step], alone: bool = True) -> list[Step]:
        """Steps between which the host acts. ``alone``: whether they are in no loop of the host's."""
        return [s for step in steps for s in self._step(step, alone)]

    def _step(self, step: Step, alone: bool) -> list[Step]:
        if not isinstance(step, Conditional) or not step.yields:
            return [step]
        if step.kind != "while":
            if alone and not self._loops(step) and all(map(self._fits, _hosts(step))):
                return [with_bodies(step, self._told)]
            return [with_bodies(step, lambda b: self.steps(b, alone))]
        return [self._loop(step) or with_bodies(step, lambda b: self.steps(b, False))]

    def _loop(self, loop: Conditional) -> Conditional | None:
        """A loop that the device runs, with messages; None for one that the host has to run."""
        if not self.room.nested and self._loops(*loop.bodies[0]):
            return None
        if not any(map(self._fits, _hosts(loop))):
            return None
        known = len(self.ring.sites)
        body = self._told(loop.bodies[0])
        left = replace(loop, bodies=[body])
        most = sum(self.ring.sites[s.site].words for s in walk(body) if isinstance(s, Message))
        hosts = left.yields and not (self.visits and visitable(left))
        if hosts or most > self.ring.limit:
            del self.ring.sites[known:]
            return None
        if left.yields:  # by ``visits``, which has the loop come back for the ring too
            return left
        *rest, last = body
        assert isinstance(last, Set)
        here, go = next(self.handles), self._cell()
        inside = [*rest, self.pause(loop.cell, go), Set(here, go, loop.location)]
        inner = Conditional("while", here, go, [inside], loop.location)
        start = Copy([(go, loop.cell)], loop.location)
        return replace(loop, bodies=[[start, inner, Drain(location=loop.location), last]])

    def _loops(self, *steps: Step) -> bool:
        """Whether there are loops inside that have something for the host."""
        return any(isinstance(s, Conditional) and s.kind == "while" and s.yields for s in walk(steps))  # fmt: skip

    def pause(self, test: Place, go: Cell) -> Run:
        return message_kernels.paused(self.ring, f"{self.prefix}_pause{len(self.cells)}", test, go)

    def _cell(self) -> Cell:
        self.cells.append(Cell(f"m{len(self.cells)}", self.flag))
        return self.cells[-1]

    # ---- messages in a body

    def _told(self, steps: Sequence[Step]) -> list[Step]:
        """Steps of a body with messages. Prints in a row are one, where nothing between them changes what they are given."""
        made: list[Step] = []
        waiting: list[Host] = []
        for step in steps:
            if isinstance(step, Host) and self._fits(step):
                if waiting and self._size([*waiting, step]) > MOST:
                    made.append(self._message(waiting))
                    waiting = []
                waiting.append(step)
                continue
            if waiting and self._parts(waiting, step):
                made.append(self._message(waiting))
                waiting = []
            made.append(with_bodies(step, self._told))
        return [*made, self._message(waiting)] if waiting else made

    def _parts(self, waiting: Sequence[Host], step: Step) -> bool:
        """Whether messages have to be written ahead of a step: it changes what they read, has the host act, or ends the body."""
        inside = list(walk([step]))
        if isinstance(step, Set) or any(isinstance(s, Host) for s in inside):
            return True
        given = {self._base(p) for h in waiting for p in reads(h)}
        return not given.isdisjoint(self._base(p) for s in inside for p in writes(s))

    def _base(self, place: Place) -> Place:
        return self.bases.get(place, place)

    def _fits(self, host: Host) -> bool:
        """Whether an op of the host needs only values that fit into a message."""
        if host.op not in KINDS or not all(isinstance(v.type, ObjectType) for v in host.outputs):
            return False
        kinds = [p.type for p in _values([host])]
        known = all(DTYPE_NAMES.get(k.dtype) in SIGNATURE for k in kinds)
        return known and self._size([host]) <= MOST

    def _size(self, hosts: Sequence[Host]) -> int:
        return message_kernels.length([self._meta(p) for p in _values(hosts)])

    def _meta(self, place: Place) -> Meta:
        kind = place.type
        shape = () if isinstance(kind, ScalarType) else kind.shape
        found = self.plan.layouts.get(place)
        return found or contiguous(kind.dtype, shape, torch.device(self.plan.device))

    def _message(self, hosts: Sequence[Host]) -> Message:
        values = _values(hosts)
        metas = [self._meta(p) for p in values]
        starts = [message_kernels.length(metas[:k]) for k, _ in enumerate(metas)]
        words, number = message_kernels.length(metas), len(self.ring.sites)
        self.ring.sites.append(Site(tuple(hosts), dict(zip(values, starts)), words))
        name = f"{self.prefix}_message{number}"
        source = message_kernels.message(name, number, metas, self.ring.words)
        given = {f"value{k}": p for k, p in enumerate(values)}
        given |= {"position": self.ring.position, "memory": self.ring.memory, ACTIVE: self.always, ERROR: self.error}  # fmt: skip
        return Message(source, {n: given[n] for n in source.signature}, hosts[-1].location, frozenset(["position", "memory"]), site=number)  # fmt: skip


def _hosts(step: Step) -> Iterator[Host]:
    return (s for s in walk([step]) if isinstance(s, Host))


def _values(hosts: Sequence[Host]) -> list[Place]:
    """The memory that steps of the host are given, each once."""
    found = (p for h in hosts for p in places_in((h.args, h.kwargs)))
    return list(dict.fromkeys(p for p in found if isinstance(p, Cell) or not isinstance(p.type, ObjectType)))  # fmt: skip
