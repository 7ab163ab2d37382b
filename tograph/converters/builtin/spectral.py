"""``torch.istft`` with a window that only the run knows: torch's C++ code asks whether windows add up to zero somewhere, and raises there.

They do not, in the trace; the graph checks it, and raises what torch does.
"""

from __future__ import annotations

from typing import Any

import torch

from ...runtime.recording.tracing import suspended
from ...runtime.symbols.funcgraph import is_tracing
from ...runtime.symbols.required import expecting
from ...runtime.symbols.symbolic import SymTensor
from ..left_alone import leave_alone
from ..registry import handles


@handles(torch.istft, torch.Tensor.istft)
def istft(*args, **kwargs):
    """``torch.istft``."""
    if not is_tracing():
        return torch.istft(*args, **kwargs)
    with expecting(False, RuntimeError(_error_of_zeros(args, kwargs))):
        return leave_alone(torch.istft, args, kwargs)


def _error_of_zeros(args: tuple, kwargs: dict[str, Any]) -> str:
    """What torch says of a window of zeros."""
    tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, SymTensor)]
    if not all(x.meta.static for x in tensors):
        return _USUAL
    forms = {id(x): (tuple(x.shape), x.dtype) for x in tensors}
    with suspended():
        zeros = {at: torch.zeros(shape, dtype=dtype) for at, (shape, dtype) in forms.items()}
        try:
            torch.istft(
                *(zeros.get(id(x), x) for x in args),
                **{k: zeros.get(id(x), x) for k, x in kwargs.items()},
            )
        except (RuntimeError, TypeError) as error:
            return str(error)
    return _USUAL


_USUAL = "istft(...) window overlap add min: 1"
