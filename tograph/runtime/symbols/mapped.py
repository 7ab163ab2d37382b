"""Tensors that an open transform of ``torch.func`` has wrapped: torch sees their ops one by one, and no graph can hold them."""

from __future__ import annotations

import torch

from ...errors import MappedConditionError
from .funcgraph import user_location

_MAPPED = (
    "a tensor of a function that torch.func.vmap maps, inside of the function that is traced, goes into or comes out of a staged condition, "
    "loop or try: vmap maps code without these. Use torch.where, or a loop over the examples."
)


def check_unmapped(x: torch.Tensor) -> None:
    """An error for what an open transform of ``torch.func`` has wrapped: no graph can take it in."""
    functorch = torch._C._functorch
    if functorch.is_functorch_wrapped_tensor(x) and functorch.peek_interpreter_stack():
        raise MappedConditionError(_MAPPED, user_location())
