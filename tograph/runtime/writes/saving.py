"""What a gradient of the user's own has saved (``ctx.save_for_backward``) and may not be written in place before the gradient is taken.

torch compares the version of each tensor when ``ctx.saved_tensors`` is read. Here the tensors and their versions then are noted at the node of torch's
autograd that stands for the construct, and ``check`` looks at them where its gradient is recorded: what was written surely, or in a
region that a run takes, makes the graph raise where a gradient comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..symbols.funcgraph import current_graph
from . import stale

Kept = list[tuple[torch.Tensor, int]]


def keep(outputs: Sequence[Any], tensors: Sequence[Any]) -> None:
    """Note what is saved for the gradient of what was recorded just now, if it has one."""
    kept = [(x, x._version) for x in tensors if isinstance(x, torch.Tensor)]
    for out in outputs:
        call = getattr(getattr(out, "grad_fn", None), "call", None)
        if call is not None:
            call.kept = kept


def check(kept: Kept, grads: Sequence[Any]) -> None:
    """Record torch's error where something that was saved has been written since and one of ``grads`` is not zeros."""
    graph = current_graph()
    for x, version in kept:
        if x._version != version:
            stale.refuse(words(x, version), x, version, graph, grads)


def words(x: torch.Tensor, version: int) -> str:
    kind = f"torch.{'cuda.' if x.is_cuda else ''}{_NAMES.get(x.dtype, 'Float')}Tensor"
    return (
        f"one of the variables needed for gradient computation has been {stale.MODIFIED}: [{kind} {list(x.shape)}] is at version "
        f"{x._version}; expected version {version} instead."
    )


_NAMES = {
    torch.float64: "Double",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.int64: "Long",
    torch.int32: "Int",
    torch.bool: "Bool",
}
