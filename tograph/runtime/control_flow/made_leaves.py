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
    value = value_of(x, graph)
    graph.root.leaves.pop(value, None)  # what made it are the regions
    graph.root.joined.append((x, value))
    x.graded_ = _graded(outcomes)


def mix(x: Any, outcomes: Sequence[Any], made: bool) -> None:
    """Note that what stands for ``outcomes`` is a leaf in a run, if each of them is one that was made here, in the regions or in an earlier iteration.

    ``made``: the regions made one of them, so it gets gradients itself. One of several leaves from before passes these on.
    """
    if isinstance(x, SymTensor) and all(map(_is_own, outcomes)):
        graded = _graded(outcomes)
        x.mixed_ = "graded" if graded else "mixed"
        if made:
            x.graded_ = graded
            current_graph().root.retained.append(x)


def _is_own(x: Any) -> bool:
    if not isinstance(x, SymTensor) or not x.requires_grad:
        return False
    earlier = not x.is_leaf and histories.is_leaf(x)
    return bool(x.mixed_) or earlier or made_in(x, current_graph())


def _graded(outcomes: Sequence[Any]) -> bool:
    slots = current_graph().root.slots
    return any(
        (id(o) in slots and slots[id(o)].graded)
        or (isinstance(o, SymTensor) and (o.graded_ or o.mixed_ == "graded"))
        for o in outcomes
    )
