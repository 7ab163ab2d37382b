"""Tensors from outside of a graph that its gradient looks at, and that eager PyTorch has not saved.

A backward part computes cheap values again from the inputs of its graph (``cut``), and chooses between branches by the conditions of the forward
part. Eager PyTorch has saved neither the operand of a comparison nor a condition, so it does not mind a write to them before the
gradient is taken. An input that is looked at in these ways only is **loose**: what is needed of it is saved in its place, the smaller of a value
computed from it and a copy.

Example: ``x * w if c > 0 else x * 2`` saves the bool ``c > 0``; ``x`` and ``w``, which the product saves, are **firm**.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..graph.ir import Graph, Node, Value, values_in
from ..graph.ops import overload, takes_size
from ..graph.types import TensorType
from .cut import size
from .graphs import append

SMALL = 1 << 14  # bytes of a tensor that is copied at each call where regions look at it
TINY = 8  # bytes of what a region saves in the place of a larger one


def firm(nodes: Iterable[Node], ends: Collection[Value], loose: dict[Node, frozenset[int]]) -> set[Value]:  # fmt: skip
    """What nodes of a backward part, of which ``ends`` leave, look at as formulas do, and what that are views of.

    ``loose``: by node the positions of arguments that are no such looks.
    """
    found = set(ends)
    for node in nodes:
        apart = loose.get(node, ())
        first = 1 if takes_size(node.op) else 0
        found.update(
            values_in([a for i, a in enumerate(node.args) if i >= first and i not in apart])
        )
        found.update(values_in(node.kwargs))
    for value in list(found):
        while (node := value.node) is not None and is_view(node):
            value = node.args[0]
            found.add(value)
    return found


def savable(inputs: Iterable[Value], wanted: Collection[Value]) -> list[Value]:
    """Those of the loose ``inputs`` in whose place something is saved: all but large ones that regions look at, of which ``wanted`` are."""
    return [v for v in inputs if isinstance(v.type, TensorType) and not (v in wanted and large(v))]


def copies(graph: Graph, saved: Iterable[Value]) -> list[Value]:
    """What is saved, with copies of inputs of the graph."""
    inputs = set(graph.inputs)
    return [
        append(graph, "aten.clone.default", v, type=v.type) if v in inputs else v for v in saved
    ]


def large(value: Value) -> bool:
    kind = value.type
    assert isinstance(kind, TensorType)
    return None in kind.shape or size(value) > SMALL


def is_view(node: Node) -> bool:
    """Whether the result of a node shares memory, and so torch's count of writes, with its first argument."""
    if not node.op.startswith("aten.") or not isinstance(node.args[0], Value):
        return False
    return any(r.alias_info is not None for r in overload(node.op)._schema.returns)
