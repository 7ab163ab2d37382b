"""Modules and functions in attributes that are called by the name of a method that tensors and containers have: ``self.norm(x)``.

Converted code leaves ``x.norm`` in such a call as it is, so that ``x.sum()`` of a tensor stays readable, and does not tell that an attribute is read. What is called tells
instead: it is looked for in such attributes of the objects that the trace has found, and each of them counts as read.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch

from . import reads

METHODS = frozenset(
    n for c in (torch.Tensor, list, dict, str, set, tuple, deque, bytes) for n in dir(c)
)
_NO_OWNERS = (type, types.ModuleType, types.FunctionType, torch.Tensor)


def read(f: Any) -> None:
    """``f`` of the user is about to be called."""
    watch = reads.current()
    if watch is None or watch.source_of(f) is not None or id(f) in watch.called:
        return
    watch.called[id(f)] = f
    for owner, _ in list(watch.sources.values()):
        for name in _names(owner, f):
            watch.attribute(owner, name, f)


def _names(owner: Any, f: Any) -> Iterator[str]:
    """The attributes of an object that hold ``f`` and may be read untold."""
    fields = getattr(owner, "__dict__", None)
    if type(fields) is not dict or isinstance(owner, _NO_OWNERS):
        return
    parts = [fields, fields.get("_modules")] if isinstance(owner, torch.nn.Module) else [fields]
    for part in parts:
        if part:
            yield from sorted(n for n in part.keys() & METHODS if part[n] is f)
