"""Small kernels and copies as one kernel: to start one takes longer than to run it, in every iteration of a loop.

``joined`` gives a plan in which steps stand in an order that keeps to all that they wait for (``hazards``), and small kernels that follow each
other are one kernel, which calls the others. Those of one program may use what one before them has written: the program does one after
another, with a barrier between, behind which all its threads see what was stored. Those of several programs do not touch each other's
memory. Small copies are kernels too where that makes one node of several.

A part keeps to itself where it has a loop with a switch, is large enough for a stream of its own, or was made for one warp, which reads all
before it writes anything, and would get several. What computes a condition does not go ahead of what may fail: a loop ends at once there.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..graph.ir import as_word
from ..graph.types import DTYPE_NAMES, ScalarType
from ..kernels.tiles import power_of_two
from ..kernels.triton_loops import ACTIVE
from ..kernels.triton_ops import SIGNATURE
from ..kernels.triton_text import ERROR, HEADER, Source, parameters
from .hazards import LEAST, NEAR, seconds
from .plan import Conditional, Copy, Place, Plan, Run, Set, Step, Update, View
from .steps import both, dtype_name, parts, reads, size_of, with_bodies, writes

MOST = 12  # kernels that become one: more take long to compile
WARPS = 512  # of a kernel that is small
LARGE = 1 << 19  # bytes of a copy from which on it stays one
BLOCK = 1024
SHARED = (ERROR, ACTIVE)  # parameters that have one name in all kernels
_FUNCTION = re.compile(r"(?:#.*\n)*@triton\.jit\ndef (\w+)\(")


def joined(plan: Plan) -> Plan:
    """The plan with fewer kernels and copies; the given one stays as it is."""
    return replace(plan, steps=_Joining(plan).steps(plan.steps))


@dataclass
class _Moved(Run):
    """A copy as a kernel. ``pair``: target and source."""

    pair: tuple[Place, Place] | None = None


class _Joining:
    def __init__(self, plan: Plan):
        self.plan, self.bases = plan, plan.bases
        self.count = itertools.count()

    def steps(self, steps: Sequence[Step]) -> list[Step]:
        made: list[Step] = []
        for part in parts(steps):
            made += self._graph(part) if isinstance(part, list) else [with_bodies(part, self.steps)]
        return made

    # ---- the order

    def _graph(self, steps: Sequence[Step]) -> list[Step]:
        """The steps of one CUDA graph. Views, which are no nodes, come first."""
        made: list[Step] = [s for s in steps if isinstance(s, View)]
        work = [m for s in steps if not isinstance(s, View) for m in self._apart(s)]
        after = self._after(work)
        done: set[int] = set()
        left = list(range(len(work)))
        group: list[Run] = []
        while left:
            ready = [j for j in left[:NEAR] if done.issuperset(after[j])]
            ready = ready or [next(j for j in left if done.issuperset(after[j]))]
            j = next((j for j in ready if group and self._fits(group, work[j])), None)
            if j is None:
                made += self._closed(group)
                # What is no small kernel comes first: more of those are ready behind it.
                j, group = next((j for j in ready if not self._fits([], work[j])), ready[0]), []
                if not self._fits([], work[j]):
                    made.append(with_bodies(work[j], self.steps))
            if self._fits(group, step := work[j]):
                assert isinstance(step, Run)
                group.append(step)
            done.add(j)
            left.remove(j)
        return [*made, *self._closed(group)]

    def _after(self, steps: Sequence[Step]) -> list[set[int]]:
        """What each step waits for. What computes a condition waits for all that may fail before it, that of the loop for all that may fail.

        A body's end is where its handle is set.
        """
        found = [{*before} for before in self.plan.edges(steps)]
        if steps and isinstance(steps[-1], Set):
            found[-1] = {*range(len(steps) - 1)}
        failing = {i for i, s in enumerate(steps) if isinstance(s, Run) and ERROR in s.source.signature}  # fmt: skip
        if not failing:
            return found
        cells = {self._base(s.cell) for s in steps if isinstance(s, (Set, Conditional))}
        telling = [j for j, s in enumerate(steps) if not cells.isdisjoint(self._touched(s)[1])]
        for j in telling:
            found[j] |= {i for i in failing if i < j}
        if telling and isinstance(steps[-1], Set):
            behind = {telling[-1]}
            for i in range(telling[-1] + 1, len(steps)):
                behind |= {i} if not found[i].isdisjoint(behind) else set()
            found[telling[-1]] |= failing - behind
        return found

    # ---- what fits together

    def _fits(self, group: Sequence[Run], step: Step) -> bool:
        if not self._small(step):
            return False
        assert isinstance(step, Run)
        together = [*group, step]
        grids = {s.source.programs > 1 for s in together}
        only_updates = all(isinstance(s, Update) for s in together)
        if len(together) > MOST or (len(grids) > 1 and not only_updates):
            return False  # what may set a handle has one program
        if not all(self._one_after_another(s, step) for s in group):
            return False
        if _functions([s.source for s in together]) is None:
            return False
        warps = max(s.source.warps for s in together)
        return not any(s.source.warps == 1 < warps and self._in_place(s) for s in together)

    def _small(self, step: Step) -> bool:
        """Whether a step is a kernel that may be a part of another one."""
        if type(step) not in (Run, Update, _Moved):
            return False
        source = step.source
        if ACTIVE in source.signature and type(step) is not Update:
            return False
        plain = all(k.startswith("*") for k in source.signature.values())
        return plain and source.programs * source.warps <= WARPS and seconds(step) < LEAST

    def _one_after_another(self, first: Run, second: Run) -> bool:
        """Whether two kernels may be parts of one: both touch the same memory in one program only, and as a whole."""
        shared = self._conflict(first, second)
        views = {self._base(p) for s in (first, second) for p in both(s) if self._base(p) is not p}
        return not shared or ({first.source.programs, second.source.programs} == {1} and shared.isdisjoint(views))  # fmt: skip

    def _conflict(self, first: Run, second: Run) -> set[Place]:
        """What one of two kernels writes and the other one reads or writes."""
        read, written = self._touched(first)
        others_read, others_written = self._touched(second)
        return written & (others_read | others_written) | others_written & read

    def _in_place(self, step: Run) -> bool:
        """Whether a kernel reads memory that it writes. An update only keeps what else is there."""
        read, written = self._touched(step)
        return type(step) is not Update and not read.isdisjoint(written)

    def _touched(self, step: Step) -> tuple[set[Place], set[Place]]:
        read, written = ({self._base(p) for p in what(step)} for what in (reads, writes))
        return read - {self.plan.error}, written

    def _base(self, place: Place) -> Place:
        return self.bases.get(place, place)

    # ---- copies

    def _apart(self, step: Step) -> Iterator[Step]:
        """A step; small copies as kernels."""
        if not isinstance(step, Copy):
            yield step
            return
        for a, b in step.pairs:
            if size_of(a) < LARGE and self._base(a) is a and self._base(b) is b and _known(a):
                yield self._moved((a, b), step)
            else:
                yield Copy([(a, b)], step.location)

    def _moved(self, pair: tuple[Place, Place], step: Copy) -> _Moved:
        count, kind = size_of(pair[0]) // _item(pair[0]), SIGNATURE[dtype_name(pair[0])]
        name, block = f"{as_word(self.plan.name)}_copy{next(self.count)}", min(power_of_two(count), BLOCK)  # fmt: skip
        signature = {"source": f"*{kind}", "target": f"*{kind}"}
        text = f"{HEADER}\n\n@triton.jit\ndef {name}({parameters(signature, {'XBLOCK': block})}):\n"
        text += "    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)\n"
        text += f"    tl.store(target + i, tl.load(source + i, i < {count}), i < {count})\n"
        source = Source(name, text, signature, {"XBLOCK": block}, -(-count // block), max(block // 256, 1))  # fmt: skip
        arguments = {"source": pair[1], "target": pair[0]}
        return _Moved(source, arguments, step.location, frozenset(["target"]), pair=pair)

    # ---- one kernel

    def _closed(self, group: Sequence[Run]) -> Sequence[Step]:
        """The kernels as one. A copy by itself stays one."""
        if len(group) > 1:
            return [self._one(group)]
        return [Copy([s.pair], s.location) if isinstance(s, _Moved) and s.pair else s for s in group]  # fmt: skip

    def _one(self, group: Sequence[Run]) -> Run:
        made, lines = _Parameters(), []
        programs = max(s.source.programs for s in group)
        for k, step in enumerate(group):
            source = step.source
            given = [*(made.name(step, n) for n in source.signature), *map(str, source.constants.values())]  # fmt: skip
            if any(self._conflict(s, step) for s in group[:k]):
                lines.append("    tl.debug_barrier()\n")
            some = source.programs < programs
            lines += [f"    if tl.program_id(0) < {source.programs}:\n"] if some else []
            lines.append(f"    {'    ' * some}{source.name}({', '.join(given)})\n")
        signature = dict(sorted(made.signature.items(), key=lambda pair: pair[0] in SHARED))
        text, name = _functions([s.source for s in group]) or "", _name(group)
        text += f"\n\n@triton.jit\ndef {name}({parameters(signature, {})}):\n{''.join(lines)}"
        source = Source(name, text, signature, {}, programs, max(s.source.warps for s in group))
        arguments = {n: made.arguments[n] for n in signature}
        choice = "; ".join(dict.fromkeys(s.choice for s in group if s.choice))
        again = frozenset(made.reads & made.writes)
        return Run(source, arguments, group[-1].location, frozenset(made.writes), choice=choice, rereads=again)  # fmt: skip


@dataclass
class _Parameters:
    """Those of the whole, one for each memory."""

    signature: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, Place] = field(default_factory=dict)
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    names: dict[Place, str] = field(default_factory=dict)

    def name(self, step: Run, n: str) -> str:
        place = step.arguments[n]
        name = n if n in SHARED else self.names.setdefault(place, f"m{len(self.names)}")
        self.signature[name], self.arguments[name] = step.source.signature[n], place
        if n in step.writes:
            self.writes.add(name)
        if n not in step.writes or isinstance(step, Update):  # what is not written over stays
            self.reads.add(name)
        return name


def _item(place: Place) -> int:
    kind = place.type
    return 8 if isinstance(kind, ScalarType) else kind.dtype.itemsize


def _known(place: Place) -> bool:
    """Whether there is something to copy, of a type that kernels know."""
    kind = place.type
    return size_of(place) > 0 and DTYPE_NAMES.get(kind.dtype) in SIGNATURE


def _name(group: Sequence[Run]) -> str:
    """The names of the first and of the last, what both begin with once, and how many there are between."""
    names = [s.source.name for s in group]
    head = names[0].rpartition("_")[0] + "_"
    between = f"_{len(names) - 2}" if len(names) > 2 else ""
    return f"{names[0]}{between}_{names[-1].removeprefix(head)}"


def _functions(sources: Sequence[Source]) -> str | None:
    """The module of all, without what calls them; None where it is of another form, or two functions of one name differ."""
    known: dict[str, str] = {}
    for source in sources:
        found = _parts(source.text)
        if not found or any(known.get(n, text) != text for n, text in found.items()):
            return None
        known |= found
    return HEADER + "".join(f"\n\n{text}\n" for text in known.values())


@functools.lru_cache(maxsize=256)
def _parts(text: str) -> dict[str, str]:
    """The functions of a module, by name; empty where it is of another form."""
    if not text.startswith(HEADER):
        return {}
    found = text.removeprefix(HEADER).strip("\n").split("\n\n\n")
    names = [_FUNCTION.match(part) for part in found]
    return {m.group(1): part for m, part in zip(names, found) if m} if all(names) else {}
