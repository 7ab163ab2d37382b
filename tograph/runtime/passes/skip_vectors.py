"""Decompositions of which only the values are used do not compute vectors, as ``svdvals`` and ``eigvalsh`` of tensors without gradient do not.

Torch decides that by looking at the tensor, and computes the vectors for any that is not a plain one, as those of a trace are.
"""

from __future__ import annotations

from dataclasses import replace

from ..graph.ir import Graph, Node, all_nodes

# op: (its first arguments where they are left out, the outputs that are vectors)
VECTORS = {"aten._linalg_svd.default": ((False,), (0, 2)), "aten._linalg_eigh.default": (("L",), (1,))}  # fmt: skip


def has_vectors(graph: Graph) -> bool:
    """Whether there is a decomposition at all."""
    return any(n.op in VECTORS for n in all_nodes(graph))


def skip_vectors(graph: Graph) -> Graph:
    """``graph`` with decompositions that give what is used."""
    found = [n for n in all_nodes(graph) if n.op in VECTORS]
    if not found:
        return graph
    used = {v for n in all_nodes(graph) for v in n.inputs} | set(graph.outputs)
    used.update(v for n in all_nodes(graph) for r in n.regions.values() for v in r.outputs)
    for node in found:
        _, vectors = VECTORS[node.op]
        if used.isdisjoint(node.outputs[i] for i in vectors):
            _only_values(node)
    return graph


def _only_values(node: Node) -> None:
    usual, vectors = VECTORS[node.op]
    given = (*node.args[1:2], *usual[len(node.args) - 1 :])
    node.args = (node.args[0], *given, False)
    for i in vectors:
        node.outputs[i].type = replace(node.outputs[i].type, shape=(0,))
