"""The plan of a graph on a GPU: kernels, library calls and copies on memory that is there before, and conditional nodes.

A plan is what one CUDA graph does. ``While``, ``If`` and ``Case`` are WHILE, IF and SWITCH nodes: a *set* step writes a cell,
0-d and of the device, into the node's handle, so that no decision comes back to the host. Python numbers are cells too.
What a body makes lives in buffers of the plan; nothing is allocated while the graph runs. A kernel that may fail writes a
code into the plan's error cell, which ends all loops; after the run the host reads the cell and, where it is set, runs
the graph another way: a plan writes nothing but its own buffers, and variables only where nothing can fail (``stores``).

``str(plan)`` shows it, with the steps of the same list that each step waits for (``hazards``), and ``check`` names the steps that a conditional body may not hold.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..graph.ir import Value
from ..graph.types import ObjectType
from ..inference.shapes import Meta
from .hazards import edges
from .ring import Ring
from .steps import (
    Call,
    Cell,
    Conditional,
    Copy,
    Drain,
    Host,
    Message,
    Place,
    Run,
    Set,
    Setting,
    Step,
    Telling,
    Update,
    View,
    bases,
    dtype_name,
    nested,
    places_in,
    size_of,
)


@dataclass
class Plan:
    """``inputs`` and ``outputs`` are values of the graph. ``constants``: values and cells with content from the start."""

    name: str
    device: str
    inputs: list[Value]
    outputs: list[Any]
    steps: list[Step] = field(default_factory=list)
    buffers: dict[Place, None] = field(default_factory=dict)
    constants: dict[Place, Any] = field(default_factory=dict)
    error: Cell | None = None
    generator: tuple[Cell, Cell] | None = None  # seed and offset of the random numbers
    drawn: int | None = None  # by how much each call moves the offset; None where the run decides
    ring: Ring | None = None  # what the device tells the host to print
    layouts: dict[Place, Meta] = field(default_factory=dict)  # of views
    form: Any = None  # the ``Bounded`` graph that it is the plan of
    trials: dict[str, Any] = field(default_factory=dict)  # of loops that may be measured, by kernel
    once: list[Run] = field(default_factory=list)  # run when its memory is made (``once``)
    # Inputs that it writes, and their numbers among the graph's.
    stored: dict[Place, int] = field(default_factory=dict)
    asserted: Any = (
        None  # the line of a kernel that may find a position which torch's own would assert
    )
    doubts: frozenset[int] | None = (
        None  # the inputs that alone decide whether it fails (``doubts``)
    )

    @property
    def memory(self) -> int:
        """Bytes of all buffers, inputs left out."""
        return sum(size_of(p) for p in self.buffers if p not in self.inputs)

    def walk(self) -> Iterator[tuple[Step, int]]:
        """All steps with the number of conditional nodes around each."""
        yield from nested(self.steps, 0)

    def nodes(self) -> dict[str, int]:
        """How many nodes of each kind the CUDA graph has; a library call is at least one kernel."""
        found: dict[str, int] = {}
        for step, _ in self.walk():
            kinds = _kinds(step)
            for kind in filter(None, kinds):
                found[kind] = found.get(kind, 0) + (len(step.pairs) if isinstance(step, Copy) else 1)  # fmt: skip
        return dict(sorted(found.items()))

    @functools.cached_property
    def bases(self) -> dict[Place, Place]:
        """The memory that each view is of."""
        return bases(self.steps)

    def edges(self, steps: Sequence[Step]) -> list[list[int]]:
        """For each of the steps, or of those of a body, the earlier ones of them that it must come after."""
        return edges(steps, self.bases, (self.error,))

    def __str__(self) -> str:
        nodes = ", ".join(f"{n} {kind}" for kind, n in self.nodes().items())
        head = f"plan {self.name} on {self.device}: {nodes or 'no nodes'}; {len(self.buffers)} buffers, {self.memory} bytes"  # fmt: skip
        names = _Names(self)
        lines = [f"  in  {names.of(v)}: {v.type}" for v in self.inputs]
        lines += [f"  once: {s}{_arguments(s, names)}" for s in self.once]
        lines += _lines(self, self.steps, 1, names)
        lines.append(f"  out {', '.join(names.of(v) for v in self.outputs)}")
        return "\n".join([head, *lines])


_KINDS = {
    Host: "host",
    Drain: "host",
    Message: "kernel",
    Run: "kernel",
    Update: "kernel",
    Setting: "kernel",
    Call: "library",
    View: "",
    Copy: "memcpy",
    Set: "kernel",
}


def _kinds(step: Step) -> list[str]:
    """The kinds of nodes that a step is in a CUDA graph. What the host runs is none, and stands in no node's body."""
    if isinstance(step, Conditional):
        if step.yields:
            return [f"host {step.kind}"]
        return [step.kind] if step.told else ["kernel", step.kind]
    return [_KINDS[type(step)]]


