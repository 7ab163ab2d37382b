"""Matrix products that do not need each other, run as one: on all threads at once, with one start and one end.

Starting and joining threads costs a microsecond, as much as a small product does: a training step or a cell of a
recurrent network has several of them that only wait for the same matrix. ``order`` puts such products behind each other;
they become one group, whose products are given to the threads together: each thread takes the same share of every one, or whole
ones where that keeps more of what it needs in its own cache (``fresh``). Meanwhile comes what the next iteration of a loop reads (``ahead``).

A product and what needs it may only move down, past nodes that need neither, and not far: what is in memory meanwhile is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..graph.ir import Graph, Node, Value
from ..graph.types import TensorType
from . import ahead, blas, followed, looks, threading
from .code import Code
from .lanes import loop, only
from .views import VIEWS

if TYPE_CHECKING:
    from .lower import Lowering

LEAST = 1 << 17  # multiply-adds of a product that is worth a share of its own
MOST, FAR = 8, 64  # products of a group, and nodes that wait for them
FEW = 64  # rows of a matrix whose sum is such a product
OPS, SUM = ("aten.mm.default", "aten.addmm.default"), "aten.sum.dim_IntList"


def work(node: Node) -> int:
    """The multiply-adds of a matrix product; 0 where only a run knows the sizes, and for other nodes."""
    if node.op not in OPS or node.kwargs:
        return 0
    left, right = (a.type for a in node.args[-2:])
    if not isinstance(left, TensorType) or not isinstance(right, TensorType):
        return 0
    (n, k), m = left.shape, right.shape[1]
    return n * k * m if None not in (n, k, m) and n * m > 1 else 0


def fits(node: Node) -> bool:
    """Whether a node is a product that may be joined with others."""
    return work(node) >= LEAST and not blas.large(node)


def sums(graph: Graph) -> set[Node]:
    """The sums over the few rows of a matrix that is also the right one of such a product: ones times that matrix.

    They read what the threads that multiply by it read.
    """
    right = {n.args[-1] for n in graph.nodes if fits(n)}
    return {n for n in graph.nodes if n.op == SUM and n.args[0] in right and _over_rows(n)}


def _over_rows(node: Node) -> bool:
    x, made = node.args[0].type, node.outputs[0].type
    return list(node.args[1] or ()) == [0] and not node.kwargs and x.dtype is made.dtype and 1 < x.shape[0] <= FEW  # fmt: skip


def worth(nodes: Sequence[Node]) -> bool:
    """Whether some products together are work for all threads."""
    return threading.available() and sum(map(work, nodes)) >= threading.PRODUCT


def order(graph: Graph, before: Mapping[Node, Sequence[Node]]) -> list[Node]:
    """The nodes of ``graph``, products that do not need each other together. ``before``: what a node has to stand behind besides."""
    if sum(map(fits, graph.nodes)) < 2:
        return list(graph.nodes)
    extra = sums(graph)
    out: list[Node] = []
    products: list[Node] = []
    waiting: list[Node] = []
    late: set[Node] = set()

    def flush() -> None:
        out.extend([*products, *waiting])
        for held in (products, waiting, late):
            held.clear()

    for node in graph.nodes:
        needed = (*(v.node for v in node.inputs), *node.control_inputs, *before.get(node, ()))
        needs = any(n in late for n in needed)
        if fits(node) or node in extra:
            if needs or len(products) == MOST:
                flush()
            products.append(node)
        elif needs:
            waiting.append(node)
        else:
            out.append(node)
            continue
        late.add(node)
        if len(waiting) == FAR:
            flush()
    flush()
    return out


class Part(NamedTuple):
    """One of the products that run as one: its ``task`` does some of its ``units`` of what ``block`` tells.

    ``fresh``: whether threads are to have whole products of its form, not the same share of each. ``right``: where its matrix on the right is.
    """

    task: str
    block: str
    units: int
    fresh: bool
    right: str


def fresh(low: Lowering, right: object) -> bool:
    """Whether the matrix on the right of a product was made just before, as the cotangents in a weight's gradient are.

    A thread that has a whole such product fetches it once from the threads that made it. One that comes from outside, as weights do,
    is in every thread's cache; there it is the left one that a thread should have made itself: each takes the same rows of each product.
    """
    while isinstance(right, Value) and right.node is not None and right.node.op in VIEWS:
        right = right.node.args[0]
    return isinstance(right, Value) and (right.node is not None or right in low.moving)


class Joint:
    """The products of a group while they are written: their parts, and what they ask before they start."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.kept: dict[looks.Whole, looks.Kept] = {}  # what is known of rows of zeros
        self._scans: list[Part] = []
        self._scanned: list[tuple[Sequence[followed.Rows] | None, int]] = []
        self._notes: list[str] = []

    def ask(self, task: str, block: str, units: int, scanned: Sequence[followed.Rows] | None, notes: str) -> None:  # fmt: skip
        """A task to be done before any product starts, for each of ``units`` rows, and the line of code that follows it.

        ``scanned``: what it reads, where it may be part of the task of a nest before it.
        """
        self._scans.append(Part(task, block, units, False, ""))
        self._scanned.append((scanned, units))
        self._notes.append(notes)

    def start(self, low: Lowering) -> None:
        """Write the calls."""
        nest = followed.taken(low, self._scanned) if self._scans else None
        if nest is None:
            _start(low, self._scans)
        else:
            first = Part(nest.task, nest.block, nest.units, False, "")
            _start(low, [first, *self._scans], grain=nest.grain)
        for line in self._notes:
            low.code.line(line)
        _start(low, self.parts, fetching=True)


