"""Subscripts by a union, or of one, also in slices and tuples: ``x[k:]`` where ``k`` is a number on one path and a tensor or None on the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..runtime.values.structure import is_union
from .tensor_index import as_int
from .union import apply, distribute


def holds_union(x: Any, key: Any) -> bool:
    """Whether a key is a union, a slice with one, or a tuple with one that indexes a tensor; other tuples are keys themselves."""
    if is_union(key):
        return True
    if isinstance(key, slice):
        return any(map(is_union, (key.start, key.stop, key.step)))
    if type(key) is tuple and isinstance(x, torch.Tensor):
        return any(holds_union(None, part) for part in key)
    return False


def each_key(function: Callable[[Any, Any], Any], x: Any, key: Any) -> Any:
    """``function(x, key)`` with ``x`` and every union in ``key`` resolved."""
    if is_union(x) or is_union(key):
        return apply(function, x, key)
    if isinstance(key, slice):
        return _resolved(lambda *bounds: function(x, slice(*bounds)), key.start, key.stop, key.step)

    def joined(*bounds: Any) -> Any:
        left = iter(bounds)
        parts = [
            slice(*[next(left) for _ in range(3)]) if isinstance(p, slice) else next(left)
            for p in key
        ]
        return function(x, tuple(parts))

    flat = [b for p in key for b in ((p.start, p.stop, p.step) if isinstance(p, slice) else (p,))]
    return _resolved(joined, *flat)


def _resolved(function: Callable[..., Any], *bounds: Any) -> Any:
    """``function(*bounds)``; a number or a whole tensor of no dimensions is one number of the graph, which needs no branch."""
    return apply(function, *[distribute(as_int, b) if is_union(b) else b for b in bounds])
