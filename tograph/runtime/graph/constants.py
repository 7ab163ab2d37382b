"""A small tensor as a node: its numbers stand in the graph, as nested lists."""

from __future__ import annotations

from typing import Any

import torch


def constant_of(x: torch.Tensor) -> tuple[str, tuple, dict[str, Any]]:
    """(op, arguments, keywords) of a node that gives a tensor with the numbers of ``x``.

    Nested lists do not show sizes that stand behind a 0: such a tensor, which has no numbers, is made by its shape.

    >>> constant_of(torch.ones(2))[1][0], constant_of(torch.ones(0, 3))[1][0]
    ([1.0, 1.0], [0, 3])
    """
    if 0 in x.shape[:-1]:
        return "aten.zeros.default", (list(x.shape),), {"dtype": x.dtype, "device": x.device}
    return "tg.constant", (x.tolist(), x.dtype, x.device), {}