@contextmanager
def together(low: Lowering) -> Iterator[None]:
    """Products that are written inside are called at the end, as one."""
    low.joint = joint = Joint()
    yield
    low.joint = None
    joint.start(low)


def _start(low: Lowering, parts: Sequence[Part], fetching: bool = False, grain: int = 1) -> None:
    """Write the call of some parts on all threads, ``grain`` units for each at least; ``fetching``: they take long enough for what comes next."""
    if not parts:
        return
    group = _alike(parts, _most(parts))
    items = ahead.taken(low, len(group) * parts[group[0]].units) if fetching else []
    alone = len(parts) == 1 and not items
    task, block, units = parts[0][:3] if alone else _joint(low, parts, group, items)
    threading.call(low, f"{task}_{len(low.globals)}", task, block, units, grain)


def _joint(
    low: Lowering, parts: Sequence[Part], group: list[int], items: list[ahead.Item]
) -> tuple[str, str, int]:
    """(task, block, units) of a task that does a share of each part, and fetches ``items`` while it does those of ``group``."""
    code, units = low.code, max(p.units for p in parts)
    places = [*(p.block for p in parts), *(x.pointer for x in items)]
    block = code.cell(f"[{len(places)} x ptr]")
    for i, place in enumerate(places):
        code.line(f"store ptr {place}, ptr {code.element('i64', block, str(i))}")
    inside = Code("j")
    inside.declares = code.declares
    given = [inside.do(f"load ptr, ptr {inside.element('i64', '%block', str(i))}") for i in range(len(places))]  # fmt: skip
    there = [x._replace(pointer=p) for x, p in zip(items, given[len(parts) :])]
    for i, part in enumerate(parts):
        begin, end = (_share(inside, parts, i, at, units) for at in ("%begin", "%end"))
        body = partial(_do, inside, part, given[i], begin, end)
        if there and i in group:
            each = partial(_with_a_piece, inside, part, given[i], there, group.index(i), len(group))
            body = partial(loop, inside, begin, end, 1, each)
        # There may be more threads than units of this part.
        only(inside, [f"icmp slt i64 {begin}, {end}"], body)
    inside.line("ret void")
    text = "\n".join(line for line in inside.lines if line)
    name = low.function("joint", f"(i64 %begin, i64 %end, ptr %block) #0 {{\n{text}\n}}\n")
    return name, block, units


def _do(code: Code, part: Part, block: str, begin: str, end: str) -> None:
    """Write some units of a part."""
    code.line(f"call void @{part.task}(i64 {begin}, i64 {end}, ptr {block})")


def _with_a_piece(code: Code, part: Part, block: str, items: Sequence[ahead.Item], number: int, count: int, unit: str) -> None:  # fmt: skip
    """Write one unit of a part, the ``number``-th of ``count`` alike, and the piece of ``items`` that is fetched before it."""
    piece = code.add(unit, str(number * part.units))
    ahead.fetch(code, items, piece, count * part.units)
    _do(code, part, block, unit, code.add(unit, "1"))


def _most(parts: Sequence[Part]) -> int:
    """The number of a part with most units, of those that threads have whole ones of where there are any."""
    return max(range(len(parts)), key=lambda i: (parts[i].fresh, parts[i].units))


def _alike(parts: Sequence[Part], number: int) -> list[int]:
    """The numbers of the parts that are given to threads together with one.

    They are in the order in which their right matrices come first, so that a thread has all that is done with one of these.
    """
    part, rights = parts[number], [p.right for p in parts]
    if not part.fresh:
        return [number]
    alike = [i for i, p in enumerate(parts) if p.task == part.task]
    return sorted(alike, key=lambda i: rights.index(parts[i].right))


def _share(code: Code, parts: Sequence[Part], number: int, at: str, units: int) -> str:
    """The unit of a part from which on a thread does nothing that begins, or ends, ``at`` one of all ``units``."""
    part, alike = parts[number], _alike(parts, number)
    total = code.multiply(at, len(alike) * part.units)
    place = code.do(f"udiv i64 {total}, {units}")
    if len(alike) == 1:
        return place
    place = code.add(place, str(-alike.index(number) * part.units))
    for bound, limit in (("smax", 0), ("smin", part.units)):
        code.declare(f"llvm.{bound}.i64", "i64 {}(i64, i64)")
        place = code.do(f"call i64 @llvm.{bound}.i64(i64 {place}, i64 {limit})")
    return place
