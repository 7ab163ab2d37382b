"""Matrix products, attention, gathers, running sums, products and variances of tensors whose sizes only the run knows: see ``products`` and ``open_sizes`` of the runtime."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ...runtime.gradients.open_sizes import FORMS
from ...runtime.inference.shapes import SYMBOLS
from ...runtime.symbols import products
from ...runtime.symbols.funcgraph import is_tracing
from ..left_alone import leave_alone
from ..registry import TENSOR_METHODS, handles
from ..resolved import resolved


def _where_open(function, own):
    def run(args, kwargs):
        if "out" not in kwargs and any(map(products.is_open, (*args, *kwargs.values()))):
            return own(*args, **kwargs)
        return leave_alone(function, args, kwargs)

    @handles(function)
    def form(*args, **kwargs):
        return resolved(run, function, args, kwargs)

    return form


_where_open(torch.matmul, products.matmul)
TENSOR_METHODS["take_along_dim"] = _where_open(torch.take_along_dim, products.take_along_dim)
_where_open(torch.nn.functional.linear, products.linear)


def _scaled_attention(query, key, value, attn_mask=None, *rest, scale, **named):
    """Attention with a ``scale`` that only the run knows: torch's takes a plain number in C++, so the query is scaled, in single precision."""
    kept = query.dtype
    if kept in (torch.float16, torch.bfloat16):
        query, key, value = query.float(), key.float(), value.float()
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.float()
    return attention(query * scale, key, value, attn_mask, *rest, scale=1.0, **named).to(kept)


def _attention(args, kwargs):
    if is_tracing() and isinstance(kwargs.get("scale"), SYMBOLS):
        return _scaled_attention(*args, **kwargs)
    return _open_attention(*args, **kwargs)


_open_attention = _where_open(F.scaled_dot_product_attention, products.attention)


@handles(F.scaled_dot_product_attention)
def attention(*args, **kwargs):
    """``F.scaled_dot_product_attention``"""
    return resolved(_attention, F.scaled_dot_product_attention, args, kwargs)


def _prod(input, dim=None, keepdim=False, *, dtype=None):
    if dim is None:
        return FORMS["aten.prod.default"](input, dtype=dtype)
    return FORMS["aten.prod.dim_int"](input, dim, keepdim, dtype=dtype)


def _running(op):
    def form(input, dim=None, *, axis=None, dtype=None):
        return FORMS[op](input, axis if dim is None else dim, dtype=dtype)

    return form


def _spread(op):
    def form(input, dim=None, unbiased=None, keepdim=False, *, axis=None, correction=None):
        dim = axis if dim is None else dim
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if correction is None and unbiased is not None:
            correction = int(unbiased)
        dims = [dim] if isinstance(dim, int) else dim
        return FORMS[op](input, dims, correction=correction, keepdim=keepdim)

    return form


def _extreme(op, result):
    def form(input, dim):
        return result(FORMS[op](input, dim))

    return form


for _function, _own in (
    (torch.prod, _prod),
    (torch.cumsum, _running("aten.cumsum.default")),
    (torch.cumprod, _running("aten.cumprod.default")),
    (torch.var, _spread("aten.var.correction")),
    (torch.std, _spread("aten.std.correction")),
    (torch.cummax, _extreme("aten.cummax.default", torch.return_types.cummax)),
    (torch.cummin, _extreme("aten.cummin.default", torch.return_types.cummin)),
):
    TENSOR_METHODS[_function.__name__] = _where_open(_function, _own)
_where_open(torch.var_mean, _spread("aten.var_mean.correction"))
_where_open(torch.std_mean, _spread("aten.std_mean.correction"))
