"""What a loop's body reads of resources that it does not write, as further inputs while it is differentiated (``earlier``)."""

from __future__ import annotations

from ..graph.ir import Graph, Node, Value
from ..graph.ordering import graph_effects
from ..graph.rewrite import copied
from . import leaf_copies


def without_reads(body: Graph) -> tuple[Graph, dict[int, int]]:
    """A copy that takes what it reads of resources that it does not write as further inputs; resource -> that input."""
    made = copied(body, ordered=True)
    leaf_copies.copied(body, made)
    written = set(graph_effects(made).writes)
    place = {v: i for i, v in enumerate(made.inputs) if i not in written}
    read: dict[int, Value] = {}
    replaced: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in made.nodes:
        node.replace_inputs(lambda v: replaced.get(v, v))
        if node.op == "tg.read" and node.args[0] in place:
            value = read.setdefault(place[node.args[0]], Value(node.outputs[0].type))
            replaced[node.outputs[0]] = value
        else:
            nodes.append(node)
    made.nodes, made.outputs = nodes, [replaced.get(v, v) for v in made.outputs]
    count = len(made.inputs)
    made.inputs += read.values()
    made.input_names += [""] * len(read)
    return made, {i: count + k for k, i in enumerate(read)}


def with_reads(body: Graph, reads: dict[int, int]) -> None:
    """Read the resources again, at the start."""
    values = {i: body.inputs[j] for i, j in reads.items()}
    count = len(body.inputs) - len(reads)
    body.inputs, body.input_names = body.inputs[:count], body.input_names[:count]
    for i, value in values.items():
        node = Node("tg.read", (body.inputs[i],), {}, [value.type])
        node.outputs, value.node = [value], node
        body.nodes.insert(0, node)
