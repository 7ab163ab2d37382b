"""The graph: nodes in program order, values with types, regions as attributes.

``Graph``  inputs, nodes, outputs. Nodes stand in an order that is a legal execution.
``Node``   an op name, arguments, keyword arguments, output values, control inputs and the user's line. An
           argument is a ``Value``, a constant (number, string, dtype, device, None, ...), or a list or tuple
           of these. A region (``If``, ``While``, ...) holds its graphs under ``regions``.
``Value``  one output of a node, or a graph input (``node`` is None).

Regions take all they use as inputs: nothing refers to a value of another graph.
``If(pred, *xs)``      regions then, orelse: xs -> outputs.
``While(*state, *xs)`` regions cond: state+xs -> pred, and body: state+xs -> state; ``carried`` = len(state).
``Case(index, *xs)``   regions branch0..n: xs -> outputs; an index out of range takes the last branch.
``Call(*xs)``          region function; with a gradient of its own also gradient: xs+cotangents -> cotangents of xs[wrt].
``Try(*xs)``           regions body: xs -> outputs, and handler0..n: xs -> outputs, chosen by exception type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..errors import Location, VerifyError
from . import ops
from .types import Type


class Value:
    """What a node computes; ``type`` is one of ``types.Type``."""

    __slots__ = ("index", "node", "type")

    def __init__(self, type: Type, node: Node | None = None, index: int = 0):
        self.type, self.node, self.index = type, node, index

    def __repr__(self) -> str:
        return f"<value of {self.node.op if self.node else 'input'}: {self.type}>"


class Node:
    """One operation. ``grad`` is False for an op recorded while gradients were off."""

    __slots__ = ("args", "control_inputs", "grad", "kwargs", "location", "op", "outputs", "regions")

    def __init__(
        self,
        op: str,
        args: tuple = (),
        kwargs: dict[str, Any] | None = None,
        types: Iterable[Type] = (),
        *,
        regions: dict[str, Graph] | None = None,
        location: Location | None = None,
        grad: bool = True,
    ):
        self.op, self.args, self.kwargs = op, tuple(args), dict(kwargs or {})
        self.regions = dict(regions or {})
        self.outputs = [Value(t, self, i) for i, t in enumerate(types)]
        self.control_inputs: list[Node] = []
        self.location, self.grad = location, grad

    @property
    def inputs(self) -> list[Value]:
        """All values among the arguments, in order, repeated when used twice."""
        return list(values_in((self.args, self.kwargs)))

    def replace_inputs(self, substitute: Callable[[Value], Value]) -> None:
        """Put ``substitute(v)`` in the place of every value among the arguments."""
        self.args = map_values(substitute, self.args)
        self.kwargs = map_values(substitute, self.kwargs)

    def __repr__(self) -> str:
        return f"<node {self.op}>"


class Graph:
    """A function from inputs to outputs. ``name`` is shown; ``input_names`` label the inputs."""

    def __init__(self, name: str = "main"):
        self.name = name
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.outputs: list[Value] = []
        self.input_names: list[str] = []

    @property
    def control_outputs(self) -> list[Node]:
        """The nodes that must run though no output needs them."""
        return [n for n in self.nodes if not node_effects(n).removable]

    def __repr__(self) -> str:
        return f"<graph {self.name}: {len(self.nodes)} nodes>"


def values_in(tree: Any) -> Iterator[Value]:
    """The values among arguments, in order."""
    if isinstance(tree, Value):
        yield tree
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from values_in(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from values_in(item)


def map_values(function: Callable[[Value], Any], tree: Any) -> Any:
    """``tree`` with every value replaced by ``function(value)``."""
    if isinstance(tree, Value):
        return function(tree)
    if isinstance(tree, list):
        return [map_values(function, t) for t in tree]
    if isinstance(tree, tuple):
        return tuple(map_values(function, t) for t in tree)
    if isinstance(tree, dict):
        return {k: map_values(function, t) for k, t in tree.items()}
    return tree


def op_effects(op: str, args: tuple) -> ops.Effects:
    """The effects of an op without regions, given its arguments."""
    effects = ops.lookup(op).effects
    place = ops.FAILS_BY_VALUE.get(op)
    if place is None:
        return effects
    fails = len(args) > place and isinstance(args[place], Value)
    return ops.MAY_FAIL if fails else ops.PURE


def node_effects(node: Node) -> ops.Effects:
    """The effects of a node; those of a region op are the union of its graphs'."""
    if not node.regions:
        return op_effects(node.op, node.args)
    found = ops.PURE
    for name, graph in node.regions.items():
        if name != "gradient":  # it does not run with the node
            found = found | graph_effects(graph)
    positions = _argument_positions(node)
    return ops.Effects(
        found.random, found.io, found.may_fail, positions(found.reads), positions(found.writes)
    )


def _argument_positions(node: Node) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """From positions among a region's inputs to positions among the node's inputs, which leave constants out."""
    skip = len(node.args) - len(next(iter(node.regions.values())).inputs)
    places: dict[int, int] = {}
    for i, arg in enumerate(node.args):
        if isinstance(arg, Value):
            places[i - skip] = len(places)
    return lambda found: tuple(sorted({places[p] for p in found if p in places}))


