"""What a plan is made of: memory, and the steps on it, with what each of them reads and writes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..graph.ir import Value, items_in
from ..graph.types import DTYPE_NAMES, ScalarType, TensorType
from ..kernels.triton_text import Source

Location = tuple[str, int] | None


def located(location: Location, text: str) -> str:
    """A text with the user's line in front, where it is known."""
    return f"{location[0]}:{location[1]}: {text}" if location else text


@dataclass(eq=False)
class Cell:
    """Memory of the plan that is no value of the graph: ``content`` is what it starts with."""

    name: str
    type: TensorType
    content: Any = None


Place = Value | Cell


@dataclass
class Run:
    """A Triton kernel. ``arguments``: the memory for each parameter of its signature.

    ``writes``: the parameters that it writes. ``inplace``: for each of them those that may be the same memory, since no
    element is read after it is written. ``choice``: its block sizes, and how they were found. ``rereads``: those of the written ones that it
    reads too. ``decides``: those that decide whether it fails, where that is not all that it reads (``doubts``).
    """

    source: Source
    arguments: dict[str, Place]
    location: Location = None
    writes: frozenset[str] = frozenset()
    inplace: dict[str, frozenset[str]] = field(default_factory=dict)
    choice: str = ""
    rereads: frozenset[str] = frozenset()
    decides: frozenset[str] | None = None

    def __str__(self) -> str:
        return f"kernel {self.source.name}<{self.source.programs} programs of {self.source.warps} warps>"


@dataclass
class Update(Run):
    """A kernel that writes into memory that has other content too: it does nothing where its cell ``active`` is false."""


@dataclass(frozen=True)
class Telling:
    """A handle that a kernel sets from its buffer ``parameter``. ``how``: the name of the setter that does the same (``setter``).

    ``last``: the highest number of a SWITCH.
    """

    handle: int
    how: str
    parameter: str
    last: int = 0


@dataclass
class Setting(Run):
    """A kernel of one program that also sets handles from what it computes (``fusing``): they need no kernels of their own.

    ``error``: the plan's error cell, as an argument of the kernel, where the plan has one.
    """

    told: tuple[Telling, ...] = ()

    def __str__(self) -> str:
        handles = dict.fromkeys(t.handle for t in self.told)
        return f"{super().__str__()} that sets {', '.join(f'handle {h}' for h in handles)}"


@dataclass
class Message(Update):
    """A kernel that writes into the plan's ring what the host prints later (``messages``). ``site``: its number there."""

    site: int = 0

    def __str__(self) -> str:
        return f"message {self.site} by {super().__str__()}"


@dataclass
class Call:
    """A library function that writes into given memory: the ``out`` form of an ATen op."""

    op: str
    args: tuple
    kwargs: dict
    outputs: list[Place]
    location: Location = None

    def __str__(self) -> str:
        return f"call {self.op}"


@dataclass
class Host:
    """An op that the host runs on values of the device: the plan yields to it, and goes on after it."""

    op: str
    args: tuple
    kwargs: dict
    outputs: list[Value]
    location: Location = None

    def __str__(self) -> str:
        return f"host {self.op}"


@dataclass
class Drain(Host):
    """The host does what the messages in the ring tell (``messages``)."""

    op: str = "tg.print"
    args: tuple = ()
    kwargs: dict = field(default_factory=dict)
    outputs: list[Value] = field(default_factory=list)

    def __str__(self) -> str:
        return "drain the ring"


@dataclass
class View:
    """A view of memory: made once, while the plan is recorded; no node of the CUDA graph."""

    op: str
    args: tuple
    kwargs: dict
    output: Value
    location: Location = None

    def __str__(self) -> str:
        return f"view {self.op}"


@dataclass
class Copy:
    """Memory copied to memory of the same type; all sources are read before any target is written."""

    pairs: list[tuple[Place, Place]]
    location: Location = None

    def __str__(self) -> str:
        return f"copy {len(self.pairs)} buffer{'s' * (len(self.pairs) != 1)}"


