"""What nodes do beside computing their outputs, and what follows from it: the order of nodes, and which may go.

Effects are columns of the op table (``ops.Effects``), made exact by a node's arguments; those of a node with regions are the union of its
graphs'. From them come the control inputs of nodes, and whether a node that nobody uses is removed.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import torch

from . import ops
from .counting import stays
from .families import ALTERNATIVES, CONJUNCTIONS, FAILURES
from .ir import Graph, Node, Value
from .memory_homes import Homes
from .types import SCALARS, ScalarType, TensorType, Type


def control_outputs(graph: Graph) -> list[Node]:
    """The nodes that must run though no output needs them."""
    return [n for n in graph.nodes if not node_effects(n).removable]


def op_effects(op: str, args: tuple) -> ops.Effects:
    """The effects of an op without regions, given its arguments."""
    row = ops.lookup(op)
    if not row.by_arguments:
        return row.effects
    if ops.divides(op):
        return row.failing if _divides_integers(args) else row.effects
    if op in ops.TO_INTEGER:  # NaN and infinities are no integers
        return row.sure if _whole(args[0]) else row.effects
    if op in ops.TO_REAL:  # texts and complex numbers may be none
        return row.sure if _real(args[0]) else row.effects
    place = ops.FAILS_BY_VALUE.get(op)
    if place is None or len(args) <= place:
        return row.effects
    fails = isinstance(args[place], Value) or not _allowed(op, args, args[place])
    return row.failing if fails else row.sure


def _allowed(op: str, args: tuple, constant: Any) -> bool:
    """Whether an op cannot fail with this constant in the place that decides."""
    if op.startswith("py."):
        return constant != 0
    shape, dim = args[0].type.shape, args[place_of_dim(op)]
    size = shape[dim] if isinstance(dim, int) and -len(shape) <= dim < len(shape) else None
    return size is not None and -size <= constant < size


def place_of_dim(op: str) -> int:
    """Where an op of ``FAILS_BY_VALUE`` on tensors has its dimension: before the index."""
    return ops.FAILS_BY_VALUE[op] - 1


def _divides_integers(args: tuple) -> bool:
    """Whether all that a division is given is integers, and the divisor may hold a zero."""
    if not isinstance(args[1], Value) and args[1] != 0:
        return False
    kinds = [a.type.dtype if isinstance(a, Value) else SCALARS[type(a)] for a in args[:2]]
    return not any(kind.is_floating_point for kind in kinds)


def _whole(a: Any) -> bool:
    """Whether an argument is surely one integer or bool."""
    if not isinstance(a, Value):
        return isinstance(a, int)
    return _real(a) and not a.type.dtype.is_floating_point


def _real(a: Any) -> bool:
    """Whether an argument is surely one number that is not complex."""
    if not isinstance(a, Value):
        return isinstance(a, (int, float))
    dtype = getattr(a.type, "dtype", None)
    one = isinstance(a.type, ScalarType) or getattr(a.type, "shape", None) == ()
    return one and isinstance(dtype, torch.dtype) and not dtype.is_complex


Known = dict[Graph, ops.Effects]  # what is known of regions that stay as they are meanwhile


def node_effects(node: Node, known: Known | None = None) -> ops.Effects:
    """The effects of a node; those of a region op are the union of its graphs'."""
    if not node.regions:
        found = op_effects(node.op, node.args)
        return found | ops.MAY_FAIL if node.unsure else found
    found = ops.PURE
    for name, graph in node.regions.items():
        if name != "gradient":  # it does not run with the node
            found = found | graph_effects(graph, known)
    if node.op == "While" and not surely_ends(node):
        found = found | ops.Effects(diverges=True)
    return found.at(_argument_positions(node))


def _argument_positions(node: Node) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """From positions among a region's inputs to positions among the node's inputs, which leave constants out."""
    skip = len(node.args) - len(next(iter(node.regions.values())).inputs)
    places: dict[int, int] = {}
    for i, arg in enumerate(node.args):
        if isinstance(arg, Value):
            places[i - skip] = len(places)
    return lambda found: tuple(sorted({places[p] for p in found if p in places}))


