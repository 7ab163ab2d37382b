"""Which nodes of a graph run together, and in which order.

A group is one of: straight-line code on numbers and one-element tensors (``scalar``), one loop nest (``loop``: pointwise
ops of one shape, and reductions of that shape over the same dims), matrix products that do not need each other (``products``),
or a single node that is a thing of its own (``alone``: a branch, a loop, a small product). Groups run in order. A node goes into
the first group of its kind that stands behind all that it needs; inside a loop nest it may use what the same nest computes at
the same place.

Nodes are reordered freely but for reads and writes of variables, which keep the order of their control edges: native code has
no effects before its end.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..graph import uses
from ..graph.families import ALTERNATIVES
from ..graph.ir import Graph, Node, Value
from ..graph.ordering import node_effects
from ..graph.types import ListType, OptionalType, ScalarType, TensorType, is_open
from ..inference.memory_formats import RANKS
from ..kernels.creators import CREATORS
from ..kernels.gathers import GATHERS, sources
from ..kernels.pointwise import ROWS as POINTWISE
from ..kernels.reductions import REDUCERS
from . import chosen, joined, producers
from .views import VIEWS

R = TypeVar("R")
MOST = 300  # nodes in one loop nest: bounds the time that LLVM takes for it
# Elements from which on pointwise ops stay apart from a reduction, but for one of many short rows: so many rows are work
# for all threads, and a row of so many elements stays in the cache.
LARGE, ROWS, ROW = 1 << 15, 32, 1 << 16


# Ops that are neither pointwise nor reductions.
ALONE = frozenset(f"aten.{n}.default" for n in ["mm", "addmm", "bmm", "baddbmm", "mv", "dot"])
MOVING = frozenset(f"aten.{n}.default" for n in ["stack", "cat", "select_scatter", "slice_scatter"])  # fmt: skip


CLONE, CAT = "aten.clone.default", "aten.cat.default"
RESHAPES = frozenset(f"aten.{n}.default" for n in ["view", "_unsafe_view", "reshape"])
UPDATES = frozenset(["aten.select_scatter.default", "aten.slice_scatter.default"])
# Updates at positions that a tensor gives.
SCATTERS = frozenset(f"aten.{n}" for n in ["index_add.default", "index_copy.default", "index_fill.int_Scalar", "index_put.default",
                                           "scatter.src", "scatter.value", "scatter_add.default", "scatter_reduce.two"])  # fmt: skip
COUNTS = frozenset(["aten.bincount.default"])
LIST_UPDATES = frozenset(f"tg.list_{n}" for n in ["push", "pop", "insert", "set", "extend"])


@dataclass
class Group:
    """``shape`` and ``dims`` belong to loop nests: the space of the loops, and the reduced dims if any."""

    kind: str
    shape: tuple[int, ...] = ()
    dims: tuple[int, ...] | None = None
    nodes: list[Node] = field(default_factory=list)

    def takes(self, other: Group) -> bool:
        most = joined.MOST if self.kind == "products" else MOST
        if self.kind != other.kind or self.kind == "alone" or len(self.nodes) >= most:
            return False
        if self.shape != other.shape:
            return False
        if other.dims is None or self.dims is None:
            dims = self.dims if other.dims is None else other.dims
            return dims is None or known_numel(self.shape) < LARGE or short_rows(self.shape, dims)
        return self.dims == other.dims


def short_rows(shape: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    """Whether a reduction over ``dims`` is one of many rows, each contiguous and short enough to be read twice."""
    kept = len(shape) - len(dims)
    if sorted(dims) != list(range(kept, len(shape))):
        return False
    return known_numel(shape[:kept]) >= ROWS and known_numel(shape[kept:]) <= ROW


def known_numel(shape: tuple) -> int:
    """The number of elements; 0 where only a run knows it."""
    return 0 if None in shape else math.prod(shape)


def one_element(value: Value) -> bool:
    """Whether a value lives in a register: a number, or a tensor of one element."""
    if isinstance(value.type, ScalarType):
        return True
    return (
        isinstance(value.type, TensorType)
        and not value.type.dtype.is_complex
        and None not in value.type.shape
        and known_numel(value.type.shape) == 1
    )


def known(node: Node) -> bool:
    """Whether an op has a native form, as far as its name tells."""
    if node.regions or not node.op.startswith("aten."):
        return True
    if has_complex(node):
        return node.op in VIEWS
    tables = (POINTWISE, REDUCERS, CREATORS, GATHERS, VIEWS, ALONE, MOVING, SCATTERS, COUNTS)
    return any(node.op in table for table in tables) or chosen.fits(node)


def has_complex(node: Node) -> bool:
    """Whether a node takes or gives complex tensors, of which native code has views only."""
    return any(isinstance(v.type, TensorType) and v.type.dtype.is_complex for v in (*node.inputs, *node.outputs))  # fmt: skip


def used(graph: Graph) -> set[Value]:
    """The values that a node, or a result of a graph or region, is made of."""
    found = set(graph.outputs)
    for node in graph.nodes:
        found.update(node.inputs)
        for region in node.regions.values():
            found |= used(region)
    return found


def on_lists(node: Node) -> bool:
    """Whether an op is one of lists and optionals."""
    return node.op.startswith(("tg.list_", "tg.optional_", "tg.handle_"))


def place(node: Node) -> Group:
    """A group for ``node`` alone."""
    if node.op in ("tg.assign", "tg.assert"):
        return Group("scalar")
    if on_lists(node):
        return Group("alone")
    if not known(node):
        return Group("alone")
    if joined.fits(node):
        return Group("products")
    if (
        node.regions
        or not node.outputs
        or node.op in ALONE | MOVING | SCATTERS | COUNTS
        or chosen.fits(node)
    ):
        return Group("alone")
    if all(map(one_element, (*node.outputs, *node.inputs))):
        return Group("scalar")
    if node.op in VIEWS or node.op in CREATORS or node.op.startswith(("py.", "tg.")):
        return Group("scalar")
    if node.op in REDUCERS:
        row = REDUCERS[node.op]
        shape = node.args[row.space].type.shape
        return Group("loop", shape, row.dims(node, len(shape)))
    return Group("loop", node.outputs[0].type.shape)


def unseen_copies(graph: Graph) -> set[Node]:
    """The clones that only reshapes look at, as in a product of many dims: nobody sees whether there is a copy."""
    seen = set(graph.outputs)
    for node in graph.nodes:
        if node.op not in RESHAPES:
            seen.update(node.inputs)
    return {n for n in graph.nodes if n.op == CLONE and n.outputs[0] not in seen and n.kwargs.get("memory_format") not in RANKS}  # fmt: skip


def _once(function: Callable[[Graph], R]) -> Callable[[Graph], R]:
    """``function`` of a graph, found once for each inside ``remembering``."""

    @functools.wraps(function)
    def known(graph: Graph) -> R:
        memory = _memory.found
        if memory is None:
            return function(graph)
        key = function, graph
        if key not in memory:
            memory[key] = function(graph)
        return memory[key]

    return known


class _Memory(threading.local):
    found: dict[Any, Any] | None = None


_memory = _Memory()


@contextmanager
def remembering() -> Iterator[None]:
    """Inside, graphs stay as they are: what is found out about one is kept. Nobody may change what the functions return."""
    before, _memory.found = _memory.found, {}
    try:
        yield
    finally:
        _memory.found = before


@_once
def overwrites(graph: Graph) -> dict[Value, tuple[Value, list[Node]]]:
    """Updates of a part that may be made in the memory of what they update.

    result -> (base, the nodes that read the base before). The result may also be that of branches, each of which gives the
    base, or an update of it.
    """
    copies = unseen_copies(graph)
    root: dict[Value, Value] = {}
    users: dict[Value, list[Node]] = {}
    position = {n: i for i, n in enumerate(graph.nodes)}
    for node in graph.nodes:
        for r in dict.fromkeys(root.get(v, v) for v in node.inputs):
            users.setdefault(r, []).append(node)
        if node.inputs and (node.op in VIEWS or node in copies or node.op == "tg.identity"):
            first = node.inputs[0]
            root.update(dict.fromkeys(node.outputs, root.get(first, first)))
    kept = {root.get(v, v) for v in graph.outputs}
    out: dict[Value, tuple[Value, list[Node]]] = {}
    for node in graph.nodes:
        for result, base in _bases(node):
            others = [n for n in users[root.get(base, base)] if n is not node]
            last = all(position[n] < position[node] for n in others)
            once = appends(node) or sum(root.get(v, v) is base for v in node.inputs) == 1
            if base not in root and base not in kept and last and once:
                out[result] = base, others
    return out


def appends(node: Node) -> bool:
    """Whether a node makes a tensor longer whose size only the run knows. What it appends may be read where the tensor was before."""
    if node.op != CAT or None not in node.outputs[0].type.shape:
        return False
    base = node.args[0][0]
    return isinstance(base, Value) and None in base.type.shape


def _bases(node: Node) -> Iterable[tuple[Value, Value]]:
    """The outputs of a node that are updates, with what they update."""
    if node.op in UPDATES | SCATTERS | LIST_UPDATES:
        yield node.outputs[0], node.args[0]
    if appends(node):
        yield node.outputs[0], node.args[0][0]
    if node.op == "While":
        yield from _looped(node)
    if node.op not in ALTERNATIVES:
        return
    regions = list(node.regions.values())
    within = [overwrites(r) for r in regions]
    for k, result in enumerate(node.outputs):
        if not isinstance(result.type, (TensorType, ListType, OptionalType)) or one_element(result):
            continue
        ends = {_start(r, found, r.outputs[k]) for r, found in zip(regions, within)}
        base = node.args[1 + ends.pop()] if len(ends) == 1 and None not in ends else None
        if isinstance(base, Value) and any(r.outputs[k] in found for r, found in zip(regions, within)):  # fmt: skip
            yield result, base


def _looped(node: Node) -> Iterable[tuple[Value, Value]]:
    """The lists and growing tensors of a loop that each iteration changes, with those that it begins with."""
    body = node.regions["body"]
    for k, result in enumerate(node.outputs):
        grows = is_open(result.type)
        if (grows or isinstance(result.type, ListType)) and updated(body, k):
            yield result, node.args[k]


def updated(body: Graph, k: int) -> bool:
    """Whether a body's result is the input in its place with parts of it updated, each in the place of the one before."""
    value, result = body.inputs[k], body.outputs[k]
    found = overwrites(body)
    if body.outputs.count(result) > 1 or result not in found:
        return False
    while result in found:
        result = found[result][0]
    return result is value


