"""Views of the caller's tensors that a loop's body writes: ``v = x[1:]`` before the loop, ``x.mul_(2)`` and ``v.sum()`` in it.

A tensor of the caller is no state of a loop: it is read and written by effects. A view of it from before the loop has a value from then, which
the first trace of the body takes. The write makes that value old, so the next trace reads the view anew in each iteration.
"""

from __future__ import annotations

from typing import Any

from ..graph.ir import Value
from ..graph.ops import overload
from ..graph.ordering import written
from ..inference.infer import facts_of
from ..symbols.funcgraph import FuncGraph, Storage


def taken(body: FuncGraph, others: list[FuncGraph], known: set[Value]) -> bool:
    """Whether a body that writes tensors of the caller, or one of ``others`` beside it, has the value of a view of them from before the loop.

    ``known``: values that were written to such a tensor, and which another trace has taken again: they are those of other tensors too.
    """
    writes = written(body.graph, body.root.written)
    if not writes or body.outer is None:
        return False
    changed = {k for k, v in body.captures.items() if isinstance(k, Storage) and v in writes}
    values = {k for g in (body, *others) for k in g.captures if isinstance(k, Value)}
    found = {v: _shows(v, body.outer, changed) for v in values} if changed else {}
    given = {v for v, how in found.items() if how == "written"} - known
    known |= given
    return bool(given) or "read" in found.values()


def _shows(value: Value, graph: FuncGraph, changed: set[Storage]) -> str | None:
    """How a value of a graph is that of one of these tensors of the caller, itself or through views: it was "read" or "written" there."""
    around = _around(graph)
    stands: dict[Any, Any] = {v: k for g in around for k, v in g.captures.items()}
    given = {n.args[1] for g in around for n in g.graph.nodes if n.op == "tg.assign" and stands.get(n.args[0]) in changed}  # fmt: skip
    while value not in given:
        node = value.node
        if node is None:
            value = stands.get(value)
            if not isinstance(value, Value):
                return None
        elif node.op == "tg.read":
            return "read" if stands.get(node.args[0]) in changed else None
        elif node.op.startswith("aten.") and facts_of(overload(node.op)).view:
            value = node.args[0]
        else:
            return None
    return "written"


def _around(graph: FuncGraph | None) -> list[FuncGraph]:
    found = []
    while graph is not None:
        found.append(graph)
        graph = graph.outer
    return found
