"""Derivatives of ops over as many items as only the run knows, which hold for any number of them.

torch's formulas ask whether there is one item or none, or for the number itself; for such a size the usual answer is traced, and a run with
another number fails. The formulas here are those of the general case, in ops that have derivatives themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..symbols.symbolic import as_symbolic, same

aten = torch.ops.aten
Formula = Callable[
    ..., Any
]  # (x, results, their cotangents, the op's other arguments) -> the cotangent of x


class _General(torch.autograd.Function):
    """``op(x, *args)``, with a derivative by ``formula``."""

    @staticmethod
    def forward(ctx: Any, op: Any, formula: Formula, x: Any, args: tuple, kwargs: dict) -> Any:
        with torch.enable_grad():  # of the node that is recorded
            made = op(same(as_symbolic(x)), *args, **kwargs)
        ctx.formula, ctx.args, ctx.kwargs = formula, args, kwargs
        results = made if isinstance(made, tuple) else (made,)
        ctx.save_for_backward(x, *results)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(r for r in results if not r.is_floating_point()))
        return made

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        x, *results = ctx.saved_tensors
        if all(g is None for g in grads):
            return (None,) * 5
        return None, None, ctx.formula(x, results, grads, *ctx.args, **ctx.kwargs), None, None


def _applied(op: Any, formula: Formula) -> Callable[..., Any]:
    def apply(x: Any, *args: Any, **kwargs: Any) -> Any:
        is_open = x.requires_grad and any(type(n) is not int for n in x.shape)
        if is_open and torch.is_grad_enabled() and x.is_floating_point():
            return _General.apply(op, formula, x, args, kwargs)
        return op(x, *args, **kwargs)

    return apply


def _cumsum(x: Any, _: Any, grads: Any, dim: int, *, dtype: Any = None) -> Any:
    return cumsum(grads[0].to(x.dtype).flip(dim), dim).flip(dim)


def _cumprod(x: Any, results: Any, grads: Any, dim: int, *, dtype: Any = None) -> Any:
    """Item k: the sum over j >= k of cotangent j times the product of the first j items but for item k."""
    wide = dtype or x.dtype
    x, grad = x.to(wide).movedim(dim, -1), grads[0].movedim(dim, -1)
    if torch.is_grad_enabled():
        k = torch.arange(x.shape[-1], device=x.device)
        left_out = (k[:, None] == k).expand(*x.shape, x.shape[-1])
        one = torch.ones((), dtype=wide, device=x.device)
        products = cumprod(torch.where(left_out, one, x[..., None, :]), -1)
        # from item k on; selected, so that no product that overflows gets in
        found = torch.where(k[:, None] <= k, grad[..., None, :] * products, one * 0).sum(-1)
    else:
        product = results[0].movedim(dim, -1)
        zeros = (x == 0).cumsum(-1)
        first = (x == 0) & (zeros == 1)
        without = torch.where(first, torch.ones_like(x), x).cumprod(-1)
        before = _from_the_end(grad * product) / torch.where(x == 0, torch.ones_like(x), x)
        found = torch.where(zeros == 0, before, torch.zeros_like(x))
        found = torch.where(first, _from_the_end(grad * without), found)
    return found.movedim(-1, dim)


def _from_the_end(x: torch.Tensor) -> torch.Tensor:
    return x.flip(-1).cumsum(-1).flip(-1)


def _products_of_others(x: Any, dim: int) -> Any:
    """For each item the product of the others: of those before it and those behind it."""
    n = x.shape[dim]
    one = torch.ones_like(x.sum(dim, keepdim=True))

    def before(x: Any) -> Any:
        return cumprod(torch.cat([one, x], dim), dim).narrow(dim, 0, n)

    return before(x) * before(x.flip(dim)).flip(dim)


def _prod(x: Any, _: Any, grads: Any, *, dtype: Any = None) -> Any:
    flat = x.to(dtype or x.dtype).reshape(-1)
    return (grads[0] * _products_of_others(flat, 0)).reshape(x.shape)


def _prod_of(
    x: Any, _: Any, grads: Any, dim: int, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    grad = grads[0] if keepdim else grads[0].unsqueeze(dim)
    return grad * _products_of_others(x.to(dtype or x.dtype), dim)


def _wide(g: Any, x: Any, dims: Any, keepdim: bool) -> Any:
    """What was reduced over ``dims`` with these again, each of one item."""
    if keepdim or not dims:
        return g
    for d in sorted(d % x.dim() for d in dims):
        g = g.unsqueeze(d)
    return g


def _spread(x: Any, grad: Any, dims: Any, correction: Any) -> Any:
    """The cotangent of ``x`` from that of its variance: 2 (x - mean) / (n - correction), where no item is left infinity."""
    correction = 1 if correction is None else correction
    whole, dims = dims is None, tuple(dims) if dims else tuple(range(x.dim()))
    count = torch.ones_like(x).sum(dims, keepdim=True) - correction
    away = x - x.mean(dims, keepdim=True)
    if not whole or correction <= 1:  # with 1, only the n of 1 and 0 leave none: infinity * 0
        return 2 / count * grad * away
    # Of all items torch gives infinity whatever the sign, also where n < correction.
    none_left = count <= 0
    factor = torch.where(away == 0, torch.nan, torch.inf).to(x.dtype)
    usual = 2 / torch.where(none_left, torch.ones_like(count), count) * grad * away
    return torch.where(none_left, grad * factor, usual)


def _var(x, _, grads, dim=None, *, correction=None, keepdim=False):
    return _spread(x, _wide(grads[0], x, dim, keepdim), dim, correction)


def _std(x, results, grads, dim=None, *, correction=None, keepdim=False):
    grad = (grads[0] / (results[0] * 2)).masked_fill(results[0] == 0, 0)
    return _spread(x, _wide(grad, x, dim, keepdim), dim, correction)


def _with_mean(spread: Formula) -> Formula:
    def formula(x, results, grads, dim=None, *, correction=None, keepdim=False):
        total = 0
        if grads[0] is not None:
            total = spread(x, results, grads, dim, correction=correction, keepdim=keepdim)
        if grads[1] is not None:
            dims = tuple(dim) if dim else tuple(range(x.dim()))
            count = torch.ones_like(x).sum(dims, keepdim=True)
            total = total + _wide(grads[1], x, dim, keepdim).expand_as(x) / count
        return total

    return formula


def _extreme(x: Any, results: Any, grads: Any, dim: int) -> Any:
    return torch.zeros_like(x).scatter_add(dim, results[1], grads[0])


def _sign(x: Any, _: Any, grads: Any) -> Any:
    return torch.zeros_like(x)


cumsum = _applied(aten.cumsum.default, _cumsum)
cumprod = _applied(aten.cumprod.default, _cumprod)
FORMS: dict[str, Callable[..., Any]] = {
    "aten.cumsum.default": cumsum,
    "aten.cumprod.default": cumprod,
    **{
        f"aten.{op._schema.name[6:]}.{op._overloadname}": _applied(op, formula)
        for op, formula in (
            (aten.prod.default, _prod),
            (aten.prod.dim_int, _prod_of),
            (aten.var.correction, _var),
            (aten.std.correction, _std),
            (aten.var_mean.correction, _with_mean(_var)),
            (aten.std_mean.correction, _with_mean(_std)),
            (aten.cummax.default, _extreme),
            (aten.cummin.default, _extreme),
            (aten.sgn.default, _sign),
        )
    },
}
