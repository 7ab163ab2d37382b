"""Optimisers with ``foreach=True``, the default on a GPU, whose state is there in some runs only: one parameter after the other.

torch sorts the lists of tensors that such a step updates in C++, which takes tensors and None. In the first iteration of a staged loop a
parameter has no momentum yet, so that it is one or the other. The functions are torch's private ones.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from ...runtime.symbols.funcgraph import is_tracing
from ...runtime.values.structure import is_union
from ..calls import call
from ..conversion import converted
from ..registry import handles


def _staged(multi: Any, single: Any) -> Any:
    def update(*args: Any, **kwargs: Any) -> Any:
        if not is_tracing():
            return multi(*args, **kwargs)
        lists = [a for a in args if isinstance(a, list)]
        if any(is_union(x) for xs in lists for x in list.__iter__(xs)):
            return call(single, *args, **kwargs)
        return converted(multi)(*args, **kwargs)

    return update


for _class in ("SGD", "Adafactor"):
    _name = _class.lower()
    _module = sys.modules[getattr(torch.optim, _class).step.__module__]
    _multi, _single = (getattr(_module, f"_{kind}_tensor_{_name}", None) for kind in ("multi", "single"))  # fmt: skip
    if _multi is not None and _single is not None:
        handles(_multi)(_staged(_multi, _single))
