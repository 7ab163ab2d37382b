"""``module[i]`` of a ``torch.nn.Sequential``, which takes a step of an iterator that nobody else has.

A step of an iterator is refused in a staged branch or loop, since it may be one from outside that would advance while tracing.
"""

from __future__ import annotations

import operator
from typing import Any

import torch

from ...runtime.guarding import reads
from ..calls import call
from ..registry import handles


@handles(torch.nn.Sequential._get_item_by_idx)
def item_by_index(module: torch.nn.Module, iterator: Any, idx: Any) -> Any:
    reads.passed((iterator,))
    items = list(iterator)
    at = call(operator.index, idx)
    if not -len(items) <= at < len(items):
        raise IndexError(f"index {idx} is out of range")
    return items[at]
