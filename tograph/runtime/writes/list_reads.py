"""Tensors that are read from lists of the graph: each reading is a tensor of its own, where Python has one object.

So what belongs to the object, its ``.grad`` and its hooks, is not that of the tensor which was put in.
"""

from __future__ import annotations

from typing import Any

import torch

from ...errors import GradientError
from ..graph.families import ITEM_READS
from ..graph.ir import Value
from ..symbols.funcgraph import current_graph, user_location
from ..symbols.symbolic import SymTensor


def check_field(x: torch.Tensor) -> None:
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
    node = value.node
    if node is None or "gradient" in node.regions:
        return False
    if node.op == "tg.choose":
        return any(_is_item(v) for v in node.args[1] if isinstance(v, Value))
    regions = [r for name, r in node.regions.items() if name != "cond"]
    return node.op in ITEM_READS or any(_is_item(r.outputs[value.index]) for r in regions if value.index < len(r.outputs))  # fmt: skip
