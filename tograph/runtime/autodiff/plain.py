"""What has no history while tracing, but was computed of leaves that regions made and may not give: ``if c: s = leaf(x) * 3``, then ``s.requires_grad``.

Torch's engine knows nothing of such a leaf, so the run tells whether a tensor has such a history. A gradient by it comes to leaves that nobody has: there is nothing to
compute. Where a region gives the leaf as well, its ``.grad`` is not followed, and that is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ...errors import GradientError
from ..gradients import optional_grads
from ..graph.ir import Node, Value, all_nodes
from ..graph.types import BOOL, ListType
from ..library import grads
from ..symbols.carrier import differentiable
from ..symbols.funcgraph import FuncGraph, Ref, current_graph, user_location
from ..symbols.symbolic import SymTensor, value_of
from .item_leaves import is_leaf
from .own_leaves import OwnLeaves
from .paths import LEAF, Terms, Way, Ways, needed_for, ways_within


def own(x: Any) -> Way:
    """Whether a tensor without a history here was computed of leaves that regions made, or is one."""
    here = current_graph()
    if not (here.root.leaves or here.root.left_leaves) or x.became_ is not None:
        return False
    return lead_to_own([value_of(x, here)], here)


def lead_to_own(
    ends: Sequence[Value], graph: FuncGraph, leaves: Collection[Value] | None = None
) -> Way:
    """Whether one of these values of a graph was computed of such a leaf."""
    made = OwnLeaves(graph)
    leaves = made.leaves if leaves is None else leaves
    terms = Terms(graph.graph, leaves=leaves, before=made.before)
    needed = needed_for(graph.graph, ends)
    known: dict[Value, Ways] = {}
    for key, inner in list(graph.captures.items()) if graph.outer is not None else ():
        if inner in needed and differentiable(inner.type):
            way = lead_to_own([graph.arguments[key]], graph.outer, leaves)
            way = graph.resolve(Ref(way, graph.outer)) if isinstance(way, Value) else way
            known[inner] = {LEAF: way} if way is not False else {}
    found = ways_within(terms, needed, known)
    return terms.any(found.get(v, {}).get(LEAF, False) for v in ends)


def own_leaf(x: Any) -> Way:
    """Whether such a tensor is a leaf that a region made."""
    value, graph = _home(value_of(x, current_graph()), current_graph())
    if value.node is None or not value.node.regions:
        return False
    flag = is_leaf(value, graph)
    return current_graph().resolve(Ref(flag, graph)) if isinstance(flag, Value) else flag


def _home(v: Value, graph: FuncGraph) -> tuple[Value, FuncGraph]:
    """A value where a node gives it, and the graph of that."""
    key = next((k for k, inner in graph.captures.items() if inner is v), None)
    if key is None or graph.outer is None:
        return v, graph
    return _home(graph.arguments[key], graph.outer)


def check_own(x: Any) -> None:
    """An error for a gradient by a tensor where a region gives a leaf that it was computed of, and that is not followed."""
    here = current_graph()
    v = value_of(x, here) if here.root.unfollowed else None
    found = set(_given(v, here)) if v is not None else set()
    if v is None or not found:
        return
    inside = {n for node in found for r in node.regions.values() for n in all_nodes(r)}
    leaves = frozenset(y for y in OwnLeaves(here).leaves if y.node in inside)
    way = lead_to_own([v], here, leaves)
    if way is True:
        raise GradientError(_GIVEN, user_location())
    if way is not False:
        optional_grads.check(here.emit("py.not", way, type=BOOL), "tg.GradientError", _GIVEN)


def note_lists(outs: Sequence[Any]) -> None:
    """Note a gradient that may come to leaves which regions made by way of lists: their ``.grad`` is not followed (``item_leaves``)."""
    here = current_graph()
    root = here.root
    if root.graded_at is None and (root.leaves or root.left_leaves):
        values = [value_of(o, here) for o in outs if isinstance(o, SymTensor)]
        if any(isinstance(v.type, ListType) for v in needed_for(here.graph, values)):
            root.graded_at = (user_location(),)


_GIVEN = (
    "a gradient is taken of what a staged branch or loop computed of a leaf that it makes on some of its paths, and gives too: it would not come to the leaf. "
    "Take the gradient there, or make the leaf on each path."
)


def _given(v: Value, graph: FuncGraph) -> Iterator[Node]:
    """The staged constructs that gave what a value was computed of, beside a leaf that is not followed."""
    needed = needed_for(graph.graph, [v])
    yield from (x.node for x in graph.root.unfollowed & needed if x.node is not None)
    if graph.outer is not None:
        for key in [k for k, inner in graph.captures.items() if inner in needed]:
            yield from _given(graph.arguments[key], graph.outer)


grads.NOTE_LISTS = note_lists
grads.OWN, grads.OWN_LEAF, grads.CHECK_OWN = own, own_leaf, check_own
