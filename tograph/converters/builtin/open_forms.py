"""``torch.cov``, ``corrcoef``, ``kron``, ``multi_dot`` and ``rfft`` of tensors whose sizes, or weights, only the run knows: see ``runtime.open_forms``."""

from __future__ import annotations

from typing import Any

import torch

from ...runtime.library import open_forms
from ...runtime.symbols.products import is_open
from ...runtime.symbols.symbolic import SymTensor
from ..left_alone import leave_alone
from ..registry import TENSOR_METHODS, handles
from ..resolved import resolved


def _open(x: Any) -> bool:
    return any(map(is_open, x)) if isinstance(x, (list, tuple)) else is_open(x)


def _weighted(kwargs: dict[str, Any]) -> bool:
    """Whether ``cov`` gets weights, which torch looks at."""
    return any(isinstance(kwargs.get(name), SymTensor) for name in ("fweights", "aweights"))


def _where_open(function: Any, own: Any) -> Any:
    def run(args, kwargs):
        staged = any(map(_open, (*args, *kwargs.values()))) or _weighted(kwargs)
        if "out" not in kwargs and staged:
            found = own(*args, **kwargs)
            if found is not None:
                return found
        return leave_alone(function, args, kwargs)

    @handles(function)
    def form(*args, **kwargs):
        return resolved(run, function, args, kwargs)

    return form


for _function, _own in (
    (torch.cov, open_forms.cov),
    (torch.corrcoef, open_forms.corrcoef),
    (torch.kron, open_forms.kron),
):
    TENSOR_METHODS[_function.__name__] = _where_open(_function, _own)
_where_open(torch.linalg.multi_dot, open_forms.multi_dot)
_where_open(torch.fft.rfft, open_forms.rfft)