def _start(region: Graph, found: dict[Value, tuple[Value, list[Node]]], v: Value) -> int | None:
    """The input of a region that ``v`` is, or is an update of."""
    while v in found:
        v = found[v][0]
    return region.inputs.index(v) if v in region.inputs else None


def _before_writes(graph: Graph) -> dict[Node, list[Node]]:
    """For the nodes that compute what a variable becomes: those that read what it was, and those that may fail.

    Behind all of these a new value can be computed in the memory of the old one.
    """
    made = {v: n for n in graph.nodes for v in n.outputs}
    last = {n.args[1]: n.args[0] for n in graph.nodes if n.op == "tg.assign"}
    wanted = {made[v]: r for v, r in last.items() if v in made}
    if not wanted:
        return {}
    out: dict[Node, list[Node]] = {}
    users: dict[Value, list[Node]] = {r: [] for r in last.values()}
    of: dict[Value, Value] = {r: r for r in users}
    failing: list[Node] = []
    for node in graph.nodes:
        if node in wanted:
            out[node] = [*users[wanted[node]], *failing]
        for r in {of[v] for v in node.inputs if v in of}:
            users[r].append(node)
            if node.op in VIEWS or node.op == "tg.read":
                of.update(dict.fromkeys(node.outputs, r))
        if node_effects(node).may_fail:
            failing.append(node)
    return out


