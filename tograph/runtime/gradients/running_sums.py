"""Running sums of as many items as only the run knows, whose derivative holds for any number of them.

torch's formula asks whether there is one item or none, to return the gradient as it is; for such a size the usual answer is traced, and
a run with one item fails. The formula of the general case, the running sum from the end, is right for all.
"""

from __future__ import annotations

from typing import Any

import torch

from ..symbols.symbolic import as_symbolic, same

op = torch.ops.aten.cumsum.default


class _RunningSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int, dtype: torch.dtype | None) -> torch.Tensor:
        ctx.dim, ctx.dtype = dim, x.dtype
        with torch.enable_grad():  # of the node that is recorded
            return op(same(as_symbolic(x)), dim, dtype=dtype)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        grad = grad.to(ctx.dtype)
        return cumsum(grad.flip(ctx.dim), ctx.dim).flip(ctx.dim), None, None


def cumsum(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """``aten.cumsum``."""
    if x.requires_grad and torch.is_grad_enabled() and any(type(n) is not int for n in x.shape):
        return _RunningSum.apply(x, dim, dtype)
    return op(x, dim, dtype=dtype)
