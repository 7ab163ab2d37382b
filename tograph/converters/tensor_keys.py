"""Tensors as keys of dicts and items of sets, by which object they are, as in Python.

An argument that is looked up, or put, in a container from outside, or in one that holds tensors from outside, is taken for the caller's own tensor:
tracing begins anew with that, and a call with another one traces anew. A tensor that the call makes is no key of a container from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import torch

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.guarding import reads
from ..runtime.symbols.funcgraph import current_graph, is_tracing, user_location
from ..runtime.symbols.retrace import Retrace
from ..runtime.symbols.symbolic import SymTensor
from ..runtime.values.keyed_parts import is_symbolic
from ..runtime.values.structure import OUTSIDE
from ..runtime.values.tables import is_table
from .logical import and_, or_

_KEYED = (dict, set, frozenset)


def identify(x: Any, key: Any) -> None:
    """``key`` is about to be asked for in ``x``, or put there: ``Retrace`` where it is an argument that has to be known by itself.

    StagingError where a staged condition decides whether it is one of the tensors that are there. Of a set or dict, each item.
    """
    if not is_tracing() or not isinstance(x, _KEYED) or is_table(x) or is_table(key):
        return
    _keyed(x, key)
    if isinstance(key, torch.Tensor) and _contains(x, key):
        return  # it was told apart from the others when it came
    for part in _tensors(_parts(key) if isinstance(key, _KEYED) else [key]):
        _argument(x, part)
        if any(is_one(part, held) is not False for held in _tensors(_parts(x))):
            _refuse_staged()


def _keyed(x: Any, key: Any) -> None:
    kind: Any = next(k for k in _KEYED if isinstance(x, k))
    reads.keyed(key, lambda: kind.__iter__(x))  # also those that are there in some runs only


def _contains(x: Any, key: torch.Tensor) -> bool:
    kind: Any = next(k for k in _KEYED if isinstance(x, k))
    return kind.__contains__(x, key)


def _argument(x: Any, key: torch.Tensor) -> None:
    found = reads.argument(key) if isinstance(key, SymTensor) and not key.chain else None
    if found is not None and (_is_from_outside(x) or any(map(_is_real, _tensors(_parts(x))))):
        raise Retrace(real=frozenset([found[1]]))


def apart(keys: Iterable[Any]) -> None:
    """The keys of a new dict, or items of a new set: StagingError where a staged condition decides whether two are one tensor."""
    keys = list(keys)
    reads.compared_by_value(*keys)
    held = _tensors(keys) if is_tracing() else []
    for i, key in enumerate(held):
        if any(is_one(key, other) is not False for other in held[:i]):
            _refuse_staged()


def is_one(a: torch.Tensor, b: torch.Tensor) -> Any:
    """Whether two different keys may be one tensor: False, or a staged bool."""
    if a is b or not (isinstance(a, SymTensor) or isinstance(b, SymTensor)):
        return False
    if _is_real(a) or _is_real(b):
        reads.compared(a, b)
    return control_flow.same_tensor(a, b)


def _refuse_staged() -> NoReturn:
    raise StagingError(
        "whether a tensor is a key or item here is known only when the graph runs, as a staged condition or loop binds its name to one of several: "
        "compare by `is` or `in`, or use a list",
        user_location(),
    )


def _is_from_outside(x: Any) -> bool:
    """Whether a container was there before the call: one of the arguments is a copy of the caller's while tracing."""
    return OUTSIDE[0](x) or any(made is x for made, _ in current_graph().root.lent)


def _parts(x: Any) -> list[Any]:
    return list(dict.keys(x)) if isinstance(x, dict) else list(x)


def _tensors(keys: Iterable[Any]) -> list[torch.Tensor]:
    """The tensors among keys and in those that are tuples."""
    parts = [p for k in keys for p in (k if type(k) is tuple else (k,))]
    return [p for p in parts if isinstance(p, torch.Tensor)]


def _is_real(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and not isinstance(x, SymTensor)


def is_among(x: torch.Tensor, items: Any, there: Callable[[Any], Any]) -> Any:
    """Whether a tensor is one of some keys or items, of which ``there`` tells whether they are there: a bool, plain or staged."""
    _argument(items, x)
    if _contains(items, x):
        return there(x)
    found: Any = False
    for item in _parts(items):
        same = is_one(item, x) if isinstance(item, torch.Tensor) else False
        if same is not False:
            found = or_(found, lambda item=item, same=same: and_(same, lambda: there(item)))
    return found


def equal_by_value(items: Any) -> Any:
    """The items that something else may be equal to: a tensor in a dict or set equals itself alone."""
    if not isinstance(items, _KEYED):
        return items
    return [item for item in items if not isinstance(item, torch.Tensor)]


def refuse_new(x: Any, key: Any) -> None:
    """StagingError for a tensor that the call makes, which is put into a dict or set from outside: each call makes another one."""
    if isinstance(x, _KEYED) and not is_table(x):
        _keyed(x, key)
    if is_symbolic(key) and _is_from_outside(x):
        raise StagingError(
            f"a tensor that the function makes is put into a {type(x).__name__} from outside, which knows it as the object that it is: use what it holds "
            "(x.item()), a string or a tuple of these as the key, or a list",
            user_location(),
        )
