"""Questions about tensors in a trace: the ``metas`` of an op's arguments, attributes that code has given, what one is as an index."""

from __future__ import annotations

from typing import Any

import torch

from ..inference.infer import meta_of
from .symbolic import PLAIN, SymTensor, as_symbolic, scalar_of


def metas(x: Any) -> Any:
    if type(x) is SymTensor:
        return x.meta
    if type(x) in PLAIN:
        return x
    if isinstance(x, torch.Tensor):
        return x.meta if isinstance(x, SymTensor) else meta_of(x)
    if type(x) in (list, tuple) or isinstance(x, (list, tuple)):
        return tuple(metas(a) for a in x)
    return x


def given_attributes(x: torch.Tensor) -> dict[str, Any]:
    """The attributes that code has given to a tensor."""
    hidden = HIDDEN if isinstance(x, SymTensor) else ()
    return {n: v for n, v in x.__dict__.items() if n not in hidden and n != "requires_grad"}


# What symbolic tensors have, and those of PyTorch have not.
HIDDEN = frozenset(
    {*vars(SymTensor), *SymTensor.__annotations__, "taken_"} - set(dir(torch.Tensor))
)


def hides(x: Any, name: str) -> bool:
    """Whether a tensor of the code has no such attribute, though a symbolic one has."""
    return name in HIDDEN and type(x) is SymTensor


def index_of(x: torch.Tensor) -> Any:
    """The staged int that ``operator.index`` makes of a tensor."""
    one = all(type(n) is not int or n == 1 for n in as_symbolic(x).meta.size)
    if not one or x.dtype.is_floating_point or x.dtype.is_complex:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return scalar_of(x.to(torch.int64) if x.dtype == torch.bool else x)