@_once
def schedule(graph: Graph) -> list[Group]:
    """The groups of a graph, in the order in which they run."""
    before = _before_writes(graph)
    for result, (_, others) in overwrites(graph).items():
        before[result.node] = [*before.get(result.node, ()), *others]
    copies, sums = unseen_copies(graph), joined.sums(graph)
    made = _Schedule()
    for node in joined.order(graph, before):
        wanted = Group("scalar") if node in copies else Group("products") if node in sums else place(node)  # fmt: skip
        made.add(node, wanted, (*node.control_inputs, *before.get(node, ())))
    pinned = {n for nodes in before.values() for n in nodes}
    pinned.update(n for node in graph.nodes for n in node.control_inputs)
    return producers.moved(graph, made.groups, pinned, MOST)


@_once
def group_numbers(graph: Graph) -> dict[Node, int]:
    """The number of each node's group in ``schedule``."""
    return {n: i for i, group in enumerate(schedule(graph)) for n in group.nodes}


readers = _once(uses.readers)


class _Schedule:
    """The groups so far. ``ready``: the first group that may use a value; ``fused``: (the group that may use it itself, its shape)."""

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.ready: dict[Value, int] = {}
        self.fused: dict[Value, tuple[int, tuple]] = {}
        self.number: dict[Node, int] = {}

    def add(self, node: Node, wanted: Group, earlier: Iterable[Node]) -> None:
        """Put ``node`` into the first group like ``wanted`` behind ``earlier`` and what it needs, or into a new one."""
        groups = self.groups
        known = [self.number[n] for n in earlier if n in self.number]
        # products of a group run at once: what one has to follow is in a group before
        first = max((at + (groups[at].kind == wanted.kind == "products") for at in known), default=0)  # fmt: skip
        first, own = self._behind(node, wanted, first)
        # Two sizes that only a run knows may differ: such nodes join what they are computed from, and nothing else.
        joins = range(first, len(groups)) if None not in wanted.shape else dict.fromkeys(own)
        at = next((i for i in joins if i >= first and groups[i].takes(wanted)), len(groups))
        if at == len(groups):
            groups.append(wanted)
        group = groups[at]
        group.dims = wanted.dims if group.dims is None else group.dims
        group.nodes.append(node)
        self.number[node] = at
        self._note_outputs(node, wanted, at)

    def _behind(self, node: Node, wanted: Group, first: int) -> tuple[int, list[int]]:
        """(the first group that has all inputs at hand, the groups whose values the node may use in the group itself)."""
        elsewhere, own = sources(node), []
        for v in node.inputs:
            group, shape = self.fused.get(v, (-1, ()))
            fits = group >= 0 and self.groups[group].kind == wanted.kind and shape == wanted.shape
            if fits and v not in elsewhere:
                own.append(group)
                first = max(first, group)
            else:
                first = max(first, self.ready.get(v, 0))
        return first, own

    def _note_outputs(self, node: Node, wanted: Group, at: int) -> None:
        for v in node.outputs:
            self.ready[v] = at + 1
            if wanted.kind == "scalar":
                self.fused[v] = (at, ())
            elif wanted.kind == "loop" and v.type.shape == wanted.shape:
                self.fused[v] = (at, wanted.shape)
