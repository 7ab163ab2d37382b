"""What a loop puts into lists of its state, for its gradient, is copied by the loop nest that computes the next state.

``xs.append(h)`` of a state ``h`` copies it, since its memory is written over. A copy by itself goes through the memory once more, on one
thread; one that is a node of its own (``clone``) joins the nest that reads ``h`` anyway and is shared by its threads.
"""

from __future__ import annotations

from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import copied
from ..graph.types import is_static
from ..kernels.pointwise import ROWS as POINTWISE
from .groups import CLONE, known_numel

_PUSH = "tg.list_push"
LEAST = 1 << 10  # elements of a state that is worth it


def copied_in_nests(graph: Graph) -> Graph:
    """``graph``, or a copy of it in which such states are cloned before they go into a list."""
    if not any(_pushes(body) for body in _bodies(graph)):
        return graph
    made = copied(graph, ordered=True)
    for body in _bodies(made):
        for push, reader in _pushes(body).items():
            nodes = [n for n in body.nodes if n is not push]
            at = max(body.nodes.index(push), nodes.index(reader) + 1)
            body.nodes = [*nodes[:at], _clone(push, reader), push, *nodes[at:]]
    return made


def _bodies(graph: Graph) -> list[Graph]:
    """The bodies of the loops of a graph and its regions."""
    inner = [b for n in graph.nodes for r in n.regions.values() for b in _bodies(r)]
    return inner + [n.regions["body"] for n in graph.nodes if n.op == "While"]


def _pushes(body: Graph) -> dict[Node, Node]:
    """The nodes that put a state into a list, each with a node of a nest that may take the copy."""
    state = {v for v in body.inputs if v not in body.outputs and _large(v)}
    found = {n: _reader(body, n) for n in body.nodes if n.op == _PUSH and n.args[1] in state}
    return {push: reader for push, reader in found.items() if reader is not None}


def _reader(body: Graph, push: Node) -> Node | None:
    """A node that goes over all elements of what is put into a list: one before that, or else one before the list is used again."""
    x, rows = push.args[1], push.outputs[0]
    nodes = body.nodes
    at = nodes.index(push)
    used = next((i for i in range(at + 1, len(nodes)) if rows in nodes[i].inputs), len(nodes))
    found = [n for n in nodes[:used] if n.op in POINTWISE and x in n.inputs and n.outputs[0].type == x.type]  # fmt: skip
    before = [n for n in found if n in nodes[:at]]
    return before[-1] if before else next(iter(found), None)


def _large(v: Value) -> bool:
    kind = v.type
    return is_static(kind) and known_numel(kind.shape) >= LEAST


def _clone(push: Node, reader: Node) -> Node:
    """The copy that a node puts into its list from now on; not before ``reader``, whose nest is to make it."""
    rows, x = push.args
    made = Node(CLONE, (x,), {}, [x.type], location=push.location)
    made.control_inputs = [reader]
    push.args = (rows, made.outputs[0])
    return made
