"""Which nodes become one kernel: maximal groups of one graph, chosen in one walk.

A group has a *space*: the shape of its loops, and the dims of it that reductions fold (its row). A node joins the group of
one of its operands, or a group that reads the same values, when

* its own space is the group's, and at most one set of dims is folded; or
* it works on the folded values of the group only (what follows a reduction, once for each row); or
* the group has no row, nothing else uses what it computes, and computing it at the node's points repeats little.

Views and constants belong to no group: each group that reads through them takes a copy, so that a view whose value is
needed elsewhere still is a view. A group never contains both ends of a path that leaves it: it is one step of the schedule.
Control edges are edges of these paths, and an op with an effect is never in a group.

What a group needs to be worth a kernel is one function, ``pays``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..graph.ir import Graph, Node, Value, values_in
from ..graph.ops import REGION_OPS
from ..graph.ordering import node_effects
from ..graph.types import DTYPE_NAMES, ScalarType, TensorType, Type, is_open
from ..graph.uses import users
from .beside import BESIDE, MOST, TENSORS
from .build import Region, expressible
from .creators import CREATORS
from .gathers import PLACED
from .loop_ir import ITEM_SIZES
from .reductions import REDUCERS
from .views import ITEM, VIEWS

MAX_NODES = 96  # of one kernel: bounds the time to compile it
MIN_POINTS = 8192  # below this, calling the kernel from Python costs more than it saves
CHEAP_NODES = 4
OPEN_GROUPS = (
    48  # the newest groups, which nodes may still join: keeps the walk linear in the graph's length
)
COSTLY_OPS = frozenset(
    f"aten.{n}.default" for n in ["exp", "log", "tanh", "erf", "sigmoid", "silu", "gelu", "sin", "cos", "softplus", "expm1", "log1p", "mish", "elu", "atan2", "exp2", "log2", "log10", "gelu_backward", "silu_backward", "_softmax", "_log_softmax"]
)  # fmt: skip

_THROUGH = {*VIEWS, ITEM}
Shape = tuple[int | None, ...]


@dataclass(eq=False)
class Group:
    """Nodes that will be one kernel. ``row`` is None until a reduction joins."""

    space: Shape
    row: tuple[int, ...] | None
    nodes: list[Node] = field(default_factory=list)
    costly: bool = False
    merged: Group | None = None

    def found(self) -> Group:
        """The group that this one has become part of."""
        g = self
        while g.merged is not None:
            g = g.merged
        return g

    def reduced(self) -> set[Shape]:
        """The shapes of folded values, with and without the folded dims."""
        if self.row is None:
            return set()
        kept = tuple(n for d, n in enumerate(self.space) if d not in self.row)
        return {kept, tuple(1 if d in self.row else n for d, n in enumerate(self.space))}


def numel(shape: Shape) -> int | None:
    """The number of elements, or None when a dim is known only at run time."""
    return None if None in shape else math.prod(shape)


def plain_type(kind: Type) -> bool:
    """Whether a kernel can hold a value of this type."""
    if isinstance(kind, ScalarType):
        return True
    return isinstance(kind, TensorType) and kind.device.startswith(("cpu", "cuda")) and DTYPE_NAMES[kind.dtype] in ITEM_SIZES  # fmt: skip


def devices(values: Iterable[Value]) -> set[str]:
    """The devices of the tensors among ``values``."""
    return {v.type.device for v in values if isinstance(v.type, TensorType)}


def placed(node: Node) -> bool:
    """Whether a node reads elements at places that follow from its own, on a GPU: native code has other ways (``native.groups``)."""
    if node.op not in PLACED and node.op not in BESIDE:
        return False
    kinds = [v.type for v in node.outputs if isinstance(v.type, TensorType)]
    small = node.op in PLACED or (len(node.args[0]) <= TENSORS and all(0 < (numel(k.shape) or 0) <= MOST for k in kinds))  # fmt: skip
    return small and all(k.device.startswith("cuda") for k in kinds)


def fusible(node: Node) -> bool:
    """Whether a node may be part of a kernel."""
    if node.op in REGION_OPS or not node.outputs or not (expressible(node.op) or placed(node)):
        return False
    if not all(isinstance(v.type, TensorType) for v in node.outputs):
        return False
    values = (*node.inputs, *node.outputs)
    # A kernel is compiled for its sizes: one that sees another size at every call would be compiled at every call.
    known = not any(is_open(v.type) for v in values)
    typed = known and all(plain_type(v.type) for v in values) and len(devices(values)) == 1
    return typed and node_effects(node).pure and not node.control_inputs


def transparent(node: Node) -> bool:
    """Whether a node is a view or a constant, which groups copy instead of own."""
    if node.op in CREATORS:
        return fusible(node) and not node.inputs
    if node.op == ITEM:
        source = node.args[0].node
        return fusible(node) and (source is None or source.op not in VIEWS)
    numbers = values_in((node.args[1:], node.kwargs))
    return node.op in VIEWS and fusible(node) and next(numbers, None) is None


def space_of(node: Node) -> tuple[Shape, tuple[int, ...] | None]:
    """(shape of the loops that compute a node, dims that it folds or None)."""
    row = REDUCERS.get(node.op)
    if row is None:
        return node.outputs[0].type.shape, None
    shape = node.args[row.space].type.shape
    return shape, row.dims(node, len(shape)) or None


class _Walk:
    def __init__(self, graph: Graph):
        self.graph = graph
        self.group: dict[Node, Group] = {}
        self.through: dict[Node, frozenset[Group]] = {}
        self.users = users(graph)
        self.readers: dict[Value, Group] = {}
        self.open: dict[Group, None] = {}

    def run(self) -> list[Group]:
        for node in self.graph.nodes:
            if fusible(node) and not transparent(node):
                self._place(node)
            self._note(node)
        return list(dict.fromkeys(self.group.values()))

    def sources(self, node: Node) -> list[Value]:
        """The operands of a node, seen through views; constants left out."""
        out: list[Value] = []
        for v in node.inputs:
            while v.node is not None and v.node.op in _THROUGH and transparent(v.node):
                if v.node.op == ITEM:
                    out.append(v.node.args[2])
                v = v.node.args[0]
            if v.node is None or not transparent(v.node):
                out.append(v)
        return out

    def _candidates(self, node: Node) -> list[Group]:
        found: dict[Group, None] = {}
        for v in self.sources(node):
            if v.node in self.group:
                found[self.group[v.node]] = None
            elif v in self.readers:
                found[self.readers[v].found()] = None
        return [g for g in found if g in self.open]

    def _place(self, node: Node) -> None:
        space, row = space_of(node)
        mine = Group(space, row, [node], node.op in COSTLY_OPS)
        self.group[node] = mine
        self.open[mine] = None
        for other in self._candidates(node):
            mine = self.group[node]
            if other is not mine and self._joins(other, mine):
                self._join(other, mine, node)
        for v in self.sources(node):
            self.readers[v] = self.group[node]
        while len(self.open) > OPEN_GROUPS:
            del self.open[next(iter(self.open))]

    def _joins(self, other: Group, mine: Group) -> bool:
        if len(other.nodes) + len(mine.nodes) > MAX_NODES or self._cyclic(other, mine):
            return False
        if devices(other.nodes[0].outputs) != devices(mine.nodes[0].outputs):
            return False
        if other.space == mine.space:
            return other.row is None or mine.row is None or other.row == mine.row
        if mine.row is None and mine.space in other.reduced():
            return True
        if other.row is not None or not self._owned(other, mine):
            return False
        return self._repeats_little(other, mine)

    def _owned(self, other: Group, mine: Group) -> bool:
        """Whether all uses of what ``other`` computes are in the two groups, views in between."""
        inside = {*other.nodes, *mine.nodes}
        stack = [v for n in other.nodes for v in n.outputs]
        while stack:
            for user in self.users.get(stack.pop(), []):
                if user in inside:
                    continue
                if user is None or not transparent(user):
                    return False
                stack.extend(user.outputs)
        return True

    def _repeats_little(self, other: Group, mine: Group) -> bool:
        small, large = numel(other.space), numel(mine.space)
        if small is None or large is None:
            return False
        if small >= large:
            return small == large
        return not other.costly and len(other.nodes) <= CHEAP_NODES

    def _cyclic(self, a: Group, b: Group) -> bool:
        """Whether a path leaves one group and comes back to the other, as far as is known here."""
        return self._comes_back(a, b) or self._comes_back(b, a)

    def _comes_back(self, start: Group, end: Group) -> bool:
        for node in end.nodes:
            for n in self._outside(node, start, end):
                if any(g.found() is start for g in self.through.get(n, ())):
                    return True
        return False

    def _outside(self, node: Node, a: Group, b: Group) -> Iterable[Node]:
        for v in self.sources(node):
            if v.node is not None and self.group.get(v.node) not in (a, b):
                yield v.node

    def _join(self, other: Group, mine: Group, node: Node) -> None:
        keep = other.space if mine.space in other.reduced() else mine.space
        row = other.row if mine.row is None else mine.row
        merged = Group(keep, row, [*other.nodes, *mine.nodes], other.costly or mine.costly)
        for old in (other, mine):
            old.merged = merged
            self.open.pop(old, None)
        self.open[merged] = None
        for n in merged.nodes:
            self.group[n] = merged

    def _note(self, node: Node) -> None:
        """Remember which groups lie before a node."""
        found: set[Group] = set()
        before = [v.node for v in node.inputs if v.node is not None] + node.control_inputs
        for n in before:
            found.update(g.found() for g in self.through.get(n, ()))
            if n in self.group:
                found.add(self.group[n])
        self.through[node] = frozenset(g for g in found if g in self.open)


def pays(group: Group) -> bool:
    """Whether a kernel is worth its compilation and call: large enough, and saving passes over memory."""
    points = numel(group.space)
    small = points is not None and points < MIN_POINTS
    # Elsewhere a kernel costs what an op costs.
    if small and devices(group.nodes[0].outputs) == {"cpu"}:
        return False
    return len(group.nodes) > 1 or group.costly


def _region(walk: _Walk, group: Group, position: dict[Node, int]) -> Region:
    """The group with the views and constants that it reads through."""
    members = set(group.nodes)
    taken = dict.fromkeys(group.nodes)
    stack = list(group.nodes)
    while stack:
        for v in stack.pop().inputs:
            n = v.node
            if n is not None and n not in taken and transparent(n):
                taken[n] = None
                stack.append(n)
    nodes = sorted(taken, key=position.__getitem__)
    outputs = [
        v
        for n in nodes
        if n in members
        for v in n.outputs
        if any(
            u not in members and not _inner_view(walk, u, members) for u in walk.users.get(v, [])
        )
    ]
    return Region(nodes, outputs, frozenset(n for n in nodes if n not in members))


def _inner_view(walk: _Walk, user: Node | None, members: set[Node]) -> bool:
    """Whether a use is a view that only the group looks through."""
    if user is None or not transparent(user):
        return False
    return all(
        u in members or _inner_view(walk, u, members)
        for v in user.outputs
        for u in walk.users.get(v, [])
    )


def fuse(graph: Graph, worth=pays) -> list[Region]:
    """The regions of one graph (not of the graphs in its nodes), in program order."""
    walk = _Walk(graph)
    position = {n: i for i, n in enumerate(graph.nodes)}
    groups = [g for g in walk.run() if worth(g)]
    regions = [_region(walk, g, position) for g in groups]
    return [r for r in regions if r.outputs]
