"""Results that are views of memory of the call's own.

torch does not let a view that a function with a gradient of its own gives be written in place: what it is a view of would not hear of it. Where
nobody can reach that (``return y.t()``), there is no such thing, and eager PyTorch writes it. So it leaves as a tensor that is no view; it keeps the
version of the memory, by which a write to what was saved is seen. Views of an argument, and of what another result shares, stay views.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from .nesting import flattened


def unbased(outs: Sequence[Any], count: int, inputs: Sequence[Any]) -> Sequence[Any]:
    """What a forward program gave, the first ``count`` of which leave."""
    views = [i for i, x in enumerate(outs[:count]) if isinstance(x, torch.Tensor) and x._is_view()]
    if not views:
        return outs
    having = [x for x in flattened([*outs[:count], *inputs])[0] if isinstance(x, torch.Tensor)]
    owners = Counter(map(_memory, having))
    made = list(outs)
    for i in views:
        if owners[_memory(outs[i])] == 1:
            made[i] = outs[i].detach()
    return made


def _memory(x: torch.Tensor) -> int:
    return x.untyped_storage()._cdata
