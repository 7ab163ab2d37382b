"""Tensors that the code makes leaves of in a region: ``y = x.detach().requires_grad_()`` under an ``if``.

What a staged construct gives for a variable is a leaf where each of its outcomes is one: a gradient that is taken later stops there, and has its
``.grad``. What stood in the fields of those in the regions is not followed: that is an error where it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..symbols.funcgraph import FuncGraph, current_graph
from ..symbols.symbolic import SymTensor, value_of
from ..writes import histories


def made_in(x: Any, graph: FuncGraph) -> bool:
    """Whether a content is a leaf that the code made while ``graph`` was recorded."""
    if not isinstance(x, SymTensor) or not x.requires_grad or x.given_ or x.born < graph.born:
        return False
    node = x.ref.value.node if x.ref is not None else None  # what stands for an input has none
    return histories.is_leaf(x) and (x.asked_ or (node is not None and not node.regions))


def join(x: Any, outcomes: Sequence[Any]) -> None:
    """Make a leaf of what stands for ``outcomes``, all of which are leaves that regions made."""
    if not isinstance(x, SymTensor):
        return
    if not x.is_leaf:
        torch.Tensor.detach_(x)  # of torch's history only
    x.requires_grad_()
    graph = current_graph()
    graph.root.leaves.pop(value_of(x, graph), None)  # what made it are the regions
    slots = graph.root.slots
    x.graded_ = any(id(o) in slots and slots[id(o)].content is not None for o in outcomes)
