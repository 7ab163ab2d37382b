"""Tensors that the code makes leaves of in a region: ``y = x.detach().requires_grad_()`` under an ``if``.

What a staged construct gives for a variable is a leaf where each of its outcomes is one: a gradient that is taken later stops there, and has its
``.grad``. What stood in the fields of those in the regions is not followed: that is an error where it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

import torch

from ..symbols.funcgraph import FuncGraph, current_graph
from ..symbols.symbolic import SymTensor, value_of
from ..values.structure import Spec
from ..writes import iterations
from .leaves import leaf_objects


def made_in(x: Any, graph: FuncGraph) -> bool:
    """Whether a content is a leaf that the code made while ``graph`` was recorded."""
    if not isinstance(x, SymTensor) or not x.requires_grad or x.given_ or x.born < graph.born:
        return False
    node = x.ref.value.node if x.ref is not None else None  # what stands for an input has none
    return iterations.is_leaf(x) and (x.asked_ or (node is not None and not node.regions))


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


def mix(x: Any, outcomes: Sequence[Any], made: Sequence[bool]) -> None:
    """Note that what stands for ``outcomes`` is a leaf in a run, if each of them is one that was made here, in the regions or in an earlier iteration.

    ``made``: which of them the regions made: then it gets gradients itself. One of several leaves from before passes these on.
    """
    if isinstance(x, SymTensor) and all(map(_is_own, outcomes)):
        x.mixed_ = "graded" if _graded(outcomes) else "mixed"
        if any(made):
            x.graded_ = _graded(list(compress(outcomes, made)))
            current_graph().root.retained.append(x)


def mind(x: Any, outcomes: Sequence[Any], made: Sequence[bool]) -> None:
    """Note that what a construct gives is a leaf in runs in which its regions made it, and something else in others."""
    if not isinstance(x, SymTensor) or x.mixed_:
        return
    call, root = getattr(x.grad_fn, "call", None), current_graph().root
    if call is None or x.grad_fn.indices[x.output_nr] not in root.tokens.get(call.node, ()):
        # It has no gradient of its own in these runs: its field is not followed.
        x.graded_ = x.graded_ or (any(made) and not all(made))
        return
    x.sometimes_, x.graded_ = True, _graded(list(compress(outcomes, made)))
    root.retained.append(x)


def in_parts(made: Sequence[Any], outcomes: Sequence[Any], spec: Spec, graphs: Sequence[FuncGraph]) -> None:  # fmt: skip
    """Do so for the tensors that were ``made`` of a spec, in order: what each is in the ``outcomes``, which ``graphs`` made."""
    if not current_graph().root.leaves:
        return
    rows = [leaf_objects(x, spec) for x in outcomes]
    for x, column in zip(made, zip(*rows, strict=True), strict=True):
        own = [made_in(o, graph) for o, graph in zip(column, graphs)]
        if all(own):
            join(x, column)
        else:
            mix(x, column, own)
        mind(x, column, own)


def _is_own(x: Any) -> bool:
    if not isinstance(x, SymTensor) or not x.requires_grad:
        return False
    earlier = not x.is_leaf and iterations.is_leaf(x)
    return bool(x.mixed_) or earlier or made_in(x, current_graph())


def _graded(outcomes: Sequence[Any]) -> bool:
    slots = current_graph().root.slots
    return any(
        (id(o) in slots and slots[id(o)].graded)
        or (isinstance(o, SymTensor) and (o.graded_ or o.mixed_ == "graded"))
        for o in outcomes
    )
