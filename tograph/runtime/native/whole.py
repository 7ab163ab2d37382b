"""Results that are an argument itself, or memory of their own: never a view of an argument.

Where a number beside such a result says that it is no argument (``leaving``), it is a tensor of its own. That matters for what comes out of a list
(``rows = [x]``, then ``return rows[-1]``): the code knows of a list whether anything in it is the caller's, not which item.
"""

from __future__ import annotations

from typing import Any

from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.rewrite import carried, passed
from .views import VIEWS

# What gives its arguments, or what was put into them.
_MOVES = frozenset(f"tg.list_{n}" for n in ("of", "push", "insert", "set", "extend", "slice", "get", "pop", "reserve", "concat"))  # fmt: skip
_MOVES |= {"tg.identity", "tg.choose"}


class Whole:
    """What is known of the values of one graph."""

    def __init__(self, graph: Graph):
        self.inputs = frozenset(graph.inputs)
        self.owners = {
            v: (node, i)
            for node in all_nodes(graph)
            for region in node.regions.values()
            for i, v in enumerate(region.inputs)
        }

    def __contains__(self, v: Value) -> bool:
        """Whether all that the value may be, or be made of without a copy, is an input itself or new."""
        todo: list[tuple[Any, bool]] = [(v, True)]
        seen = set[tuple[Value, bool]]()
        while todo:
            x, whole = todo.pop()
            if not isinstance(x, Value) or (x, whole) in seen:
                continue
            seen.add((x, whole))
            if x in self.inputs:
                if not whole:
                    return False
                continue
            todo += [(y, whole and moved) for y, moved in self._sources(x)]
        return True

    def _sources(self, x: Value) -> list[tuple[Any, bool]]:
        """What a value may share memory with, each with whether it is that as it is."""
        if x in self.owners:
            return [(y, True) for y in _taken(*self.owners[x])]
        node = x.node
        if node is None:
            return []
        if node.regions:
            return [(y, True) for y in _given(node, x.index)]
        if node.op in _MOVES:
            return [(y, True) for y in node.inputs]
        if node.op.startswith(("aten.", "py.")) and not _is_shared(node):
            return []
        return [(y, False) for y in node.inputs]


def _taken(node: Node, i: int) -> list[Any]:
    """What input number ``i`` of the regions of a node may be."""
    again = [node.regions["body"].outputs[i]] if i < carried(node) else []
    return [passed(node)[i], *again]


def _given(node: Node, i: int) -> list[Any]:
    """What output number ``i`` of a node with regions may be."""
    found = [r.outputs[i] for name, r in node.regions.items() if name != "cond"]
    return [passed(node)[i], *found] if i < carried(node) else found


def _is_shared(node: Node) -> bool:
    """Whether what an op of torch's gives may be memory that it has taken."""
    return node.op in VIEWS or "scatter" in node.op or node.op in ("aten.copy.default", "aten.as_strided.default", "aten.view.dtype")  # fmt: skip
