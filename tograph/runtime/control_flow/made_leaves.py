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
from ..writes import iterations


def made_in(x: Any, graph: FuncGraph) -> bool:
    """Whether a content is a leaf that the code made while ``graph`` was recorded."""
    if not isinstance(x, SymTensor) or not x.requires_grad or x.given_ or x.born < graph.born:
        return False
    first = x.ref if x.chain or x.storage_.first is None else x.storage_.first  # before any write
    node = first.value.node if first is not None else None  # what stands for an input has none
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
    """Note that what stands for ``outcomes`` is a leaf in a run, if each of them is one that the function made, in the regions, before them or in an earlier iteration.

    ``made``: which of them the regions made: then it gets gradients itself. One of several leaves from before passes these on.
    """
    if isinstance(x, SymTensor) and all(map(_is_own, outcomes)):
        x.mixed_ = "graded" if _graded(outcomes) else "mixed"
        if any(made) or _has_tokens(x) or any(map(_gets_its_own, outcomes)):
            x.graded_ = _graded(list(compress(outcomes, made)))
            current_graph().root.retained.append(x)


def mind(x: Any, outcomes: Sequence[Any], made: Sequence[bool]) -> None:
    """Note that what a construct gives is a leaf in runs in which its regions made it, and something else in others."""
    if not isinstance(x, SymTensor) or x.mixed_:
        return
    root = current_graph().root
    if not _has_tokens(x):
        # It has no gradient of its own in these runs: its field is not followed.
        leaves = [own or bool(_mixed(o)) for o, own in zip(outcomes, made)]
        if any(leaves) and not all(leaves):
            x.graded_ = True
            root.halves.append(x)
        return
    x.sometimes_, x.graded_ = True, _graded(list(compress(outcomes, made)))
    root.retained.append(x)


def _has_tokens(x: SymTensor) -> bool:
    """Whether what a construct gives may be a leaf that its regions made, by any name."""
    call = getattr(x.grad_fn, "call", None)
    tokens = {} if call is None else current_graph().root.tokens.get(call.node, {})
    return bool(tokens) and x.grad_fn.indices[x.output_nr] in tokens


def has_other_names(x: Any) -> bool:
    """Whether another output of a construct may be the same leaf in a run: then gradients by either come to it by its history."""
    call = getattr(x.grad_fn, "call", None)
    known = {} if call is None else current_graph().root.token_leaves.get(call.node, {})
    own = known.get(x.grad_fn.indices[x.output_nr]) if known else None
    return own is not None and sum(not own.isdisjoint(other) for other in known.values()) > 1


def in_parts(
    made: Sequence[Any], rows: Sequence[Sequence[Any]], graphs: Sequence[FuncGraph]
) -> None:
    """Do so for the tensors that were ``made`` of a spec, in order: what each is in the outcomes (``rows``), which ``graphs`` made."""
    for x, column in zip(made, zip(*rows)):
        there = [(o, graph) for o, graph in zip(column, graphs) if o is not None]
        if isinstance(x, SymTensor) and there:
            note_plain(x, [o for o, _ in there])
            made_there = [made_in(o, graph) for o, graph in there]
            note_left(x, [graph for (_, graph), own in zip(there, made_there) if own])
            _one(x, [o for o, _ in there], made_there)


def note_plain(x: Any, outcomes: Sequence[Any]) -> None:
    """Note whether what stands for ``outcomes`` requires no gradient in some runs."""
    if isinstance(x, SymTensor):
        # A view is none of the state, and torch is not asked for its history: that is computed anew after a write.
        x.plain_ = any(may_be_plain(o) for o in outcomes if getattr(o, "_base", None) is None)


def note_left(x: Any, graphs: Sequence[FuncGraph]) -> None:
    """Note which values of regions are leaves that these made and give for ``x``."""
    node = x.ref.value.node if isinstance(x, SymTensor) and x.ref is not None else None
    for graph in graphs if node is not None else ():
        if (
            graph.closed
        ):  # the body of a loop is another graph where gradients go through iterations
            region = node.regions.get("body", graph.graph)
            current_graph().root.left_leaves[region.outputs[x.ref.value.index]] = []


def may_be_plain(x: Any) -> bool:
    """Whether a tensor requires no gradient in some runs."""
    if not isinstance(x, torch.Tensor):
        return False
    some = getattr(x, "sometimes_", False) or getattr(x, "plain_", False)
    return not x.requires_grad or some or not iterations.is_sure(x)


def _one(x: SymTensor, outcomes: Sequence[Any], made: Sequence[bool]) -> None:
    if all(made) and not has_other_names(x):
        join(x, outcomes)
    else:
        mix(x, outcomes, made)
    mind(x, outcomes, made)


def _mixed(x: Any) -> str:
    return x.mixed_ if isinstance(x, SymTensor) else ""


def _gets_its_own(x: Any) -> bool:
    """Whether what stands for leaves of regions, among others, gets gradients itself."""
    retained = current_graph().root.retained
    return isinstance(x, SymTensor) and bool(x.mixed_) and any(x is y for y in retained)


def _is_own(x: Any) -> bool:
    if not isinstance(x, SymTensor) or not x.requires_grad:
        return False
    earlier = not x.is_leaf and iterations.is_leaf(x) and iterations.is_sure(x)
    return bool(x.mixed_) or earlier or made_in(x, current_graph().root.graphs[0])


def _graded(outcomes: Sequence[Any]) -> bool:
    slots = current_graph().root.slots
    return any(
        (id(o) in slots and slots[id(o)].graded)
        or (isinstance(o, SymTensor) and (o.graded_ or o.mixed_ == "graded"))
        for o in outcomes
    )