class _Names:
    def __init__(self, plan: Plan):
        self.plan, self.known = plan, {}

    def of(self, place: Any) -> str:
        if isinstance(place, Cell):
            return place.name
        if not isinstance(place, Value):
            return repr(place)
        return self.known.setdefault(place, f"b{len(self.known)}")


def _lines(plan: Plan, steps: Sequence[Step], depth: int, names: _Names) -> list[str]:
    """A line for each step: its number, what it does, and the numbers of the steps that it waits for."""
    out = []
    for j, (step, before) in enumerate(zip(steps, plan.edges(steps))):
        after = f" after {', '.join(map(str, before))}" if before else ""
        where = f"  # {step.location[0]}:{step.location[1]}" if step.location else ""
        out.append(f"{'  ' * depth}{j}: {step}{_arguments(step, names)}{after}{where}")
        if isinstance(step, Conditional):
            for k, body in enumerate(step.bodies):
                if len(step.bodies) > 1:
                    out.append(f"{'  ' * (depth + 1)}body {k}:")
                out += _lines(plan, body, depth + 1 + (len(step.bodies) > 1), names)
    return out


def _arguments(step: Step, names: _Names) -> str:
    if isinstance(step, Run):
        return "(" + ", ".join(f"{k}={names.of(p)}" for k, p in step.arguments.items()) + ")"
    if isinstance(step, Drain):
        return ""
    if isinstance(step, (Call, Host)):
        given = ", ".join(names.of(p) for p in places_in((step.args, step.kwargs)))
        return f"({given}) -> {', '.join(map(names.of, step.outputs))}"
    if isinstance(step, View):
        return (
            f"({', '.join(names.of(p) for p in places_in(step.args))}) -> {names.of(step.output)}"
        )
    if isinstance(step, Copy):
        return ": " + ", ".join(f"{names.of(a)} <- {names.of(b)}" for a, b in step.pairs)
    return f" <- {names.of(step.cell)}"


# ---- what a conditional body may hold

# CUDA programming guide, conditional node body graph requirements: kernels, empty nodes, copies, fills, child graphs and conditional nodes.
ALLOWED = frozenset(["kernel", "memcpy", "memset", "empty", "child graph", "while", "if", "switch", "library", "host", "host while", "host if", "host switch"])  # fmt: skip


def check(plan: Plan) -> list[str]:
    """What is wrong with a plan: forbidden node kinds in bodies, memory that nobody has, handles that are not set."""
    problems = []
    known: set[Any] = {*plan.inputs, *plan.buffers, *plan.constants}
    for step, depth in plan.walk():
        for kind in sorted({*_kinds(step)} - ALLOWED - {""}):
            if depth:
                problems.append(f"{kind} in a conditional body: {step}")
        if isinstance(step, View):
            known.add(step.output)
        problems += [f"no memory for a value of {step}" for p in _places(step) if p not in known]
        if isinstance(step, Conditional) and step.kind == "while" and not _sets(step):
            problems.append(f"the body of {step} does not set its handle")
    return problems


def _places(step: Step) -> list[Place]:
    if isinstance(step, Run):
        return list(step.arguments.values())
    if isinstance(step, Host):
        made = [v for v in step.outputs if not isinstance(v.type, ObjectType)]
        return [*(p for p in places_in((step.args, step.kwargs)) if not _object(p)), *made]
    if isinstance(step, Call):
        return [*places_in((step.args, step.kwargs)), *step.outputs]
    if isinstance(step, View):
        return list(places_in(step.args))
    if isinstance(step, Copy):
        return [p for pair in step.pairs for p in pair]
    return [step.cell]


def _object(place: Place) -> bool:
    return isinstance(place, Value) and isinstance(place.type, ObjectType)


def _sets(step: Conditional) -> bool:
    """Whether the body of a loop sets its handle: a step at its end, or a kernel in it."""
    (body,) = step.bodies
    by_kernel = any(t.handle == step.handle for s in body if isinstance(s, Setting) for t in s.told)
    return by_kernel or (isinstance(body[-1], Set) and body[-1].handle == step.handle)


__all__ = ["ALLOWED", "Call", "Cell", "Conditional", "Copy", "Drain", "Host", "Message", "Place", "Plan", "Run", "Set", "Setting", "Step", "Telling", "Update", "View", "check", "dtype_name", "places_in"]  # fmt: skip
