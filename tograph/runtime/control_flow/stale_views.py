"""Views of the caller's tensors that a loop's body writes: ``v = x[1:]`` before the loop, ``x.mul_(2)`` and ``v.sum()`` in it.

A tensor of the caller is no state of a loop: it is read and written by effects. A view of it from before the loop has a value from then, which
the first trace of the body takes. The write makes that value old, so the next trace reads the view anew in each iteration.
"""

from __future__ import annotations

from typing import Any

from ..graph.ir import Node, Value
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
    """How a value of a graph is that of one of these tensors of the caller, itself or through views: it was "read" or "written" there.

    One that a staged construct picks counts as written: whether the next trace reads it anew is not told by what it is made of.
    """
    around = _around(graph)
    stands: dict[Any, Any] = {v: k for g in around for k, v in g.captures.items()}
    given = {n.args[1] for g in around for n in g.graph.nodes if n.op == "tg.assign" and stands.get(n.args[0]) in changed}  # fmt: skip
    if value in given:
        return "written"
    todo, seen, picked = [value], {value}, False
    while todo:
        node = todo[-1].node
        value = todo.pop()
        if node is not None and node.op == "tg.read":
            if _origin(node.args[0], stands) in changed:
                return "written" if picked else "read"
            continue
        before = _before(value, stands)
        picked = picked or len(before) > 1
        if any(v in given for v in before):
            return "written"
        todo += [v for v in before if v not in seen]
        seen.update(before)
    return None


def _before(value: Value, stands: dict[Any, Any]) -> list[Value]:
    """The values that one is, or shows, or is picked from."""
    node = value.node
    if node is None:
        found = stands.get(value)
        return [found] if isinstance(found, Value) else []
    if node.op == "tg.choose":
        return [v for v in node.args[1] if isinstance(v, Value)]
    if node.regions:
        return _picked(value, node, stands)
    if node.op.startswith("aten.") and facts_of(overload(node.op)).view:
        return [node.args[0]]
    return []


def _picked(value: Value, node: Node, stands: dict[Any, Any]) -> list[Value]:
    """What the regions of a node give for one of its outputs; their inputs stand for what the node takes."""
    for region in node.regions.values():
        given = node.args[len(node.args) - len(region.inputs) :]
        stands.update((a, b) for a, b in zip(region.inputs, given) if isinstance(b, Value))
    made = [r for name, r in node.regions.items() if name != "cond"]
    found = [r.outputs[value.index] for r in made if len(r.outputs) > value.index]
    if node.op == "While":
        found.append(node.args[value.index])
    return [v for v in found if isinstance(v, Value) and v.type == value.type]


def _origin(x: Any, stands: dict[Any, Any]) -> Any:
    """The tensor of the caller that a graph's input stands for."""
    while isinstance(x, Value) and x in stands:
        x = stands[x]
    return x


def _around(graph: FuncGraph | None) -> list[FuncGraph]:
    found = []
    while graph is not None:
        found.append(graph)
        graph = graph.outer
    return found
