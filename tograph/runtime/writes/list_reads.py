"""Tensors that are read from lists of the graph: each reading is a tensor of its own, where Python has one object.

So what belongs to the object, its ``.grad`` and its hooks, is not that of the tensor which was put in.
"""

from __future__ import annotations

from typing import Any

from ...errors import GradientError
from ..graph.families import ITEM_READS
from ..graph.ir import Value
from ..graph.rewrite import lead
from ..symbols.funcgraph import current_graph, user_location
from ..symbols.symbolic import SymTensor


def check_field(x: Any) -> None:
    """An error for the ``.grad`` of a tensor that may be a leaf read from a list of the graph, here or in a region that gives it."""
    if (x.requires_grad or current_graph().root.leaves) and may_be_item(x):
        raise GradientError(
            "the gradient field of an item of a list whose length depends on data is not followed. Keep what is asked for its gradient in a list of a known "
            "length, or take the gradients by torch.autograd.grad where the items are made.",
            user_location() or x.ref.value.node.location,
        )


def may_be_item(x: Any) -> bool:
    """Whether a tensor is one that was read from a list of the graph, here or in a region that gives it."""
    return isinstance(x, SymTensor) and x.ref is not None and _is_item(x.ref.value)


def _is_item(value: Value) -> bool:
    todo, seen, given = [value], set[Value](), dict[Value, Any]()
    while todo:
        v = todo.pop()
        while v in given:  # what a region takes is what its node does
            v = given[v]
        node = v.node if isinstance(v, Value) and v not in seen else None
        if node is None or "gradient" in node.regions:
            continue
        if node.op in ITEM_READS:
            return True
        seen.add(v)
        todo += node.args[1] if node.op == "tg.choose" else ()
        for name, region in node.regions.items():
            given.update(zip(region.inputs, node.args[lead(node) :]))
            if name != "cond" and v.index < len(region.outputs):
                todo.append(region.outputs[v.index])
    return False
