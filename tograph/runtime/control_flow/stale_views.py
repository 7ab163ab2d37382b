"""Views of the caller's tensors that a loop's body writes: ``v = x[1:]`` before the loop, ``x.mul_(2)`` and ``v.sum()`` in it.

A tensor of the caller is no state of a loop: it is read and written by effects. A view of it from before the loop has a value from then, which
the first trace of the body takes. The write makes that value old, so the next trace reads the view anew in each iteration.
"""

from __future__ import annotations

from ..graph.ir import Value
from ..graph.ops import overload
from ..graph.ordering import written
from ..inference.infer import facts_of
from ..symbols.funcgraph import FuncGraph, Storage


def taken(body: FuncGraph, others: list[FuncGraph]) -> bool:
    """Whether a body that writes tensors of the caller, or one of ``others`` beside it, has the value of a view of them from before the loop."""
    writes = written(body.graph, body.root.written)
    if not writes or body.outer is None:
        return False
    changed = {k for k, v in body.captures.items() if isinstance(k, Storage) and v in writes}
    values = {k for g in (body, *others) for k in g.captures if isinstance(k, Value)}
    return bool(changed) and any(_read_of(v, body.outer) in changed for v in values)


def _read_of(value: Value, graph: FuncGraph) -> Storage | None:
    """The tensor of the caller that a value of a graph is read from, itself or through views."""
    found: FuncGraph | None = graph
    while found is not None:
        node = value.node
        outer = {v: k for k, v in found.captures.items()}
        if node is None:
            key = outer.get(value)
            if not isinstance(key, Value):
                return None
            value, found = key, found.outer
        elif node.op == "tg.read":
            key = outer.get(node.args[0])
            return key if isinstance(key, Storage) else None
        elif node.op.startswith("aten.") and facts_of(overload(node.op)).view:
            value = node.args[0]
        else:
            return None
    return None
