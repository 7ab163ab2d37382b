"""``x.squeeze()`` where only the run knows whether a size is 1: a branch that drops the dimension, and one that keeps it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...runtime import control_flow
from ..left_alone import leave_alone
from ..registry import TENSOR_METHODS, handles
from ..staging import is_staged


@handles(torch.squeeze)
def squeeze(input, dim=None):
    given = () if dim is None else (dim,)
    if any(map(is_staged, given)):
        return leave_alone(torch.squeeze, (input, *given), {})
    if not is_staged(input) or dim == ():
        return torch.squeeze(input, *given)
    rank = input.dim()
    dims = range(rank) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
    in_range = all(type(d) is int and -rank <= d < rank for d in dims)
    if not in_range or all(type(input.shape[d]) is int for d in dims):
        return torch.squeeze(input, *given)
    return _squeezed(input, sorted({d % rank for d in dims}, reverse=True))


def _squeezed(x: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    """``dims``: those to drop where their size is 1, the last one first."""
    if not dims:
        return x
    d, rest = dims[0], dims[1:]
    n = x.shape[d]
    if type(n) is int:
        return _squeezed(torch.squeeze(x, d), rest)
    one = control_flow.predicate(n == 1, "squeeze")
    return control_flow.staged_if(
        one, lambda: _squeezed(torch.select(x, d, 0), rest), lambda: _squeezed(x, rest)
    )


TENSOR_METHODS["squeeze"] = squeeze