def graph_effects(graph: Graph, known: Known | None = None) -> ops.Effects:
    """The effects of running a graph; ``reads`` and ``writes`` are positions among its inputs.

    ``known`` is looked at and filled: with it, a walk that asks at every level asks each region once.
    """
    if known is not None and graph in known:
        return known[graph]
    effects = [node_effects(n, known) for n in graph.nodes]
    homes = Homes(graph, effects)
    position = {v: i for i, v in enumerate(graph.inputs)}
    every: dict[int, ops.Effects] = {}  # most are the rows' own, which are few
    for node, e in zip(graph.nodes, effects):
        if e.reads or e.writes or e.overwrites:
            inputs = node.inputs
            places = [position.get(v) for v in inputs]
            taken = {homes.of(inputs[i]) for i in e.overwrites}
            over = tuple(i for v, i in position.items() if homes.of(v) in taken) if taken else ()
            e = e.with_places(_translated(places, e.reads), _translated(places, e.writes), over)
        every[id(e)] = e
    total = functools.reduce(operator.or_, every.values(), ops.PURE)
    total = total.at(lambda found: tuple(sorted(set(found))))
    if known is not None:
        known[graph] = total
    return total


# By region, with how many nodes it had then.
Written = MutableMapping[Graph, tuple[int, frozenset[Value]]]


def written(graph: Graph, known: Written) -> frozenset[Value]:
    """The inputs of a graph that running it writes. ``known`` is looked at and filled: regions that are recorded already are gone over once."""
    found = known.get(graph)
    if found is None or found[0] != len(graph.nodes):
        made = {v for node in graph.nodes for v in _written_by(node, known)}
        found = known[graph] = len(graph.nodes), frozenset(made.intersection(graph.inputs))
    return found[1]


def _written_by(node: Node, known: Written) -> Iterator[Any]:
    if not node.regions:
        places = ops.lookup(node.op).effects.writes
        if places:
            inputs = node.inputs
            yield from (inputs[i] for i in places)
    for name, region in node.regions.items():
        # A gradient does not run with the node.
        inner = written(region, known) if name != "gradient" else ()
        if inner:
            given = node.args[len(node.args) - len(region.inputs) :]
            yield from (a for a, v in zip(given, region.inputs) if v in inner)


