"""Parts of a concatenation, computed where they belong.

A loop nest writes what it computes for a concatenation straight into the memory of the concatenation; a part that others need as
well, or that belongs to several concatenations, is written to each of its places from the register. So the gates of a recurrent
cell, whose gradients are split and joined in every step, are written once, and not again by a copy.

Such memory is taken before the first of the parts is computed, and held until the concatenation has its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ..graph.ir import Graph, Node, Value
from ..graph.types import TensorType
from ..kernels.pointwise import ROWS as POINTWISE
from .groups import CAT, CLONE, Group, known_numel
from .values import Mem

if TYPE_CHECKING:
    from .lower import Lowering

SHORTEST = 32  # elements in a row of a part, where rows of other parts stand between them


class Part(NamedTuple):
    """A part of a concatenation, by its number."""

    node: Node
    number: int


class Parts:
    """The concatenations that are being written.

    ``also``: further places of values, which the loop nest that computes them writes. ``stored``: the parts that are in place.
    """

    def __init__(self, low: Lowering):
        self.low = low
        self.also: dict[Value, dict[Part, Mem]] = {}
        self.stored: set[Part] = set()
        self._made: dict[Node, Mem] = {}
        self._first: dict[Part, tuple[Value, Mem]] = {}

    def planned(self, graph: Graph, groups: Sequence[Group], apart: set[Value]) -> dict[Value, list[Part]]:  # fmt: skip
        """The parts that loop nests of ``graph`` compute; ``apart``: values that have to be in memory of their own."""
        home = {v: g for g in groups if g.kind == "loop" for n in g.nodes for v in n.outputs}
        out: dict[Value, list[Part]] = {}
        for node in graph.nodes:
            if node.op != CAT or node.outputs[0] in apart or not _suits(node):
                continue
            for i, v in enumerate(node.args[0]):
                if v in home and v.node.op in POINTWISE and v.node.op != CLONE and _long(node, v):
                    out.setdefault(v, []).append(Part(node, i))
        return out

    def prepare(self, group: Group, planned: dict[Value, list[Part]], shared: set[Value]) -> None:
        """Give the parts that ``group`` computes their places; values in ``shared`` keep one of their own as well."""
        low = self.low
        if group.kind != "loop" or not all(low.sizes.inferred(n) for n in group.nodes):
            return
        for v in [v for n in group.nodes for v in n.outputs if v in planned]:
            places = {p: self._place(p) for p in planned[v]}
            if v not in shared and v not in low.dests:
                first = next(iter(places))
                low.dests[v] = places.pop(first)
                self._first[first] = v, low.dests[v]
            if places:
                self.also[v] = places

    def settle(self) -> None:
        """Note which parts the group that was written has put where they belong."""
        for part, (v, place) in self._first.items():
            self.low.dests.pop(v, None)
            if getattr(self.low.env.get(v), "pointer", None) == place.pointer:
                self.stored.add(part)
        self._first.clear()
        self.also.clear()

    def take(self, node: Node) -> Mem | None:
        """The memory of a concatenation some parts of which were given places."""
        return self._made.get(node)

    def finish(self, node: Node) -> None:
        """The concatenation has its name, which holds its memory from now on."""
        made = self._made.pop(node, None)
        if made is not None:
            self.low.arena.release(made.owners)

    def _place(self, part: Part) -> Mem:
        low, node = self.low, part.node
        out = self._made.get(node)
        if out is None:
            out = self._made[node] = low.target(node.outputs[0])
            low.arena.hold(out.owners)
        d = _dim(node)
        before = sum(v.type.shape[d] for v in node.args[0][: part.number])
        pointer = low.code.element(out.dtype, out.pointer, str(before * out.stride[d]))
        return replace(
            out, pointer=pointer, size=tuple(node.args[0][part.number].type.shape), place=""
        )


def _dim(node: Node) -> int:
    return (node.args[1] if len(node.args) > 1 else 0) % len(node.outputs[0].type.shape)


def _suits(node: Node) -> bool:
    """Whether a concatenation converts nothing and has sizes that are known."""
    kind = node.outputs[0].type
    parts = [v.type for v in node.args[0]]
    alike = all(isinstance(t, TensorType) and t.dtype == kind.dtype and len(t.shape) == len(kind.shape) for t in parts)  # fmt: skip
    return alike and None not in kind.shape and not any(None in t.shape for t in parts)


def _long(node: Node, v: Value) -> bool:
    """Whether the rows of a part are long enough to be written one by one."""
    d, shape = _dim(node), v.type.shape
    return known_numel(shape) > 1 and (
        known_numel(shape[:d]) == 1 or known_numel(shape[d:]) >= SHORTEST
    )
