"""What the next iteration of a loop takes out of lists comes into the near cache while the products of this one run.

The gradient of a loop takes what the forward pass has saved, item by item: megabytes, which wait in a far cache. A loop nest that reads them does
little else than wait; products that run together (``joined``) need the processor, not the memory. So before each unit of these a thread
fetches a *piece* of the next items: few enough lines that nothing else waits for them. Pieces are in the order of the units, so a thread
gets the same share of an item that it has of a loop nest over its rows.

Only items at an index that moves by the same number in each iteration are fetched, of lists that the loop does not change. Fetching is a hint:
behind either end of a list it harms nothing, so nothing is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..graph.ir import Graph, Node, Value
from .code import SIZE, Code
from .values import Mem, Operand, numel

if TYPE_CHECKING:
    from .lower import Lowering

LINE = 64  # bytes
LEAST = 1 << 12  # bytes of an item that is worth it
MOST = 32  # lines of a piece
CACHE = 2  # of LLVM's numbers for how near: the second, which products leave room in
_GET, _STEPS = "tg.list_get", {"py.add": 1, "py.sub": -1}


class Item(NamedTuple):
    """The ``lines`` from ``pointer`` on, which the next iteration reads."""

    pointer: str
    lines: int


def steps(body: Graph) -> dict[Node, int]:
    """The nodes of a loop's body that take an item out of a list which stays as it is, each with the items from it to that of the next iteration."""
    fixed = {v for i, v in enumerate(body.inputs) if i >= len(body.outputs) or body.outputs[i] is v}
    moved: dict[Value, int] = {}
    for before, after in zip(body.inputs, body.outputs):
        step = _step(before, after)
        if step:
            moved[before] = moved[after] = step
    taken = [n for n in body.nodes if n.op == _GET and n.args[0] in fixed]
    return {n: moved[n.args[1]] for n in taken if n.args[1] in moved}


def _step(before: Value, after: Value) -> int:
    """What an iteration adds to a counter; 0 where it is none."""
    node = after.node
    if node is None or node.op not in _STEPS or node.args[0] is not before:
        return 0
    return _STEPS[node.op] * node.args[1] if type(node.args[1]) is int else 0


def note(low: Lowering, node: Node, found: Operand) -> None:
    """Remember the item behind ``found``, which a node took out of a list."""
    step = low.steps.get(node)
    if step is None or not isinstance(found, Mem) or found.open or not found.packed:
        return
    nbytes = numel(found.size) * SIZE[found.dtype]
    if nbytes >= LEAST:
        next_ = low.code.do(f"getelementptr i8, ptr {found.pointer}, i64 {step * nbytes}")
        low.coming.append(Item(next_, -(-nbytes // LINE)))


def taken(low: Lowering, pieces: int) -> list[Item]:
    """The items that so many pieces can fetch; each is fetched once."""
    found, room = [], MOST
    for item in low.coming:
        room -= _lines(item, pieces)
        if room >= 0:
            found.append(item)
    low.coming.clear()
    return found


def _lines(item: Item, pieces: int) -> int:
    return -(-item.lines // pieces)


def fetch(code: Code, items: Sequence[Item], piece: str, pieces: int) -> None:
    """Write what fetches a piece; the items are at the pointers in ``code``."""
    code.declare("llvm.prefetch.p0", "void {}(ptr, i32, i32, i32)")
    for item in items:
        first = code.do(f"udiv i64 {code.multiply(piece, item.lines)}, {pieces}")
        for i in range(_lines(item, pieces)):
            place = code.do(f"getelementptr i8, ptr {item.pointer}, i64 {code.multiply(code.add(first, str(i)), LINE)}")  # fmt: skip
            code.line(f"call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 {CACHE}, i32 1)")
