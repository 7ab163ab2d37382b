"""``torch.cov``, ``vander``, ``combinations``, ``gradient``, ``triu_indices`` and others of tensors whose sizes, or weights, only the run knows: see ``runtime.open_forms``."""

from __future__ import annotations

from typing import Any

import torch

from ...runtime.inference.shapes import SYMBOLS
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


def _where_open(function: Any, own: Any, numbers: bool = False) -> Any:
    """``own`` in the place of a function for tensors of open sizes; with ``numbers``, for those of the run too."""

    def run(args, kwargs):
        given = (*args, *kwargs.values())
        staged = any(map(_open, given)) or _weighted(kwargs) or (numbers and any(isinstance(x, SYMBOLS) for x in given))  # fmt: skip
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
for _function, _own in (
    (torch.linalg.norm, open_forms.norm),
    (torch.linalg.matrix_norm, open_forms.matrix_norm),
    (torch.combinations, open_forms.combinations),
    (torch.vander, open_forms.vander),
    (torch.linalg.vander, open_forms.powers),
    (torch.gradient, open_forms.gradient),
    (torch.triu_indices, open_forms.triu_indices),
    (torch.tril_indices, open_forms.tril_indices),
):
    _where_open(_function, _own, numbers=True)
