"""What a piece of code can reach: objects and variables that exist before it runs.

A region of a staged construct may change objects that it made itself, which concerns nobody, and objects that were
there before, which are state. The latter are those reachable from the functions that the region runs: their cells,
the globals that their code names, and what these hold.
"""

from __future__ import annotations

import types
import weakref
from collections import deque
from collections.abc import Iterable
from typing import Any

import torch

from .funcgraph import Ref

LIMIT = 50_000
_OURS = __name__.partition(".")[0] + "."
_ATOMS = (int, float, bool, str, bytes, complex, type(None), torch.Tensor, torch.dtype, types.ModuleType, type,
          types.CodeType, torch.SymInt, torch.SymFloat, torch.SymBool, Ref)  # fmt: skip


def reachable(roots: Iterable[Any]) -> set[int]:
    """The ids of all objects and cells that can be reached from ``roots``, at most ``LIMIT`` of them."""
    seen: set[int] = set()
    todo = deque(roots)
    while todo and len(seen) < LIMIT:
        x = todo.popleft()
        if isinstance(x, _ATOMS) or id(x) in seen:
            continue
        seen.add(id(x))
        todo.extend(_children(x))
    return seen


def _children(x: Any) -> list[Any]:
    if getattr(type(x), "__tograph_opaque__", False):
        return []
    if isinstance(x, types.FunctionType):
        return [*(x.__closure__ or ()), *(x.__defaults__ or ()), *_globals(x)]
    if isinstance(x, (types.BuiltinMethodType, types.MethodWrapperType)):
        return [x.__self__]  # of a function it is the module, or None
    if isinstance(x, types.MethodType):
        return [x.__self__, x.__func__]
    if isinstance(x, (types.CellType, weakref.ref)):
        return _held(x)
    if isinstance(x, dict):
        return list(x.values())
    if isinstance(x, list):
        return [*list.__iter__(x)]  # a list of the graph refuses its own iterator
    if isinstance(x, (tuple, set, frozenset, deque)):
        return list(x)
    found = [vars(x)] if hasattr(x, "__dict__") else []
    slots = [
        getattr(x, s, None) for c in type(x).__mro__ for s in _names(getattr(c, "__slots__", ()))
    ]
    return found + slots


def _held(x: types.CellType | weakref.ref) -> list[Any]:
    try:
        return [x() if isinstance(x, weakref.ref) else x.cell_contents]
    except ValueError:  # an empty cell
        return []


def _names(slots: Any) -> tuple[str, ...]:
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(n for n in names if not n.startswith("__"))


def _globals(f: types.FunctionType) -> list[Any]:
    if f.__globals__.get("__name__", "").startswith(_OURS):
        return []  # the operators of converted code hold nothing of the user's but in their closures
    return [f.__globals__[n] for n in code_names(f.__code__) if n in f.__globals__]


def code_names(code: types.CodeType) -> list[str]:
    """The global and attribute names of a code object and of those nested in it."""
    found = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += code_names(constant)
    return found
