"""Tensors as keys of dicts and items of sets, by which object they are, as in Python.

An argument that is looked up, or put, in a container from outside, or in one that holds tensors from outside, is taken for the caller's own tensor:
tracing begins anew with that, and a call with another one traces anew. A tensor that the call makes is no key of a container from outside.
"""

from __future__ import annotations

from typing import Any

import torch

from ..errors import StagingError
from ..runtime.guarding import reads
from ..runtime.symbols.funcgraph import current_graph, is_tracing, user_location
from ..runtime.symbols.retrace import Retrace
from ..runtime.symbols.symbolic import SymTensor
from ..runtime.values.keyed_parts import is_symbolic
from ..runtime.values.structure import OUTSIDE
from ..runtime.values.tables import is_table

_KEYED = (dict, set, frozenset)


def identify(x: Any, key: Any) -> None:
    """``key`` is about to be asked for in ``x``, or put there: ``Retrace`` where it is an argument that has to be known by itself."""
    if isinstance(key, tuple):
        for part in key:
            identify(x, part)
    elif (
        isinstance(key, SymTensor)
        and not key.chain
        and isinstance(x, _KEYED)
        and not is_table(x)
        and is_tracing()
    ):
        found = reads.argument(key)
        if found is not None and (_is_from_outside(x) or any(map(_is_real, _parts(x)))):
            raise Retrace(real=frozenset([found[1]]))


def _is_from_outside(x: Any) -> bool:
    """Whether a container was there before the call: one of the arguments is a copy of the caller's while tracing."""
    return OUTSIDE[0](x) or any(made is x for made, _ in current_graph().root.lent)


def _parts(x: Any) -> list[Any]:
    """The keys of a dict or items of a set, those of tuples apart."""
    keys = list(dict.keys(x)) if isinstance(x, dict) else list(x)
    return [part for k in keys for part in (k if isinstance(k, tuple) else (k,))]


def _is_real(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and not isinstance(x, SymTensor)


def is_among(x: torch.Tensor, items: Any) -> bool:
    """Whether a tensor is a key or an item."""
    for item in items:
        if isinstance(item, torch.Tensor):
            reads.compared(item, x)
    return any(item is x for item in items)


def equal_by_value(items: Any) -> Any:
    """The items that something else may be equal to: a tensor in a dict or set equals itself alone."""
    if not isinstance(items, _KEYED):
        return items
    return [item for item in items if not isinstance(item, torch.Tensor)]


def refuse_new(x: Any, key: Any) -> None:
    """StagingError for a tensor that the call makes, which is put into a dict or set from outside: each call makes another one."""
    if is_symbolic(key) and _is_from_outside(x):
        raise StagingError(
            f"a tensor that the function makes is put into a {type(x).__name__} from outside, which knows it as the object that it is: use what it holds "
            "(x.item()), a string or a tuple of these as the key, or a list",
            user_location(),
        )
