"""What the steps of a plan have to wait for, and which of them go on streams of their own.

``edges(steps, ...)`` gives, for each step, the earlier steps of the same list that it must come after: the transitive reduction of
all hazards, which are writing before reading, reading before writing over, and writing twice, on the memory that views are
of. A conditional node counts as one step that does what is inside of it. All control edges of the graph are hazards here, since effects
are memory of a plan; what the host does ends a CUDA graph. Every place has memory of its own, so that no hazard comes from
memory that is used again.

The error cell orders nothing but messages to the host, which come after all that may fail before them: every write says that the
results are thrown away, and a loop that a failure keeps going reads, by its data, what the failing kernel made.

``streams(...)`` spreads the steps over *lanes*, each a stream while the graph is captured, where that is estimated to be worth it: a
lane begins with a step that takes longer than an edge between streams costs, that leaves room on the device, and that has another such
step beside it. All estimates are *not yet seen on a GPU*.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ..kernels.triton_source import ERROR
from .steps import (
    Call,
    Conditional,
    Message,
    Place,
    Run,
    Step,
    View,
    parts,
    reads,
    size_of,
    walk,
    writes,
)

LANES = 4
BYTES = 3e12  # that a kernel moves in a second
START = 1.5e-6  # seconds that a kernel takes at least
LIBRARY = 5e-6  # a product or convolution
NODE = 7e-6  # a conditional node, without its body
TRIPS = 8  # of a loop
LEAST = 4e-6  # seconds of a step that is worth a lane
FILLED = 2048  # warps from which on a kernel leaves no room beside it
NEAR = 64  # long steps before one that are looked at
ELEMENTS = 1 << 19  # of the result of a library call that leaves no room


def edges(
    steps: Sequence[Step], bases: Mapping[Place, Place], ignored: Collection[Place | None] = ()
) -> list[list[int]]:
    """For each step the numbers of the steps before it that it must come after. Views wait for nothing, and nobody for them."""
    wrote: dict[Place, int] = {}
    read: dict[Place, list[int]] = {}
    before: list[int] = []  # all that a step comes after, as bits
    found: list[list[int]] = []
    failing: set[int] = set()  # steps that may fail
    for j, step in enumerate(steps):
        after: set[int] = set()
        seen, changed = _touched(step, bases, ignored)
        for p in seen | changed:
            after |= {wrote[p]} if p in wrote else set()
        for p in changed:
            after |= set(read.pop(p, ()))
            wrote[p] = j
        for p in seen - changed:
            read.setdefault(p, []).append(j)
        inside = list(walk([step]))
        if any(isinstance(s, Message) for s in inside):
            after |= failing
        if any(isinstance(s, Run) and ERROR in s.source.signature for s in inside):
            failing.add(j)
        found.append(_reduced(after, before))
        before.append(_behind(sorted(after), before))
    return found


def _touched(
    step: Step, bases: Mapping[Place, Place], ignored: Collection[Place | None]
) -> tuple[set[Place], set[Place]]:
    """The memory that a step, and what is inside of it, reads and writes."""
    inside = [s for s in walk([step]) if not isinstance(s, View)]
    seen = {bases.get(p, p) for s in inside for p in reads(s)}
    changed = {bases.get(p, p) for s in inside for p in writes(s)}
    return seen - {*ignored}, changed - {*ignored}


def _reduced(after: set[int], before: Sequence[int]) -> list[int]:
    """Those that no other one of them comes after."""
    kept: list[int] = []
    covered = 0
    for i in sorted(after, reverse=True):
        if not covered >> i & 1:
            kept.append(i)
            covered |= before[i]
    return kept[::-1]


# ---- lanes


def streams(steps: Sequence[Step], after: Sequence[Sequence[int]]) -> list[int]:
    """The lane of each step; 0 is the stream that the list is captured on.

    A step goes on a lane whose last step it comes after anyway, else on a new one if that is worth it. Where neither is, it waits
    for more than it must.
    """
    alone = _independent(steps, after)
    tails: list[int | None] = [None]
    before: list[int] = []
    lanes: list[int] = []
    for j, step in enumerate(steps):
        before.append(_behind(after[j], before))
        if isinstance(step, View):
            lanes.append(0)
            continue
        free = [k for k, tail in enumerate(tails) if tail is None or before[j] >> tail & 1]
        if free:
            lane = max(free, key=lambda k: -1 if (tail := tails[k]) is None else tail)
        elif alone >> j & 1 and len(tails) < LANES:
            lane = len(tails)
        else:
            lane = lanes[after[j][-1]] if after[j] else 0
        lanes.append(lane)
        if lane == len(tails):
            tails.append(None)
        before[j] |= _behind([t for t in [tails[lane]] if t is not None], before)
        tails[lane] = j
    return lanes


def forks(steps: Sequence[Step], after: Callable[[Sequence[Step]], Sequence[Sequence[int]]]) -> bool:  # fmt: skip
    """Whether some steps of a list, or inside of them, go on lanes of their own. ``after``: what the steps of a list wait for. The host's steps have none."""
    graphs = [part for part in parts(steps) if isinstance(part, list)]
    inside = [b for s in steps if isinstance(s, Conditional) for b in s.bodies]
    return any(any(streams(g, after(g))) for g in graphs) or any(forks(b, after) for b in inside)


def _behind(after: Sequence[int], before: Sequence[int]) -> int:
    """All that comes before a step, as bits."""
    bits = 0
    for i in after:
        bits |= before[i] | 1 << i
    return bits


def _independent(steps: Sequence[Step], after: Sequence[Sequence[int]]) -> int:
    """The steps that are worth a lane, as bits: long ones that leave room, beside another one, and what leads to one of both."""
    before: list[int] = []
    for j in range(len(steps)):
        before.append(_behind(after[j], before))
    long = [j for j, s in enumerate(steps) if _leaves_room(s) and seconds(s) >= LEAST]
    found = 0
    for k, j in enumerate(long):
        for i in long[max(k - NEAR, 0) : k]:
            if not before[j] >> i & 1:
                found |= before[i] ^ before[j] | 1 << i | 1 << j
    return found


def seconds(step: Step) -> float:
    """An estimate of how long a step takes."""
    if isinstance(step, View):
        return 0.0
    if isinstance(step, Conditional):
        inside = max(sum(map(seconds, body)) for body in step.bodies)
        return NODE + inside * (TRIPS if step.kind == "while" else 1)
    moved = sum(size_of(p) for p in {*reads(step), *writes(step)})
    return (LIBRARY if isinstance(step, Call) else START) + moved / BYTES


def _leaves_room(step: Step) -> bool:
    if isinstance(step, Run):
        return step.source.programs * step.source.warps < FILLED
    if isinstance(step, Call):
        return all(size_of(p) < 4 * ELEMENTS for p in step.outputs)
    return isinstance(step, Conditional)
