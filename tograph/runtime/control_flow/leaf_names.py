"""Which leaf a name stands for, where a staged construct bound it to one of several tensors: the index that tells the tensor (``identity``) tells the leaf.

A field belongs to a tensor object, and an option of a name knows memory and views. So the trace notes which object is all of a memory, or the leaf that the code made
of a view of it (``Root.wholes``). That holds whatever was written to the tensor since: a write leaves it the object that it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..graph.types import BOOL
from ..symbols.funcgraph import Ref, current_graph
from ..symbols.symbolic import SymTensor
from ..symbols.wholes import whole
from .picking import Picked

Held = list[tuple[torch.Tensor, Ref]]


def chosen(x: Any) -> Held | None:
    """The tensors that require a gradient among those that a name may be, each with the value that says whether it is; None where no index tells."""
    if not isinstance(x, SymTensor) or not isinstance(x.storage_, Picked) or x.chain:
        return None
    return flags(x.storage_, options(x))


def options(x: SymTensor) -> dict[int, torch.Tensor]:
    """By number the tensor objects that require a gradient among those that a name may be."""
    assert isinstance(x.storage_, Picked)
    found = {i: whole(o, current_graph().root) for i, o in enumerate(x.storage_.options)}
    return {i: y for i, y in found.items() if y is not None and y is not x and y.requires_grad}


def flags(storage: Picked, leaves: Mapping[int, torch.Tensor]) -> Held:
    """``leaves``, by the number of the option, each with the value that says whether it is that one."""
    here = current_graph()
    at = storage.which(here) if leaves else 0
    if isinstance(at, int):
        return [
            (leaf, Ref(here.emit("py.constant", i == at, type=BOOL), here))
            for i, leaf in leaves.items()
        ]
    return [(leaf, Ref(here.emit("py.eq", at, i, type=BOOL), here)) for i, leaf in leaves.items()]
