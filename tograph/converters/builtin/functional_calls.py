"""``torch.func.functional_call`` with parameters that a staged condition chooses: ``fast`` is ``params`` or a dict that an iteration made.

Of dicts with the same names the tensors are chosen, each by itself, as ``fast["weight"]`` chooses them. The call stands behind that choice, so a gradient
of what it gives leads to the tensors that ``fast.values()`` gives.
"""

from __future__ import annotations

from typing import Any

import torch

from ...runtime.values.structure import is_union
from ..left_alone import leave_alone
from ..registry import handles
from ..subscripts import getitem

_functional_call = torch.nn.utils.stateless._functional_call


@handles(_functional_call)
def functional_call(module: Any, named: Any, *args: Any, **kwargs: Any) -> Any:
    return leave_alone(_functional_call, (module, _chosen(named), *args), kwargs)


def _chosen(named: Any) -> Any:
    """One dict, where all that it may be have the same names."""
    if not is_union(named) or not all(type(d) is dict for d in named.options_):
        return named
    names = list(named.options_[0])
    if any(d.keys() != named.options_[0].keys() for d in named.options_):
        return named
    return {name: getitem(named, name) for name in names}