def graph_effects(graph: Graph) -> ops.Effects:
    """The effects of running a graph; ``reads`` and ``writes`` are positions among its inputs."""
    position = {v: i for i, v in enumerate(graph.inputs)}
    total = ops.PURE
    for node in graph.nodes:
        e = node_effects(node)
        ins = node.inputs
        reads = tuple(position[ins[i]] for i in e.reads if ins[i] in position)
        writes = tuple(position[ins[i]] for i in e.writes if ins[i] in position)
        total = total | ops.Effects(e.random, e.io, e.may_fail, reads, writes)
    return ops.Effects(
        total.random,
        total.io,
        total.may_fail,
        tuple(sorted(set(total.reads))),
        tuple(sorted(set(total.writes))),
    )


def set_control_inputs(graph: Graph) -> None:
    """Compute control edges from effects: the automatic control dependencies of a graph.

    Per resource (an input that is written): a write waits for the reads since the last write and for
    that write; reads wait for the last write only. io and random are one resource each. A write or an
    io op also waits for every op before it that may fail, so a failed op leaves later writes undone.
    """
    last_write: dict[Any, Node] = {}
    reads: dict[Any, list[Node]] = {}
    failing: list[Node] = []
    for node in graph.nodes:
        for region in node.regions.values():
            set_control_inputs(region)
        e, ins = node_effects(node), node.inputs
        edges: dict[Node, None] = {}
        written = [ins[i] for i in e.writes]
        written += ["io"] * e.io + ["random"] * e.random
        for resource in (ins[i] for i in e.reads if ins[i] not in written):
            if resource in last_write:
                edges[last_write[resource]] = None
            reads.setdefault(resource, []).append(node)
        for resource in written:
            edges.update(dict.fromkeys(reads.pop(resource, [])))
            if resource in last_write:
                edges[last_write[resource]] = None
            last_write[resource] = node
        if written or e.may_fail:
            edges.update(dict.fromkeys(failing[-1:]))
        if e.may_fail:
            edges.update(
                dict.fromkeys(last_write[r] for r in last_write if last_write[r] is not node)
            )
            failing.append(node)
        order = {n: None for n in edges if n is not node}
        node.control_inputs = list(order)


def verify(graph: Graph) -> None:  # noqa: C901  a case for each kind
    """Raise VerifyError unless the graph is well formed, regions included."""
    known: set[Value] = set(graph.inputs)
    done: set[Node] = set()
    if len(known) != len(graph.inputs):
        raise VerifyError(f"{graph.name}: an input appears twice")
    for node in graph.nodes:
        if node.op not in ops.REGION_OPS and not ops.exists(node.op):
            raise VerifyError(f"{graph.name}: no such op: {node.op}")
        for value in node.inputs:
            if value not in known:
                raise VerifyError(
                    f"{graph.name}: {node.op} uses a value that is not defined before it"
                )
        for before in node.control_inputs:
            if before not in done:
                raise VerifyError(
                    f"{graph.name}: {node.op} has a control input that comes after it"
                )
        if node.op in ops.REGION_OPS:
            _verify_regions(graph, node)
        known.update(node.outputs)
        done.add(node)
    for value in graph.outputs:
        if value not in known:
            raise VerifyError(f"{graph.name}: an output is not defined")


def _verify_regions(graph: Graph, node: Node) -> None:
    skip = 1 if node.op in ("If", "Case") else 0
    count = len(node.args) - skip
    for name, region in node.regions.items():
        if name == "gradient":
            _verify_gradient(graph, node, region)
            continue
        if len(region.inputs) != count:
            raise VerifyError(
                f"{graph.name}: {node.op}.{name} takes {len(region.inputs)} inputs, not {count}"
            )
        wanted = 1 if name == "cond" else len(node.outputs)
        if len(region.outputs) != wanted:
            raise VerifyError(
                f"{graph.name}: {node.op}.{name} gives {len(region.outputs)} outputs, not {wanted}"
            )
        verify(region)


def _verify_gradient(graph: Graph, node: Node, region: Graph) -> None:
    takes, gives = len(node.args) + len(node.outputs), len(node.kwargs["wrt"])
    if (len(region.inputs), len(region.outputs)) != (takes, gives):
        raise VerifyError(
            f"{graph.name}: {node.op}.gradient does not take {takes} and give {gives}"
        )
    verify(region)


def prune(graph: Graph) -> None:
    """Remove nodes whose outputs nobody uses and that have no effect, in regions too."""
    used: set[Value] = set(graph.outputs)
    keep: list[Node] = []
    for node in reversed(graph.nodes):
        for region in node.regions.values():
            prune(region)
        needed = any(v in used for v in node.outputs) or not node_effects(node).removable
        if needed:
            keep.append(node)
            used.update(node.inputs)
    graph.nodes = keep[::-1]
    left = set(graph.nodes)
    for node in graph.nodes:
        node.control_inputs = [n for n in node.control_inputs if n in left]
