"""Whether the iterations of a Python loop record the same: the evidence on which what is left of it is staged.

Two iterations record the same where each node of one has, at its place in the other, a node of the same op with results of the same types, which takes
each input from the same place: out of its own iteration, of one as many iterations back, or from before the loop. Numbers among the arguments may
differ where the op takes one that the run knows as well, but not exponents: ``x ** 2`` and ``x ** 3`` are computed in other ways, with other last digits.

So a loop over layers (each has weights of its own), one whose tensors grow, and one whose gradients go back through all iterations before (each has more nodes
than the last one) do not repeat themselves.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.opaque import OpaqueObject
from ..graph.ops import overload
from ..graph.rewrite import constant_key
from ..graph.types import ListType, TensorType, Type
from ..symbols.funcgraph import current_graph

SEEN = 16  # iterations that are looked at: what differs for longer is not waited for
_EXPONENTS = frozenset(["aten.pow.Tensor_Scalar", "aten.pow.Scalar", "aten.float_power.Tensor_Scalar", "aten.float_power.Scalar", "py.pow"])  # fmt: skip
_NUMBERS = frozenset(["number", "Optional[number]", "Tensor"])
# Beside these: the rows that an iteration reads and writes.
_PLACES = frozenset([("aten.select.int", "index"), ("aten.select_scatter.default", "index"), ("aten.slice.Tensor", "start"), ("aten.slice.Tensor", "end"),
    ("aten.slice_scatter.default", "start"), ("aten.slice_scatter.default", "end")])  # fmt: skip


# What a run may refuse, by the op or by the error that it raises.
_ASKS = frozenset(["py.error_text"])  # of an exception that was made with more than one text
_REFUSALS = frozenset(["tg.GradientError", "tg.NoGradientError", "tg.NoIterationError", "tg.StagingError"])  # fmt: skip


def asks_for_python(graph: Graph, differentiable: bool) -> bool:
    """Whether what a graph does with a loop of Python's that was staged could be seen outside.

    A run could be refused which needs no refusal in Python, or do what it need not; and several results with a gradient that are items of lists of the graph have one node of torch's
    autograd, where those of Python's loops have one each.
    """
    if any(map(_is_seen, all_nodes(graph))):
        return True
    if not differentiable:
        return False
    lists = [v for v in graph.outputs if isinstance(v.type, ListType) and _is_floating(v.type.element)]  # fmt: skip
    items = {v for v in graph.outputs if v.node is not None and v.node.op == "tg.list_get" and _is_floating(v.type)}  # fmt: skip
    return bool(lists) or len(items) > 1


def _is_seen(node: Node) -> bool:
    if node.op in ("tg.assert", "tg.raise"):
        return node.args[node.op == "tg.assert"] in _REFUSALS
    return node.op in _ASKS


def _is_floating(kind: Type) -> bool:
    if isinstance(kind, ListType):
        return _is_floating(kind.element)
    return isinstance(kind, TensorType) and (kind.dtype.is_floating_point or kind.dtype.is_complex)


class Repeats:
    """The iterations of one loop, as far as they were recorded. ``size``: the nodes of the last one, with those of regions."""

    def __init__(self) -> None:
        self.graph = current_graph().graph
        self.begun = len(self.graph.nodes)
        self.places: dict[Node, tuple[int, int]] = {}  # iteration and place in it
        self.count, self.size = 0, 0
        self.last: list[_Row] = []

    def ended(self) -> bool:
        """One more iteration has been recorded: whether it did what the one before it did."""
        if self.count == SEEN:
            return False
        nodes = self.graph.nodes[self.begun :]
        # counted from the end: the first one begins with reads of what is outside
        self.places.update((n, (self.count, i - len(nodes))) for i, n in enumerate(nodes))
        rows = [self._row(n) for n in nodes]
        alike = self.count > 1 and bool(rows) and len(rows) == len(self.last)
        alike = alike and all(map(_alike, rows, self.last))
        self.begun, self.last, self.count = len(self.graph.nodes), rows, self.count + 1
        self.size = sum(1 + len(row.regions) for row in rows)
        return alike

    def _row(self, node: Node) -> _Row:
        positional, named = _varying(node.op)
        given = () if node.regions else node.args
        args = [_like(a, i < len(positional) and positional[i]) for i, a in enumerate(given)]
        kwargs = [(k, _like(a, k in named)) for k, a in node.kwargs.items()]
        regions = [n.op for r in node.regions.values() for n in all_nodes(r)]
        types = [v.type for v in node.outputs]
        uses = [(v, self._back(v)) for v in _used(node)]
        return _Row((node.op, args, kwargs, types, node.grad), regions, uses)

    def _back(self, v: Value) -> tuple[int, int, int] | None:
        """How many iterations ago a value was computed, and by which output of which node there; None before the loop."""
        at = self.places.get(v.node) if v.node is not None else None
        return None if at is None else (self.count - at[0], at[1], v.index)


class _Row(NamedTuple):
    """A node as it is compared: ``what`` it does, the ops of its ``regions``, and its ``uses``: each input, and where it stands in the iterations."""

    what: tuple[Any, ...]
    regions: list[str]
    uses: list[tuple[Value, tuple[int, int, int] | None]]


def _alike(a: _Row, b: _Row) -> bool:
    return (
        a.what == b.what
        and a.regions == b.regions
        and len(a.uses) == len(b.uses)
        and all(v is w or (i is not None and i == j) for (v, i), (w, j) in zip(a.uses, b.uses))
    )


def _used(node: Node) -> list[Value]:
    """The inputs that are computed with. Branches also take what memory held that they write over, for gradients that have saved it."""
    if node.op not in ("If", "Case"):
        return node.inputs
    used: set[int] = set()
    for region in node.regions.values():
        read = {*region.outputs, *(v for n in region.nodes for v in n.inputs)}
        used.update(i for i, v in enumerate(region.inputs) if v in read)
    return [node.inputs[0], *(v for i, v in enumerate(node.inputs[1:]) if i in used)]


def _like(x: Any, varies: bool) -> Any:
    """What an argument has in common with its like in another iteration."""
    if type(x) is Value:
        return x.type
    if isinstance(x, (list, tuple)):
        return (type(x), *(_like(y, varies) for y in x))
    if isinstance(x, OpaqueObject):
        return type(x)  # the places of the caller's that a commit writes
    return type(x) if varies and type(x) in (int, float) else constant_key(x)


@functools.cache
def _varying(op: str) -> tuple[tuple[bool, ...], frozenset[str]]:
    """Which arguments of an op may be numbers of the run, by position and by name."""
    if op in _EXPONENTS:
        return (), frozenset()
    if not op.startswith(("aten.", "op.")):
        return (op.startswith("py."),) * 4, frozenset()
    given = overload(op)._schema.arguments
    fits = [str(a.type) in _NUMBERS or (op, a.name) in _PLACES for a in given]
    return tuple(fits), frozenset(a.name for a, fit in zip(given, fits) if fit)
