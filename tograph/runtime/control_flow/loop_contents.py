"""What the places of a loop's state hold: which tensors, and which of them have a history, or are leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ..symbols.carrier import Carrier, differentiable
from ..symbols.funcgraph import FuncGraph, current_graph
from ..values import pytrees, structure
from ..writes import iterations
from .made_leaves import may_be_plain

Name = tuple[Any, int]  # of a tensor in the state: its place, and its number among those there


def tensors_of(content: Any, around: tuple[int, ...] = ()) -> list[torch.Tensor]:
    """The tensors in a content, in the order of its graph values."""
    if isinstance(content, torch.Tensor):
        return [content]
    if structure.is_union(content):
        return [x for o in content.options_ for x in tensors_of(o, around)]
    found = parts(content, around)
    if found is None or found[0] == "staged":
        return []
    return [x for part in found[1] for x in tensors_of(part, (*around, id(content)))]


def parts(content: Any, around: tuple[int, ...]) -> tuple[Any, Sequence[Any]] | None:
    """The parts of what an iteration makes anew. ``around``: the objects that it was found in, of which it may be one (a parent beside its children)."""
    if isinstance(content, structure.Identity) or id(content) in around:
        return None
    found = pytrees.parts_of(content)
    return None if found is None or structure.OUTSIDE[0](content) else found


def requires_grad(content: Any, graph: FuncGraph | None = None) -> bool:
    if isinstance(content, structure.Ref):
        return graph is not None and content.value in graph.sources
    return any(x.requires_grad for x in tensors_of(content)) or bool(carriers(content))


def carriers(content: Any, around: tuple[int, ...] = ()) -> list[torch.Tensor]:
    """What stands in autograd for the lists of the graph in a content that have items with a history."""
    if isinstance(content, structure.Identity):
        return carriers(content.value, around)
    if isinstance(content, structure.Handle):
        found = content.ref.graph.sources.get(content.ref.value)
        return [found] if isinstance(found, Carrier) else []
    if structure.is_union(content):
        return [x for o in content.options_ for x in carriers(o, around)]
    found = None if isinstance(content, torch.Tensor) else parts(content, around)
    return [x for p in found[1] for x in carriers(p, (*around, id(content)))] if found else []


def computed_in(key: Any, content: Any, graph: FuncGraph) -> set[Name]:
    """What an iteration leaves in a place that may be something else than a leaf that it made."""
    if isinstance(content, structure.Ref):
        return {(key, 0)} if requires_grad(content, graph) else set()
    found = [(i, x) for i, x in enumerate(tensors_of(content)) if x.requires_grad]
    numbers = [i for i, x in found if not (iterations.is_leaf(x) or mixed(x)) or outside(x, graph)]
    return {(key, i) for i in numbers}


def plain_in(key: Any, content: Any) -> set[Name]:
    """What an iteration leaves in a place without a history, on some path at least."""
    found = enumerate(tensors_of(content))
    return {(key, i) for i, x in found if may_be_plain(x)}


def graded(content: Any) -> bool:
    slots = current_graph().root.slots
    return any(
        (id(x) in slots and slots[id(x)].graded) or mixed(x) == "graded"
        for x in tensors_of(content)
    )


def mixed(x: torch.Tensor) -> str:
    return x.mixed_ if isinstance(x, structure.SymTensor) else ""


def named(contents: Iterable[tuple[Any, Any]]) -> list[tuple[Name, torch.Tensor]]:
    """The tensors in a state that require grad, with their names."""
    found = [((k, i), x) for k, c in contents for i, x in enumerate(tensors_of(c))]
    return [(name, x) for name, x in found if x.requires_grad]


def staged(content: Any, around: tuple[int, ...] = ()) -> bool:
    """Whether ``_tensors`` does not find the tensors in a content with the history that they have: not what was written in place."""
    if structure.is_union(content):
        return any(staged(o, around) for o in content.options_)
    if isinstance(content, (torch.Tensor, structure.Ref)):
        return isinstance(content, structure.Ref)
    found = parts(content, around)
    if found is None:
        return False
    return found[0] == "staged" or any(staged(p, (*around, id(content))) for p in found[1])


def may_have(content: Any, graph: FuncGraph) -> bool:
    """Whether a staged content may have a history: what was written in place does not tell."""
    if structure.is_union(content):
        return any(may_have(o, graph) for o in content.options_)
    if isinstance(content, structure.Ref):
        return differentiable(content.value.type)
    return requires_grad(content, graph)


def outside(x: torch.Tensor, graph: FuncGraph) -> bool:
    home = x.storage_.home if isinstance(x, structure.SymTensor) else None
    return home is None or not home.within(graph)


def leaves_in(key: Any, content: Any) -> set[Name]:
    """What an iteration leaves in a place that may be a leaf: of what a construct gives that is not asked."""
    found = [(i, x) for i, x in enumerate(tensors_of(content)) if x.requires_grad]
    return {(key, i) for i, x in found if iterations.is_leaf(x) or hasattr(x.grad_fn, "call")}


def foreign_in(key: Any, content: Any, graph: FuncGraph) -> set[Name]:
    """What an iteration leaves in a place that is a leaf from outside."""
    found = [(i, x) for i, x in enumerate(tensors_of(content)) if x.requires_grad]
    return {(key, i) for i, x in found if (iterations.is_leaf(x) or mixed(x)) and outside(x, graph)}
