"""Optimisers with ``fused=True``: the update of one parameter after the other, which a graph's own kernels fuse.

torch's fused kernels write several lists of tensors at once, which is no op of a graph. The functions are torch's private ones;
where a version has others, such an optimiser is refused.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from ...runtime.symbols.funcgraph import is_tracing
from ..calls import call
from ..registry import handles


def _staged(fused: Any, single: Any) -> Any:
    def update(*args, **kwargs):
        if not is_tracing():
            return fused(*args, **kwargs)
        return call(single, *args, **kwargs)

    return update


for _class in ("Adam", "SGD", "Adagrad"):
    _name = _class.lower()
    _module = sys.modules[getattr(torch.optim, _class).__module__]
    _fused, _single = (getattr(_module, f"_{kind}_{_name}", None) for kind in ("fused", "single_tensor"))  # fmt: skip
    if _fused is not None and _single is not None:
        handles(_fused)(_staged(_fused, _single))
