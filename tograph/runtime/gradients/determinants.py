"""Determinants whose derivatives can be differentiated again.

torch's formula for the derivative of a derivative parts the matrices of a batch: a regular one is solved for, of a singular one the singular
value decomposition is taken. Of tensors that are no plain ones it takes the decomposition for all, and the derivatives of that are
NaN where singular values are equal: those of the identity are, and those of the factors of any decomposition. Here both formulas are
computed, each of matrices that it is fit for, and the right one is chosen: so no NaN of the other gets through.
"""

from __future__ import annotations

from typing import Any

import torch

from ..symbols.carrier import Carrier
from ..symbols.symbolic import as_symbolic, same
from .engine import run_backward

op = torch.ops.aten._linalg_det.default


class _Determinant(torch.autograd.Function):
    """``op``, with torch's own derivative where it is not differentiated."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        with torch.enable_grad():
            ctx.inner = torch.Tensor.requires_grad_(same(as_symbolic(x)))
            ctx.plain, lu, pivots = op(ctx.inner)
        det, lu = same(as_symbolic(ctx.plain)), same(as_symbolic(lu))
        ctx.save_for_backward(x, det)
        ctx.mark_non_differentiable(lu, pivots)
        return det, lu, pivots

    @staticmethod
    def backward(ctx: Any, grad: Any, *_: Any) -> Any:
        x, det = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _derivative(x, det, grad)
        return run_backward([ctx.plain], [grad], [ctx.inner], create=False)[0]


def with_factors(x: Any) -> Any:
    """``aten._linalg_det``: the determinant, and the factors it comes from."""
    plain = not isinstance(x, torch.Tensor) or isinstance(x, Carrier)
    return (
        op(x)
        if plain or not (x.requires_grad and torch.is_grad_enabled())
        else _Determinant.apply(x)
    )


def det(x: Any) -> Any:
    return with_factors(x)[0]


def _derivative(x: torch.Tensor, value: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """The cotangent of ``x``: conj(det) * grad * inverse(x).mH, which is ``grad`` times the adjugate."""
    size = x.shape[-1]
    if type(size) is int and size == 0:
        return torch.zeros_like(x)
    eye = torch.eye(size, dtype=x.dtype, device=x.device)
    singular = (value.abs() < 100 * torch.finfo(x.dtype).eps)[..., None, None]
    apart = torch.diag(torch.arange(1, size + 1, dtype=value.abs().dtype, device=x.device)).to(x.dtype)  # fmt: skip
    scale = (value.conj() * grad)[..., None, None]
    regular = torch.linalg.solve(torch.where(singular, eye, x).mH, scale * eye)
    return torch.where(singular, _adjugate(torch.where(singular, x, apart), grad), regular)


def _adjugate(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """The same by the singular values: those of the adjugate are the products of all others."""
    u, s, vh = torch.linalg.svd(x)
    others = [[s[..., j] for j in range(s.shape[-1]) if j != i] for i in range(s.shape[-1])]
    left = [_product(row, s) for row in others]
    scale = (det(u) * det(vh)).conj() * grad
    return (u * (scale[..., None] * torch.stack(left, -1))[..., None, :]) @ vh


def _product(factors: list[torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    total = torch.ones_like(like[..., 0])
    for x in factors:
        total = total * x
    return total
