"""Matrix products and attention of tensors whose sizes only the run knows: see ``runtime.products``."""

from __future__ import annotations

import torch

from ...runtime import products
from ..calls import handles, leave_alone
from ..resolved import resolved


def _where_open(function, own):
    def run(args, kwargs):
        if "out" not in kwargs and any(map(products.is_open, (*args, *kwargs.values()))):
            return own(*args, **kwargs)
        return leave_alone(function, args, kwargs)

    @handles(function)
    def form(*args, **kwargs):
        return resolved(run, function, args, kwargs)


_where_open(torch.matmul, products.matmul)
_where_open(torch.nn.functional.linear, products.linear)
_where_open(torch.nn.functional.scaled_dot_product_attention, products.attention)