@dataclass
class Conditional:
    """A conditional node. ``kind``: "while", "if" or "switch"; ``handle`` is set from ``cell`` before it.

    A while has one body, which sets its handle again. An if has one or two bodies, a switch one for
    each value from 0 on; the last one is for all other values. ``told``: whether a kernel before it sets the handle.
    """

    kind: str
    handle: int
    cell: Place
    bodies: list[list[Any]]
    location: Location = None
    told: bool = False

    @functools.cached_property
    def yields(self) -> bool:
        """Whether something inside runs on the host, which then runs the loop or branch too: it is no node."""
        return any(isinstance(s, Host) for body in self.bodies for s, _ in nested(body, 0))

    def __str__(self) -> str:
        return f"{'host ' if self.yields else ''}{self.kind.upper()} handle {self.handle}"


@dataclass
class Set:
    """A handle set from a cell: 1 where it is true and nothing has failed."""

    handle: int
    cell: Place
    location: Location = None

    def __str__(self) -> str:
        return f"set handle {self.handle}"


Step = Run | Update | Setting | Call | Host | View | Copy | Conditional | Set


def parts(steps: Sequence[Step]) -> list[Any]:
    """The steps of each CUDA graph, and what the host does between them."""
    found: list[Any] = [[]]
    for step in steps:
        if isinstance(step, Host) or (isinstance(step, Conditional) and step.yields):
            found += [step, []]
        else:
            found[-1].append(step)
    return found


def with_bodies(step: Step, change: Callable[[list[Step]], list[Step]]) -> Step:
    """A branch or loop with changed bodies; another step as it is."""
    if not isinstance(step, Conditional):
        return step
    return replace(step, bodies=[change(b) for b in step.bodies])


# ---- memory


def size_of(place: Place) -> int:
    """Bytes of a place."""
    kind = place.type
    if isinstance(kind, ScalarType):
        return 8
    return kind.dtype.itemsize * math.prod(kind.shape)


def dtype_name(place: Place) -> str:
    return DTYPE_NAMES[place.type.dtype]


def places_in(tree: Any) -> Iterator[Place]:
    """The values and cells in nested arguments."""
    return items_in(tree, (Value, Cell))


def map_places(function: Callable[[Place], Any], tree: Any) -> Any:
    """Nested arguments with ``function(place)`` for each value and cell."""
    if isinstance(tree, (Value, Cell)):
        return function(tree)
    if isinstance(tree, (list, tuple)):
        return type(tree)(map_places(function, x) for x in tree)
    if isinstance(tree, dict):
        return {k: map_places(function, x) for k, x in tree.items()}
    return tree


# ---- what a step reads and writes


def nested(steps: Sequence[Step], depth: int) -> Iterator[tuple[Step, int]]:
    """All steps of a list, each with the number of conditional nodes around it."""
    for step in steps:
        yield step, depth
        if isinstance(step, Conditional):
            for body in step.bodies:
                yield from nested(body, depth + 1)


def walk(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps of a list, and those inside of them."""
    for step in steps:
        yield step
        if isinstance(step, Conditional):
            for body in step.bodies:
                yield from walk(body)


def bases(steps: Sequence[Step]) -> dict[Place, Place]:
    """The memory that each view in a list of steps, or inside of them, is of."""
    found: dict[Place, Place] = {}
    for step in walk(steps):
        if isinstance(step, View):
            source = next(places_in(step.args))
            found[step.output] = found.get(source, source)
    return found


def reads(step: Step) -> list[Place]:
    """The places that a step reads, those inside of it left out."""
    if isinstance(step, Run):
        kept = isinstance(step, Update)  # what it does not write over is read, in a way
        return [p for n, p in step.arguments.items() if kept or n not in step.writes or n in step.rereads]  # fmt: skip
    if isinstance(step, (Call, Host)):
        return list(places_in((step.args, step.kwargs)))
    if isinstance(step, View):
        return list(places_in(step.args))
    if isinstance(step, Copy):
        return [b for _, b in step.pairs]
    return [step.cell]


def writes(step: Step) -> list[Place]:
    """The places that a step writes, those inside of it left out."""
    if isinstance(step, Run):
        return [p for n, p in step.arguments.items() if n in step.writes]
    if isinstance(step, (Call, Host)):
        return list(step.outputs)
    if isinstance(step, Copy):
        return [a for a, _ in step.pairs]
    return []


def both(step: Step) -> list[Place]:
    return [*reads(step), *writes(step)]
