"""Matrix products, attention, gathers and running sums of tensors whose sizes only the run knows: see ``products`` and ``running_sums`` of the runtime."""

from __future__ import annotations

import torch

from ...runtime.gradients import running_sums
from ...runtime.symbols import products
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
_where_open(torch.nn.functional.scaled_dot_product_attention, products.attention)


def _cumsum(input, dim=None, *, axis=None, dtype=None):
    return running_sums.cumsum(input, axis if dim is None else dim, dtype=dtype)


TENSOR_METHODS["cumsum"] = _where_open(torch.cumsum, _cumsum)
