"""Images and volumes that lie in memory pixel by pixel: ``torch.channels_last`` and ``torch.channels_last_3d``, by sizes and strides alone.

Many kernels give a result in the order that an operand *suggests*, which is told by how its strides compare. The rule is that of c10's ``is_channels_last_strides``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

RANKS = {torch.channels_last: 4, torch.channels_last_3d: 5}


def channels_last(size: Sequence[int]) -> tuple[int, ...]:
    """The strides of a new tensor in this format, of rank 4 or 5."""
    channels, *pixels = size[1:]
    inner = [channels * math.prod(max(n, 1) for n in pixels[i + 1 :]) for i in range(len(pixels))]
    return (channels * math.prod(max(n, 1) for n in pixels), 1, *inner)


def suggests_channels_last(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether torch takes a tensor of these strides for one in this format. Of one that may be in either, it does not."""
    if len(size) not in RANKS.values() or not stride[1]:
        return False
    least = 0
    for d in (1, *range(len(size) - 1, 1, -1), 0):
        if not size[d] or stride[d] < least or (d == 0 and least == stride[1]):
            return False
        least = stride[d] * size[d]
    return True
