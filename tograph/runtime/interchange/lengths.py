"""How long the lists of a loop become: the loop run for the lengths alone.

Model. Every list is a number, its length; what is read from a list is unknown. Nodes that the lengths do not need
go, and with them effects. If something unknown is left, the lengths depend on what is in the lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import InterchangeError
from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.ops import OpaqueObject
from ..graph.ordering import node_effects
from ..graph.rewrite import splice
from ..graph.types import INT, ListType, TensorType, Type
from ..passes.prune import prune
from .expansion import Expansion, Parts

BOUND = "State the most items that it has: to_fx(list_capacity=N)."
UNKNOWN = OpaqueObject(None, "unknown")


class Lengths(Expansion):
    """See the module."""

    def split(self, kind: Type) -> list[Type] | None:
        return [INT] if isinstance(kind, ListType) else None

    def number(self, op: str, *args: Any, type: Type = INT) -> Any:
        return self.emit(op, *args, type=type)


def count_rows(e: Expansion, node: Node, places: Sequence[int]) -> list[Value]:
    """Emit the loop for the lengths alone; the most items that the lists at ``places`` of its state have between iterations."""
    node_inputs = list(dict.fromkeys(node.inputs))
    graph = Graph("lengths")
    graph.inputs = [Value(INT if isinstance(v.type, ListType) else v.type) for v in node_inputs]
    known = dict(zip(node_inputs, graph.inputs))
    args = [known[a] if isinstance(a, Value) else a for a in node.args]
    cond, body = (Lengths(node.regions[n], e.system).run() for n in ("cond", "body"))
    count = node.kwargs["carried"]
    for _ in places:
        start, peak = Value(INT), Value(INT)
        cond.made.inputs.insert(count, start)
        body.made.inputs.insert(count, peak)
    peaks = body.made.inputs[count : count + len(places)]
    highest = [body.emit("py.max", p, body.parts[body.source.outputs[i]][0], type=INT) for p, i in zip(peaks, places)]  # fmt: skip
    cond.finish(), body.finish()
    body.made.outputs += highest
    args[count:count] = [args[i] for i in places]
    kinds = [INT if isinstance(v.type, ListType) else v.type for v in node.outputs] + [INT] * len(places)  # fmt: skip
    loop = Node("While", args, {"carried": count + len(places)}, kinds, regions={"cond": cond.made, "body": body.made},
                location=node.location)  # fmt: skip
    graph.nodes = [loop]
    graph.outputs = loop.outputs[count:]
    _slim(graph)
    what = _left(graph)
    if what:
        raise InterchangeError(
            e.system, f"a list whose length depends on {what}", node.location, BOUND
        )
    given = [_given(e, v) for v in node_inputs]
    taken = [g for g, v in zip(given, known.values())]
    return splice(graph, taken, e.made.nodes, False)


def _given(e: Expansion, old: Value) -> Any:
    """What stands for an argument of the loop: the length of a list."""
    return e.parts[old][1] if isinstance(old.type, ListType) else e.parts[old][0]


def _slim(graph: Graph) -> None:
    """Only what the outputs need, effects or not."""
    for _ in range(4):
        _strip(graph)
        prune(graph)


def _strip(graph: Graph) -> None:
    used, keep = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if used.isdisjoint(node.outputs):
            continue
        for region in node.regions.values():
            _strip(region)
        keep.append(node)
        used.update(node.inputs)
    graph.nodes = keep[::-1]


def _left(graph: Graph) -> str:
    """What a run for the lengths alone cannot do, in words."""
    for node in all_nodes(graph):
        if node.args and node.args[0] is UNKNOWN:
            return "what is in the list"
        if node_effects(node).random and not node.regions:
            return "random numbers"
    return ""


def slice_bounds(e: Any, n: Any, start: Any, stop: Any, step: Any) -> tuple[Any, Any, Any]:
    """The first place, the length and the step of a slice of ``n`` items, as Python counts them."""
    step = 1 if step is None else step
    if isinstance(step, Value):
        raise e.refuse("a slice of a list with a step that only the run knows")
    low, high = (0, n) if step > 0 else (-1, e.number("py.sub", n, 1))

    def end(x: Any, default: Any) -> Any:
        if x is None:
            return default
        if isinstance(x, Value) and isinstance(x.type, TensorType):
            x = e.emit("py.int", x, type=INT)
        if not (isinstance(x, int) and x >= 0):
            moved = e.number("py.add", x, n)
            below = x < 0 if isinstance(x, int) else e.number("py.lt", x, 0)
            x = moved if below is True else x if below is False else e.emit("py.select", below, moved, x, type=INT)  # fmt: skip
        return e.number("py.min", e.number("py.max", x, low), high)

    first = end(start, low if step > 0 else high)
    last = end(stop, high if step > 0 else low)
    if start is None and stop is None and step == 1:
        return 0, n, 1
    return first, e.emit("py.range_length", first, last, step, type=INT), step


# ---- rules


def _unknown(e: Lengths, node: Node, *_: Any, **__: Any) -> list[Parts]:
    return [(e.emit("py.constant", UNKNOWN, type=v.type),) for v in node.outputs]


def _plus(k: int) -> Any:
    return lambda e, node, n, *_: [(e.number("py.add", n[0], k),)]


def _pop(e: Lengths, node: Node, n: Parts, i: Any) -> list[Parts]:
    return [(e.number("py.sub", n[0], 1),), (e.emit("py.constant", UNKNOWN, type=node.outputs[1].type),)]  # fmt: skip


def _array_write(e: Lengths, node: Node, n: Parts, i: Any, v: Any, limit: Any) -> list[Parts]:
    return [(e.number("py.max", n[0], e.number("py.add", i, 1)),)]


def _slice(e: Lengths, node: Node, n: Parts, *bounds: Any) -> list[Parts]:
    return [(slice_bounds(e, n[0], *bounds)[1],)]


Lengths.rules = {
    "tg.list_new": lambda e, node: [(0,)],
    "tg.list_of": lambda e, node, *v: [(len(v),)],
    "tg.list_push": _plus(1), "tg.list_insert": _plus(1), "tg.list_pop": _pop, "tg.list_set": _plus(0),
    "tg.list_slice": _slice, "tg.list_size": lambda e, node, n: [n], "tg.identity": lambda e, node, n, *_: [n],
    "tg.list_extend": lambda e, node, a, b: [(e.number("py.add", a[0], b[0]),)],
    "tg.list_from_tensor": lambda e, node, x: [(e.emit("py.size", x, 0, type=INT),)],
    "tg.list_reserve": lambda e, node, n: [(n,)], "tg.array_write": _array_write,
    **{f"tg.{name}": _unknown for name in ("list_get", "list_stack", "list_concat", "array_read", "array_stack", "array_concat")},
}  # fmt: skip
