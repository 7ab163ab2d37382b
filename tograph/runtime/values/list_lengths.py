"""How many items a list of the graph has, where the graph itself tells: what a loop over rows of a known number appends.

``known_length`` reads the nodes that made the list. A list that a branch changes, or a loop whose end the data decides, has no known length.
``least_length`` is how many items it has at least.
"""

from __future__ import annotations

from ..graph.counting import step_of
from ..graph.ir import Graph, Node, Value


def known_length(v: Value) -> int | None:
    """The number of items of a list; None where only the run knows."""
    node = v.node
    if node is None:
        return None
    if node.op == "tg.list_of":
        return len(node.args)
    if node.op == "tg.list_push":
        before = known_length(node.args[0])
        return None if before is None else before + 1
    return _behind_a_loop(node, v.index) if node.op == "While" else None


def least_length(v: Value) -> int:
    """A number of items that a list has on every way."""
    known = known_length(v)
    if known is not None or v.node is None:
        return known or 0
    if v.node.op == "tg.list_push":
        return least_length(v.node.args[0]) + 1
    if v.node.op == "While" and _pushed(v.node.regions["body"], v.index) is not None:
        return least_length(v.node.args[v.index])
    return 0


def _behind_a_loop(node: Node, place: int) -> int | None:
    before, trips = known_length(node.args[place]), _trips(node)
    if before is None or trips is None:
        return None
    pushed = _pushed(node.regions["body"], place)
    return None if pushed is None else before + pushed * trips


def _pushed(body: Graph, place: int) -> int | None:
    """How many items one iteration appends to the list at a place of the state, on whatever way it takes."""
    count, v = 0, body.outputs[place]
    while v is not body.inputs[place]:
        if v.node is None or v.node.op != "tg.list_push":
            return None
        count, v = count + 1, v.node.args[0]
    return count


def _trips(node: Node) -> int | None:
    """How often a loop runs that counts up by one to a known number, and does nothing else to end."""
    cond = node.regions["cond"]
    test = cond.outputs[0].node
    if test is None or test.op != "py.lt" or type(test.args[1]) is not int:
        return None
    carried = cond.inputs[: node.kwargs["carried"]]
    place = next((i for i, v in enumerate(carried) if v is test.args[0]), None)
    start = None if place is None else _number(node.args[place])
    if place is None or start is None:
        return None
    if step_of(node, place) != 1:
        return None
    return max(0, test.args[1] - start)


def _number(x: object) -> int | None:
    if isinstance(x, Value) and x.node is not None and x.node.op == "py.constant":
        x = x.node.args[0]
    return x if type(x) is int else None
