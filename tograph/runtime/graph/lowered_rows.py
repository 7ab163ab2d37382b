"""Rows of ops that only lowering makes, for native code and for plans of GPUs: no graph of a user's function has them."""

from __future__ import annotations

import torch

from .arranged import in_format_of
from .opaque import plain
from .rows import MAY_FAIL, NONE, PURE, Effects, register


def _kernel(fused, *inputs):
    """A region that runs as one kernel: its outputs, a list where there are several."""
    return plain(fused)(*inputs)


def _select_scatter(x, row, path, d, n):
    part = x = x.clone()
    for at, index in path:
        part = part.select(at, index)
    part.select(d, n).copy_(row)
    return x


def _kept(p, dtype, size, device):
    return torch.native_dropout(torch.ones(size, dtype=dtype, device=device), p, True)[1]


register("tg.kernel", run=_kernel, effects=PURE, gradient=NONE, outputs=2)
# Complex tensors as two real ones, in native code: a part, one of two parts, and what is no view of an argument.
register("tg.part", run=lambda x, k: torch.view_as_real(x)[..., k], effects=PURE, gradient=NONE)  # fmt: skip
register("tg.complex", run=torch.complex, effects=PURE, gradient=NONE)
register("tg.fresh", run=lambda x: x, effects=PURE, gradient=NONE)
# Where dropout with a chance of ``p`` keeps an element of a tensor of some type, in plans for GPUs.
register("tg.kept", run=_kept, effects=Effects(random=True), gradient=NONE)
# ``x`` with an item of a part of it replaced, in plans for GPUs.
register("tg.select_scatter", run=_select_scatter, effects=MAY_FAIL, gradient=NONE)
# ``x.select(d, n)`` for a number ``n`` of the run, in plans for GPUs that have shown that it is inside.
register("tg.item", run=lambda x, d, n: x.select(d, n), effects=PURE, gradient=NONE)
# The same where native code has to decline if it is a view of an argument.
register("tg.arranged", run=in_format_of, effects=PURE, gradient=NONE)
register("tg.apart", run=lambda x: x, effects=PURE, gradient=NONE)
# A tensor of the CPU whose content is on another device, as what the host does sees it.
register("tg.on_cpu", run=lambda x: x.cpu(), effects=PURE, gradient=NONE)
