"""Items of items written in place: ``cache[layer, :, t] = k`` is one write, not one for each index.

The graph takes part after part out, replaces an item of the last one, and puts each back into what it was taken from. That is one node,
``tg.select_scatter(x, row, path, d, n)``: ``x`` with item ``n`` in dim ``d`` of the part at ``path`` replaced. Who reads a part behind the write gets a view of the whole.
"""

from __future__ import annotations

from ..graph.ir import Graph, Node, Value
from ..graph.uses import use_counts

SCATTER, NESTED = "aten.select_scatter.default", "tg.select_scatter"
Path = tuple[tuple[int, int], ...]


def direct(graph: Graph) -> Graph:
    """Change such writes in a graph and in those inside of it, and return it."""
    uses = use_counts(graph)
    moved: dict[Node, Node] = {}
    for node in list(graph.nodes):
        for region in node.regions.values():
            direct(region)
        inner = _inner(node)
        if inner is not None:
            part, d, index = node.args[1:]
            moved[inner] = moved[node] = made = _joined(graph, node, inner)
            uses[made.outputs[0]] += uses[part] > 1
            if uses[part] > 1:
                view = Node("aten.select.int", (made.outputs[0], d, index), {}, [part.type], location=made.location)  # fmt: skip
                view.outputs, part.node = [part], view
                graph.nodes.insert(graph.nodes.index(made) + 1, view)
    for node in graph.nodes if moved else ():
        node.control_inputs = list(dict.fromkeys(n for m in node.control_inputs if (n := _last(m, moved)) is not node))  # fmt: skip
    return graph


def _last(node: Node, moved: dict[Node, Node]) -> Node:
    while node in moved:
        node = moved[node]
    return node


def _inner(node: Node) -> Node | None:
    """The write into a part that ``node`` puts back where it was taken from."""
    if node.op != SCATTER or len(node.args) != 4 or not isinstance(node.args[1], Value):
        return None
    x, part, d, index = node.args
    inner = part.node
    if inner is None or inner.op not in (SCATTER, NESTED) or type(index) is not int:
        return None
    taken = _whole(inner.args[0]).node
    if taken is None or taken.op != "aten.select.int" or _whole(taken.args[0]) is not _whole(x):
        return None
    shape = x.type.shape
    same = type(taken.args[2]) is int and taken.args[1] % len(shape) == d % len(shape)
    return inner if same and taken.args[2] % shape[d] == index % shape[d] else None


def _whole(x: Value) -> Value:
    """What a view of all of it is of."""
    while x.node is not None and x.node.op == "aten.alias.default":
        x = x.node.args[0]
    return x


def _joined(graph: Graph, node: Node, inner: Node) -> Node:
    """One node in the place of two; where the inner one stood, all that it needs is there."""
    x, _, d, index = node.args
    _, row, *path, last, number = inner.args
    rank, size = len(x.type.shape), x.type.shape[d]
    whole: Path = ((d % rank, index % size), *(path[0] if path else ()))
    inside = rank - len(whole)
    made = Node(NESTED, (x, row, whole, last % inside, number), {}, [x.type], location=inner.location)  # fmt: skip
    made.control_inputs = list(dict.fromkeys([*inner.control_inputs, *node.control_inputs]))
    made.outputs, made.outputs[0].node = node.outputs, made
    graph.nodes[graph.nodes.index(inner)] = made
    graph.nodes.remove(node)
    return made


def part_shape(shape: tuple[int, ...], path: Path) -> tuple[int, ...]:
    """The shape of the part at a path."""
    for d, _ in path:
        shape = (*shape[:d], *shape[d + 1 :])
    return shape
