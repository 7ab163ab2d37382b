"""Methods of Python and torch that give a new list: in a trace it is one that may become a list of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...runtime import reads
from ...runtime.symbolic import SymTensor, scalar_of
from ..lists import new_list
from ..registry import METHODS, TENSOR_METHODS, handles
from ..staging import is_staged


def _listed(kind: type, name: str) -> None:
    method: Callable = getattr(kind, name)

    def form(owner: Any, *args: Any, **kwargs: Any) -> list:
        reads.passed((owner,))
        return new_list(*method(owner, *args, **kwargs))

    METHODS[kind, name] = form


for _name in ("split", "rsplit", "splitlines"):
    _listed(str, _name)
_listed(list, "copy")


def tolist(x: Any) -> Any:
    """``Tensor.tolist``"""
    if is_staged(x):
        return scalar_of(x) if x.dim() == 0 else new_list(*map(tolist, x.unbind(0)))
    return _new(x.tolist())


def _new(x: Any) -> Any:
    return new_list(*map(_new, x)) if isinstance(x, list) else x


TENSOR_METHODS["tolist"] = tolist
handles(SymTensor.tolist)(tolist)
