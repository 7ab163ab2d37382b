"""``torch.cond`` and the loops of ``torch._higher_order_ops`` as the same constructs of a graph.

They mean what torch's mean; ``associative_scan`` combines from the first element on, which for an associative function is one
order among those allowed. Their operators themselves (``torch.ops.higher_order``) are for torch's own tracers.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import _higher_order_ops as torch_forms

from ...runtime.functions import row_loops
from ...runtime.library import custom, higher_order
from ..registry import handles


@handles(torch.cond)
def cond(pred, true_fn, false_fn, operands=()):
    return higher_order.cond(pred, partial(true_fn, *operands), partial(false_fn, *operands))


@handles(torch_forms.while_loop)
def while_loop(cond_fn, body_fn, carried_inputs):
    return higher_order.while_loop(cond_fn, body_fn, carried_inputs)


@handles(torch_forms.map)
def map_(f, xs, *args):
    return row_loops.map_fn(lambda row: custom.called(f)(row, *args), xs)


@handles(torch_forms.scan)
def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    rows = row_loops.Rows("scan", _moved(xs, dim, 0))
    step = custom.called(combine_fn)
    return row_loops.over_rows("scan", rows, step, init, reverse, True, 10)


@handles(torch_forms.associative_scan)
def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    found = row_loops.scan(combine_fn, _moved(xs, dim, 0), reverse=reverse)
    return _moved(found, 0, dim)


def _moved(xs: Any, source: int, target: int) -> Any:
    """The structure with a dimension of each tensor moved."""
    return row_loops.map_nest(lambda x: torch.movedim(x, source, target), xs, "xs")
