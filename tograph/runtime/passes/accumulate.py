"""Sums that a loop carries: what an iteration adds in one place is added there.

The gradient of ``x[t]`` is a tensor as large as ``x`` with zeros in all other places. To add it to the sum that a loop carries takes a pass over
all of ``x`` in each iteration, so the loop would take time with the square of its length. Here the sum is carried into the place: ``sum + (zeros but for
v at i)`` becomes ``sum with sum[i] + v at i``, which code writes in place. A branch takes the sum in and gives it out again, as it is where it adds zeros; a
loop within the loop begins with it in the place of zeros.

Only states that nothing but their own sum looks at. The order in which the terms of one iteration are added changes, as does
nothing else: a sum of floats has to begin with zeros, and then has no -0.0 that adding zeros would change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from ..graph.families import ALTERNATIVES
from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import add_input, passed
from ..graph.types import TensorType
from ..graph.uses import use_counts

ADD = "aten.add.Tensor"
ZEROS = ("aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default")

Uses = Counter[Value]
Place = Callable[["_Writer", Value, Node], Value]


def accumulate(graph: Graph) -> Graph:
    """``graph`` with loops that add in place."""
    for node in graph.nodes:
        for region in node.regions.values():
            accumulate(region)
        if node.op == "While":
            uses, tested = use_counts(node.regions["body"]), use_counts(node.regions["cond"])
            for i in range(node.kwargs["carried"]):
                if _accumulate(node, i, uses, tested):
                    uses = use_counts(node.regions["body"])
    return graph


def _accumulate(loop: Node, i: int, uses: Uses, tested: Uses) -> bool:
    """Let the body add what it adds to state ``i`` to the state itself; False where nothing changes.

    ``uses``, ``tested``: what the body uses, and the condition.
    """
    body, cond = loop.regions["body"], loop.regions["cond"]
    terms = _terms(body.outputs[i], uses)
    state = body.inputs[i]
    if terms.count(state) != 1 or uses[state] != 1 or cond.inputs[i] in tested:
        return False
    if not _no_sign(passed(loop)[i], state):
        return False
    rest = [v for v in terms if v is not state]
    if not any(_taken(v, uses) for v in rest):
        return False
    body.outputs[i] = _Writer(body, uses).sum(state, rest, body.outputs[i])
    return True


def _no_sign(start: Any, state: Value) -> bool:
    """Whether adding zeros changes nothing in a sum that begins with ``start``."""
    kind = state.type
    return _zeros(start) or not (isinstance(kind, TensorType) and (kind.dtype.is_floating_point or kind.dtype.is_complex))  # fmt: skip


def _terms(v: Value, uses: Uses) -> list[Value]:
    """The terms of a sum of which nothing else uses a part."""
    out, todo = [], [v]
    while todo:
        v = todo.pop()
        node = v.node
        if node is not None and _adds(node) and uses[v] == 1:
            todo += reversed(node.args)
        else:
            out.append(v)
    return out


def _adds(node: Node) -> bool:
    """Whether a node adds two tensors of the type of their sum."""
    if node.op != ADD or node.kwargs or node.over or len(node.args) != 2:
        return False
    return all(isinstance(a, Value) and a.type == node.outputs[0].type for a in node.args)


def _taken(v: Value, uses: Uses) -> bool:
    """Whether a term is added in less than a pass over all of it where it takes the sum in."""
    node = v.node
    if node is None or node.over or uses[v] != 1 or not isinstance(v.type, TensorType):
        return False
    if node.op in ALTERNATIVES:
        return any(_taken_in(region, region.outputs[v.index]) for region in node.regions.values())
    if node.op == "While":
        return _begins_with_zeros(node, v)
    return node.op in ZEROS or (node.op in PLACES and FITS.get(node.op, _fits)(node))


def _taken_in(region: Graph, v: Value) -> bool:
    uses = use_counts(region)
    return any(_taken(term, uses) for term in _terms(v, uses))


def _begins_with_zeros(loop: Node, v: Value) -> bool:
    """Whether an output of a loop is the sum of what its iterations add to zeros."""
    start = passed(loop)[v.index]
    if not isinstance(start, Value) or start.node is None or start.node.op not in ZEROS or start.type != v.type:  # fmt: skip
        return False
    body, cond = loop.regions["body"], loop.regions["cond"]
    uses, state = use_counts(body), body.inputs[v.index]
    once = uses[state] == 1 and cond.inputs[v.index] not in use_counts(cond)
    return once and state in _terms(body.outputs[v.index], uses)


class _Writer:
    """Adds terms to a sum in one graph, where the old nodes end."""

    def __init__(self, graph: Graph, uses: Uses):
        self.graph, self.uses = graph, uses
        self.gone: set[Node] = set()
        self.nodes: list[Node] = []

    def sum(self, start: Value, terms: list[Value], old: Value) -> Value:
        """``start`` and all terms; ``old`` is the value that was their sum."""
        self._leave(old, {start, *terms})
        taken = [v for v in terms if _taken(v, self.uses)]
        total = self._in_regions(start, [v for v in taken if v.node.regions])
        for v in terms:
            if v not in taken:
                total = self.add(ADD, (total, v), v.type, old.node)
        for v in taken:
            if not v.node.regions:
                self.gone.add(v.node)
                if v.node.op not in ZEROS:
                    total = PLACES[v.node.op](self, total, v.node)
        self.graph.nodes = [*(n for n in self.graph.nodes if n not in self.gone), *self.nodes]
        return total

    def add(self, op: str, args: tuple, kind: Any, like: Node | None) -> Value:
        """What a new node gives."""
        location, grad = (None, True) if like is None else (like.location, like.grad)
        node = Node(op, args, None, (kind,), location=location, grad=grad)
        self.nodes.append(node)
        return node.outputs[0]

    def _leave(self, v: Value, terms: set[Value]) -> None:
        """Leave out the nodes that added."""
        todo = [v]
        while todo:
            v = todo.pop()
            if v not in terms and v.node is not None:
                self.gone.add(v.node)
                todo += v.node.inputs

    def _in_regions(self, total: Value, terms: list[Value]) -> Value:
        """The sum behind the nodes with regions that give terms, each of which takes it in."""
        order = {node: i for i, node in enumerate(self.graph.nodes)}
        for v in sorted(terms, key=lambda v: (order[v.node], v.index)):
            node, i = v.node, v.index
            if node.op == "While":
                node.args = (*node.args[:i], total, *node.args[i + 1 :])
            else:
                for name, inside in add_input(node, total).items():
                    _add_inside(node.regions[name], i, inside)
            total = v
        return total


def _add_inside(region: Graph, i: int, start: Value) -> None:
    """Let a branch give the sum of ``start`` and what it gave."""
    uses, old = use_counts(region), region.outputs[i]
    region.outputs[i] = _Writer(region, uses).sum(start, _terms(old, uses), old)


# ---- places


def _zeros(x: Any) -> bool:
    return isinstance(x, Value) and x.node is not None and x.node.op in ZEROS


def _fits(node: Node) -> bool:
    """Whether the sizes that a node is given are those of what it gives: of all but these, so it is."""
    return not node.kwargs


FITS: dict[str, Callable[[Node], bool]] = {
    "aten.slice_backward.default": lambda n: not n.kwargs and n.args[5] == 1,
    "aten.embedding_dense_backward.default": lambda n: not n.kwargs and n.args[4] is False,
    "aten.index_put.default": lambda n: _zeros(n.args[0]) and n.args[3:] == (True,),
    "aten.index_add.default": lambda n: _zeros(n.args[0]) and not n.kwargs,
    "aten.scatter_add.default": lambda n: _zeros(n.args[0]) and not n.kwargs,
}  # fmt: skip


def _select(w: _Writer, total: Value, node: Node) -> Value:
    return _there(w, total, node, "aten.select.int", "aten.select_scatter.default")


def _slice(w: _Writer, total: Value, node: Node) -> Value:
    return _there(w, total, node, "aten.slice.Tensor", "aten.slice_scatter.default")


def _there(w: _Writer, total: Value, node: Node, look: str, write: str) -> Value:
    """Add to a part of the sum. The arguments of such a node: what is added, the sizes of the whole, and where."""
    v, _, *where = node.args
    part = w.add(look, (total, *where), v.type, node)
    return w.add(write, (total, w.add(ADD, (part, v), v.type, node), *where), total.type, node)


def _rows(w: _Writer, total: Value, node: Node) -> Value:
    v, rows, _, padding, _ = node.args
    if padding >= 0:
        v = _without_padding(w, v, rows, padding, node)
    return w.add("aten.index_put.default", (total, [rows], v, True), total.type, node)


def _without_padding(w: _Writer, v: Value, rows: Value, padding: int, node: Node) -> Value:
    """``v``, zeros in the rows that are those of the padding."""
    truth = TensorType(torch.bool, rows.type.shape, rows.type.device)
    wide = TensorType(torch.bool, (*rows.type.shape, 1), rows.type.device)
    there = w.add("aten.ne.Scalar", (rows, padding), truth, node)
    there = w.add("aten.unsqueeze.default", (there, -1), wide, node)
    return w.add("aten.where.ScalarOther", (there, v, 0), v.type, node)


def _first(w: _Writer, total: Value, node: Node) -> Value:
    """The same op with the sum in the place of zeros."""
    return w.add(node.op, (total, *node.args[1:]), total.type, node)


PLACES: dict[str, Place] = {
    "aten.select_backward.default": _select,
    "aten.slice_backward.default": _slice,
    "aten.embedding_dense_backward.default": _rows,
    "aten.index_put.default": _first,
    "aten.index_add.default": _first,
    "aten.scatter_add.default": _first,
}
