"""What the regions of a node write over: memory that is there before the node, in place.

In eager PyTorch such a write makes a gradient raise that has saved what was there. Whether it happens only a run knows, so a node can be
made to tell it: ``told`` gives it one more output.

A loop tells the last of its trips that wrote.
"""

from __future__ import annotations

from typing import Any

from ...errors import Location
from .ir import Graph, Node, Value
from .rewrite import lead
from .types import BOOL, INT, Type

Written = dict[Graph, set[Value]]  # what is known of graphs whose nodes stay as they are meanwhile


def targets(node: Node, known: Written | None = None) -> list[int]:
    """The arguments that a region of a node may write over."""
    skip = lead(node)
    found = {i for name, r in node.regions.items() if name != "gradient" for i in _inputs(r, known)}
    return sorted(skip + i for i in found)


def written(graph: Graph, known: Written | None = None) -> set[Value]:
    """What is written over in a graph, as its own nodes know it: for those of regions their arguments.

    With ``known`` (only looked at) a walk that asks at every level, from the inner ones to the outer, goes over each graph once.
    """
    if known is not None and graph in known:
        return known[graph]
    found = set(graph.over)
    for node in graph.nodes:
        found.update(node.over)
        if node.regions:
            found.update(node.args[place] for place in targets(node, known))
    return found


def _inputs(graph: Graph, known: Written | None) -> set[int]:
    """The inputs that a graph may write over."""
    over = written(graph, known)
    return {i for i, v in enumerate(graph.inputs) if v in over}


def place_of(node: Node, place: int) -> Location | None:
    """The user's line that writes over an argument."""
    for region in node.regions.values():
        at = place - lead(node)
        content = region.inputs[at] if 0 <= at < len(region.inputs) else None
        for inner in region.nodes:
            if content in inner.over:
                return inner.location
            for k in targets(inner) if inner.regions else ():
                if inner.args[k] is content:
                    return place_of(inner, k)
    return node.location


# Nodes, each with the argument that a region of it may write over, and values that tell of other writes.
Writers = list[tuple[Node, int] | Value]


def since(node: Node, graph: Graph) -> dict[Value, Writers | None]:
    """Which values of a graph may be written over after a node, and by what; None: surely."""
    surely: dict[Value, None] = dict.fromkeys(graph.over)
    found: dict[Value, Writers] = {}
    for later in graph.nodes[graph.nodes.index(node) + 1 :]:
        surely.update(dict.fromkeys(later.over))
        for place in targets(later) if later.regions else ():
            found.setdefault(later.args[place], []).append((later, place))
    return {**found, **surely}


def any_told(writers: Writers, graph: Graph) -> Value:
    """Whether one of the writes has happened."""
    total, *rest = [w if isinstance(w, Value) else told(*w, graph) for w in writers]
    for flag in rest:
        total = append(graph, "py.or_", total, flag, type=BOOL)
    return total


def told(node: Node, place: int, graph: Graph) -> Value:
    """Whether a node of ``graph`` has written over an argument, as a value of ``graph``."""
    if node.op == "While":
        last = last_trip(node, place, graph)
        return _behind(node, graph, "py.ge", last, 0, type=BOOL)
    known = _of(node)
    if place not in known:
        skip = lead(node)
        for name, region in node.regions.items():
            if name != "gradient":
                region.outputs.append(_within(region, place - skip))
        known[place] = Value(BOOL, node, len(node.outputs))
        node.outputs.append(known[place])
    return known[place]


def again(node: Node, place: int, graph: Graph) -> Value:
    """Whether a ``While`` has written over its state ``place`` behind the first trip: over what an earlier one gave."""
    return _behind(node, graph, "py.ge", last_trip(node, place, graph), 1, type=BOOL)


def last_trip(node: Node, place: int, graph: Graph) -> Value:
    """The last trip of a ``While`` of ``graph`` in which it has written over its state ``place``, -1 for none."""
    known = _of(node)
    if place not in known:
        body, carried = node.regions["body"], node.kwargs["carried"]
        trip, last = Value(INT), Value(INT)
        wrote = _within(body, place)
        now = append(body, "py.select", wrote, trip, last, type=INT)
        body.outputs = [*body.outputs, append(body, "py.add", trip, 1, type=INT), now]
        for region, own in ((body, [trip, last]), (node.regions["cond"], [Value(INT), Value(INT)])):
            region.inputs = [*region.inputs[:carried], *own, *region.inputs[carried:]]
            region.input_names = [""] * len(region.inputs)
        starts = [_constant(x, node, graph) for x in (0, -1)]
        node.args = (*node.args[:carried], *starts, *node.args[carried:])
        node.kwargs["carried"] = carried + 2
        node.outputs += [Value(INT, node, carried), Value(INT, node, carried + 1)]
        known[place] = node.outputs[-1]
    return known[place]


def _of(node: Node) -> dict[int, Value]:
    """What a node tells already, by argument."""
    if node.told is None:
        node.told = {}
    return node.told


def _within(graph: Graph, i: int) -> Value:
    """Whether a region has written over its input ``i``, as a value of it."""
    content = graph.inputs[i]
    if content in graph.over or any(content in n.over for n in graph.nodes):
        return append(graph, "py.constant", True, type=BOOL)
    found: Value | None = None
    for node in [n for n in graph.nodes if n.regions]:
        for place in targets(node):
            if node.args[place] is content:
                one = told(node, place, graph)
                found = one if found is None else append(graph, "py.or_", found, one, type=BOOL)
    return append(graph, "py.constant", False, type=BOOL) if found is None else found


def append(graph: Graph, op: str, *args: Any, type: Type) -> Value:
    node = Node(op, args, {}, [type])
    graph.nodes.append(node)
    return node.outputs[0]


def _behind(node: Node, graph: Graph, op: str, *args: Any, type: Type) -> Value:
    made = Node(op, args, {}, [type], location=node.location)
    graph.nodes.insert(graph.nodes.index(node) + 1, made)
    return made.outputs[0]


def _constant(x: int, node: Node, graph: Graph) -> Value:
    made = Node("py.constant", (x,), {}, [INT], location=node.location)
    graph.nodes.insert(graph.nodes.index(node), made)
    return made.outputs[0]
