"""Methods of Python and torch that give a new list: in a trace it is one that may become a list of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...runtime.guarding import reads
from ...runtime.symbols.symbolic import SymTensor, scalar_of
from ..calls import call
from ..for_stmt import for_stmt
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
    if not is_staged(x):
        return _new(x.tolist())
    if x.dim() == 0:
        return scalar_of(x)
    if type(x.shape[0]) is int:
        return new_list(*map(tolist, x.unbind(0)))
    made = new_list()
    for_stmt(x, lambda row: call(made.append, tolist(row)), ())
    return made


def _new(x: Any) -> Any:
    return new_list(*map(_new, x)) if isinstance(x, list) else x


TENSOR_METHODS["tolist"] = tolist
handles(SymTensor.tolist)(tolist)
