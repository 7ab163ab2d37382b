"""Products of rows that a loop goes over, made as one product ahead of the loop.

``x[t] @ w`` with ``x`` and ``w`` that no iteration changes is, on a GPU, a copy of the row and a small product in each iteration: two kernels
that leave most of the device idle. One product of all rows takes little longer than one of them, and an iteration reads its row of that where it
is (``read_through``). A loop that ends early has computed rows that it does not need, so there is a limit on what is done ahead.
"""

from __future__ import annotations

import math
from typing import Any

from ..graph.families import MATRIX_PRODUCTS
from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import add_input, carried
from ..graph.types import TensorType, is_static
from ..kernels.views import VIEWS

MOST_WORK = 2e9  # multiplications and additions: some tens of microseconds
MOST_BYTES = 1 << 28


def ahead(graph: Graph) -> Graph:
    """Move such products out of the loops of a graph, inner ones first, and return it."""
    nodes: list[Node] = []
    for node in graph.nodes:
        for region in node.regions.values():
            ahead(region)
        if node.op == "While":
            _move(node, nodes)
        nodes.append(node)
    graph.nodes = nodes
    return graph


def _move(loop: Node, before: list[Node]) -> None:
    body = loop.regions["body"]
    fixed = dict(zip(body.inputs[carried(loop) :], loop.args[carried(loop) :]))
    moved: dict[
        Node, Node
    ] = {}  # items, and those that are there in their place: both are outside of the same range
    for node in body.nodes:
        item = _row(node, fixed)
        if item is not None:
            _, d, number = item.args
            whole = _whole(node, fixed, before)
            inner = add_input(loop, whole)["body"]
            node.op, node.args, node.kwargs = "aten.select.int", (inner, d, number), {}
            node.control_inputs = list(item.control_inputs)
            moved[item] = node
    used = {v for n in body.nodes for v in n.inputs} | {*body.outputs}
    gone = {item: node for item, node in moved.items() if item.outputs[0] not in used}
    body.nodes = [n for n in body.nodes if n not in gone]
    for n in body.nodes:
        n.control_inputs = list(dict.fromkeys(gone.get(m, m) for m in n.control_inputs))


def _row(node: Node, fixed: dict[Value, Any]) -> Node | None:
    """The item of what no iteration changes that a product multiplies by what no iteration changes; None for other nodes."""
    place = MATRIX_PRODUCTS.get(node.op)
    if place is None or node.kwargs or len(node.args) != place + 2:
        return None
    left, *others = node.args[place], *node.args[:place], *node.args[place + 1 :]
    item = left.node if isinstance(left, Value) else None
    if item is None or item.op != "aten.select.int" or not all(isinstance(fixed.get(v), Value) for v in others):  # fmt: skip
        return None
    x, d, number = item.args
    given = fixed.get(x)
    if d != 0 or not isinstance(number, Value) or not isinstance(given, Value):
        return None
    if given.node is not None and given.node.op in VIEWS:  # its rows may not follow each other
        return None
    return item if _worth(x.type, node.outputs[0].type) and _broadcasts(node, place) else None


def _worth(rows: Any, out: Any) -> bool:
    if not all(is_static(t) for t in (rows, out)):  # fmt: skip
        return False
    count, made = rows.shape[0], math.prod(out.shape)
    work = 2 * count * made * rows.shape[-1]
    return count > 1 and 0 < work <= MOST_WORK and count * made * out.dtype.itemsize <= MOST_BYTES


def _broadcasts(node: Node, place: int) -> bool:
    """Whether what is added is the same for all rows."""
    return place == 0 or len(node.args[0].type.shape) <= 1 or node.args[0].type.shape[0] == 1


def _whole(node: Node, fixed: dict[Value, Any], before: list[Node]) -> Value:
    """The product of all rows, ahead of the loop."""
    place = MATRIX_PRODUCTS[node.op]
    item = node.args[place].node
    assert item is not None
    x, out = fixed[item.args[0]], node.outputs[0].type
    count, rows, width = x.type.shape
    columns = out.shape[1]
    flat = _made("aten.view.default", (x, [count * rows, width]), x.type, (count * rows, width), node, before)  # fmt: skip
    args = tuple(flat if i == place else fixed[a] for i, a in enumerate(node.args))
    product = _made(node.op, args, out, (count * rows, columns), node, before)
    return _made("aten.view.default", (product, [count, rows, columns]), out, (count, rows, columns), node, before)  # fmt: skip


def _made(op: str, args: tuple, like: TensorType, shape: tuple[int, ...], node: Node, before: list[Node]) -> Value:  # fmt: skip
    kind = TensorType(like.dtype, shape, like.device)
    before.append(Node(op, args, {}, [kind], location=node.location))
    return before[-1].outputs[0]
