"""What Python objects keep where one does not see it: closures, methods, generators, context managers and iterators that hold tensors of a graph.

Outside of the call they would show symbolic tensors, so they do not leave it.
"""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any

import torch

from ...errors import ScopeError
from ..symbols.funcgraph import user_location
from ..values import structure
from ..values.keyed_parts import is_symbolic


def holds(x: Any) -> bool:
    """Whether a value that something keeps is symbolic, or a container of such."""
    if isinstance(x, (list, tuple, set, frozenset)):
        return any(map(holds, list.__iter__(x) if isinstance(x, list) else x))
    held = [*dict.keys(x), *dict.values(x)] if isinstance(x, dict) else []
    return any(map(holds, held)) or is_symbolic(x)


def check(x: Any) -> None:
    """ScopeError where a Python object keeps something of the graph."""
    kept = _kept(x)
    if any(map(holds, kept)) or any(map(_has, [x, *kept])):
        what = getattr(x, "__qualname__", "") or f"a {type(x).__name__}"
        raise ScopeError(
            f"what leaves the function holds {what}, which keeps a tensor or number of the graph: outside it would be out of scope. "
            "Return the tensors themselves, and make functions, iterators and generators of them outside.",
            user_location(),
        )


def _has(x: Any) -> bool:
    """Whether an object that traced code made has attributes that hold something of the graph."""
    if isinstance(x, (type, types.ModuleType, types.FunctionType)) or not hasattr(x, "__dict__"):
        return False
    if hasattr(type(x), "__tograph_flatten__") or hasattr(type(x), "__tograph_holds__"):
        return False
    if isinstance(
        x, torch.optim.Optimizer
    ):  # its state is made again at each call: ``recording.creation``
        return False
    return not structure.OUTSIDE[0](x) and any(holds(v) or any(map(holds, _kept(v))) for v in vars(x).values())  # fmt: skip


def _kept(x: Any) -> list[Any]:
    """What a Python object that is no container keeps where one does not see it."""
    if isinstance(x, types.FunctionType):
        found = [*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
        for cell in x.__closure__ or ():
            try:
                found.append(cell.cell_contents)
            except ValueError:
                continue
        return found
    if isinstance(x, functools.partial):
        return [*x.args, *x.keywords.values()]
    if isinstance(x, (types.MethodType, types.BuiltinFunctionType)):
        return [x.__self__]
    if isinstance(x, types.GeneratorType):
        return list(x.gi_frame.f_locals.values()) if x.gi_frame is not None else []
    if hasattr(type(x), "__tograph_holds__"):
        held = x.__tograph_holds__()
        return [k for y in held for k in (_kept(y) if isinstance(y, Iterator) else [y])]
    if isinstance(x, types.MappingProxyType):
        return list(x.values())
    if isinstance(x, (KeysView, ValuesView, ItemsView)) and hasattr(x, "mapping"):
        return [*x.mapping.keys(), *x.mapping.values()]
    return _behind(x) if isinstance(x, Iterator) else []


def _behind(x: Any) -> list[Any]:
    """What an iterator of C takes its items from, such as ``zip``, ``map`` or that of a list."""
    found, todo, seen = list[Any](), [x], {id(x)}
    while todo:
        for y in gc.get_referents(todo.pop()):
            if id(y) in seen or isinstance(y, (type, types.ModuleType)):
                continue
            seen.add(id(y))
            if isinstance(y, (Iterator, tuple)):
                todo.append(y)
            else:
                found.append(y)
    return found