def _translated(places: list[int | None], found: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(p for p in (places[i] for i in found) if p is not None)


_STEPS = {"py.lt": ("py.add", 1), "py.le": ("py.add", 1), "py.gt": ("py.sub", 1), "py.ge": ("py.sub", 1),
          "aten.lt.Tensor": ("aten.add.Tensor", 1), "aten.lt.Scalar": ("aten.add.Tensor", 1)}  # fmt: skip


_CHOICES = (*ALTERNATIVES, "Try")


def always_fails(graph: Graph) -> bool:
    """Whether no run comes to the end of a graph: it raises, or has a construct of which every region does."""
    return any(
        node.op in FAILURES
        or (node.op in _CHOICES and all(map(always_fails, node.regions.values())))
        for node in graph.nodes
    )


def surely_ends(node: Node) -> bool:
    """Whether a While ends, as far as can be told easily: it counts up, or down, to a bound that stays.

    Loops inside it are not looked at.
    """
    cond, body, carried = node.regions["cond"], node.regions["body"], node.kwargs["carried"]
    place = {v: i for i, v in enumerate(cond.inputs)}

    def fixed(x: Any) -> bool:
        if not isinstance(x, Value):
            return type(x) is int
        if not _is_integer(x.type):
            return False
        return stays(node, place.get(x, -1))

    def ends(test: Value) -> bool:
        made = test.node
        if made is None:
            return False
        if made.op in CONJUNCTIONS:
            return any(ends(v) for v in made.inputs)
        if made.op == "aten.scalar_tensor.default" and made.inputs:
            return ends(made.inputs[0])
        if made.op not in _STEPS or not isinstance(made.args[0], Value) or not fixed(made.args[1]):
            return False
        step, least = _STEPS[made.op]
        i = place.get(made.args[0], carried)
        return i < carried and _steps(body.outputs[i], body.inputs[i], step, least)

    return ends(cond.outputs[0])


def _is_integer(kind: Type) -> bool:
    return isinstance(kind, (TensorType, ScalarType)) and kind.dtype == torch.int64


def _steps(after: Value, before: Value, op: str, least: int) -> bool:
    """Whether ``after`` is ``before`` plus (minus) a whole number of at least ``least``; tensors: exactly that."""
    made = after.node
    if made is None or made.op != op or made.kwargs or made.args[0] is not before:
        return False
    size, kind = made.args[1], before.type
    if type(size) is not int or not _is_integer(kind):
        return False
    return size == least if isinstance(kind, TensorType) else size >= least


def set_control_inputs(graph: Graph, known: Known | None = None, late: bool = False) -> None:
    """Compute control edges from effects: the automatic control dependencies of a graph.

    Per resource (an input that is written): a write waits for the reads since the last write and for
    that write; reads wait for the last write only. io and random are one resource each. A write or an
    io op also waits for every op before it that may fail, so a failed op leaves later writes undone.
    Memory of a value that an op overwrites is a resource too, which every use of the value reads.

    ``late``: for code that writes nothing before its end, and gives up where an op fails. Only io and random draws wait there for what may fail.
    """
    known = {} if known is None else known
    effects = [node_effects(n, known) for n in graph.nodes]
    homes, seen = Homes(graph, effects), _Seen(late)
    for node, e in zip(graph.nodes, effects):
        for region in node.regions.values():
            set_control_inputs(region, known, late)
        edges = seen.edges(node, e, list(map(homes.of, node.inputs)), homes.tracked)
        node.control_inputs = [n for n in edges if n is not node]


class _Seen:
    """What the nodes so far did: who wrote each resource last, who read it since, and which may fail."""

    def __init__(self, late: bool) -> None:
        self.late = late
        self.last_write: dict[Any, Node] = {}
        self.reads: dict[Any, list[Node]] = {}
        self.failing: list[Node] = []
        self.since: dict[
            Any, Node
        ] = {}  # who wrote each resource last, behind the last that may fail

    def edges(
        self, node: Node, e: ops.Effects, homes: list[Value], tracked: set[Value]
    ) -> dict[Node, None]:
        """The nodes that the next node waits for; ``homes``: the memory of each of its inputs."""
        edges: dict[Node, None] = {}
        written: list[Any] = [homes[i] for i in (*e.writes, *e.overwrites)]
        written += ["io"] * e.io + ["random"] * e.random
        read = [homes[i] for i in e.reads] + [v for v in homes if v in tracked]
        for resource in dict.fromkeys(r for r in read if r not in written):
            if resource in self.last_write:
                edges[self.last_write[resource]] = None
            self.reads.setdefault(resource, []).append(node)
        for resource in written:
            edges.update(dict.fromkeys(self.reads.pop(resource, [])))
            if resource in self.last_write:
                edges[self.last_write[resource]] = None
            self.last_write[resource] = self.since[resource] = node
        if self.late:
            if e.io or e.random:
                edges.update(dict.fromkeys(self.failing))
                self.failing.clear()
        elif written or e.may_fail:
            edges.update(dict.fromkeys(self.failing[-1:]))
        if e.may_fail and self.late:
            self.failing.append(node)
        elif e.may_fail:
            # The one before that may fail waits for what was written before it.
            edges.update(dict.fromkeys(n for n in self.since.values() if n is not node))
            self.since.clear()
            self.failing.append(node)
        return edges


def keep_writes(before: list[Node], graph: Graph) -> None:
    """Let the nodes of ``graph`` tell of the writes of those that are gone: the next one each, or the graph itself."""
    left, pending = set(graph.nodes), list[Value]()
    for node in before:
        if node not in left:
            pending += node.over
        elif pending:
            node.over, pending = (*pending, *node.over), []
    graph.over = (*pending, *graph.over)


def writes_over(node: Node) -> bool:
    """Whether something is written over in the regions of a node."""
    return any(
        r.over or any(n.over or writes_over(n) for n in r.nodes) for r in node.regions.values()
    )


def prune(graph: Graph, known: Known | None = None) -> None:
    """Remove nodes whose outputs nobody uses and that have no effect, in regions too."""
    known = {} if known is None else known
    for node in graph.nodes:
        for region in node.regions.values():
            prune(region, known)
    _prune_nodes(graph, lambda node: node_effects(node, known).removable)


def prune_region(graph: Graph) -> None:
    """The same of a region that was recorded just now, whose own regions were pruned when they were.

    Nodes with regions that write over something stay: what that is is known of what is there yet only.
    """
    _prune_nodes(graph, lambda node: not writes_over(node) and node_effects(node).removable)


def _prune_nodes(graph: Graph, removable: Callable[[Node], bool]) -> None:
    used: set[Value] = set(graph.outputs)
    keep: list[Node] = []
    for node in reversed(graph.nodes):
        if any(v in used for v in node.outputs) or not removable(node):
            keep.append(node)
            used.update(node.inputs)
    before, graph.nodes = graph.nodes, keep[::-1]
    if len(before) > len(graph.nodes):
        keep_writes(before, graph)
    left = set(graph.nodes)
    for node in graph.nodes:
        node.control_inputs = [n for n in node.control_inputs if n in left]
