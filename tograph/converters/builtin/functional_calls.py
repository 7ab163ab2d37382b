"""``torch.func.functional_call`` with parameters that a staged condition chooses: ``fast`` is ``params`` or a dict that an iteration made.

torch's code writes what the module has bound anew (``self.h = f(self.h)``) to the dict that it is given. It gets a copy here, and only names that were
bound anew are written to the dict itself: a dict that is written cannot be one whose tensors a condition chose each by itself, as ``fast["weight"]`` and
``fast.values()`` do, and a gradient of what the call gives leads to those.
"""

from __future__ import annotations

from typing import Any

import torch

from ...runtime.values.structure import is_union
from ..conversion import converted
from ..registry import handles
from ..subscripts import getitem, setitem
from ..union import distribute

_functional_call = torch.nn.utils.stateless._functional_call


@handles(_functional_call)
def functional_call(module: Any, named: Any, *args: Any, **kwargs: Any) -> Any:
    names = _names(named)
    if names is None and is_union(named):
        return distribute(lambda d: functional_call(module, d, *args, **kwargs), named)
    if names is None:
        return converted(_functional_call)(module, named, *args, **kwargs)
    given = {name: getitem(named, name) for name in names}
    before = dict(given)
    try:
        return converted(_functional_call)(module, given, *args, **kwargs)
    finally:
        for name in names:
            if given[name] is not before[name]:
                setitem(named, name, given[name])


def _names(named: Any) -> list[Any] | None:
    """The keys that all dicts have which this may be; None where they differ, or it may be anything else."""
    options = named.options_ if is_union(named) else [named]
    if not all(type(d) is dict and d.keys() == options[0].keys() for d in options):
        return None
    return list(options[0])
