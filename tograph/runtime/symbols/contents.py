"""What tensors from outside hold, where code needs that while tracing: it becomes a guard.

``x.numpy()`` needs the numbers themselves. Where pure ops make ``x`` of constants and of tensors from outside of the function that nothing in
it has written, it is computed at once, and the trace serves calls that find the same content in those tensors. Not so for
arguments, which are there to change, nor for large tensors, which each call would compare.

The array is one that cannot be written, since the graph would not see that; and what it shares memory with is not written after that.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import AliasError, Location
from ..graph.ir import Value
from .funcgraph import FuncGraph, Storage, current_graph, user_location
from .known import UNKNOWN, known

LARGEST = 1 << 16  # elements

_kept: weakref.WeakKeyDictionary[Storage, Location | None] = weakref.WeakKeyDictionary()
_asking: list[bool] = []


def content(value: Value) -> Any:
    """The tensor or number that a value is as long as tensors from outside hold what they do; UNKNOWN for one that depends on more."""
    outside = _Outside()
    found = known(value, outside)
    if found is UNKNOWN:
        return found
    for storage in outside.read:
        if not GUARD(storage.external):
            return UNKNOWN
        if outside.repeats:  # an iteration may write what the next one reads
            _kept[storage] = user_location()
    return found.clone() if isinstance(found, torch.Tensor) else found


@contextmanager
def asked() -> Iterator[None]:
    """Code that torch or numpy have in C may ask numbers for what they are."""
    _asking.append(True)
    try:
        yield
    finally:
        _asking.pop()


def may_ask() -> bool:
    return bool(_asking)


def asked_for(value: Value) -> Any:
    """``content`` of what a number is, where code may ask for it."""
    return content(value) if _asking else UNKNOWN


def array(value: Value, storage: Storage, shares: bool) -> Any:
    """The array that a tensor is; None where it is not known. ``shares``: in the memory of the tensor."""
    with _disable_current_modes():
        found = content(value)
        if found is UNKNOWN or found.device.type != "cpu":
            return None
        made = found.resolve_conj().resolve_neg().numpy()
    made.flags.writeable = False
    if shares:
        _kept[storage] = user_location()
    return made


def check_write(storage: Storage) -> None:
    """AliasError for a write to what an array shares memory with, or to what an earlier iteration took for known."""
    if storage in _kept:
        at = _kept[storage]
        where = f" (line {at[1]})" if at else ""
        raise AliasError(
            f"a tensor is changed in place whose content was needed while tracing{where}, by numpy() or by code that was not converted: "
            "what was made of it there would not change. Change it before, or use torch functions instead",
            user_location(),
        )


class _Outside(Mapping[Value, Any]):
    """What the current graph sees of the outside: values of graphs around it, and tensors that nothing has written."""

    def __init__(self) -> None:
        graph: FuncGraph | None = current_graph()
        self.root, self.repeats = graph.root, False
        self.inputs: dict[Value, Any] = {}
        self.read: dict[Storage, None] = {}
        while graph is not None:
            self.inputs.update((v, key) for key, v in graph.captures.items())
            self.repeats |= graph.repeats
            graph = graph.outer

    def _storage(self, value: Value) -> Storage | None:
        """The tensor from outside that a value is the content of, where nothing has written it."""
        node = value.node
        found = self.inputs.get(node.args[0]) if node is not None and node.op == "tg.read" else None
        fixed = isinstance(found, Storage) and found.late is None and found.argument is None
        return found if fixed and self._unchanged(found) else None

    def _unchanged(self, storage: Storage) -> bool:
        x = storage.external
        if x is None or x.numel() > LARGEST or x.layout is not torch.strided:
            return False
        return id(storage) not in self.root.assigned and not any(x is g for g in self.root.given)

    def __contains__(self, value: object) -> bool:
        assert isinstance(value, Value)
        return isinstance(self.inputs.get(value), Value) or self._storage(value) is not None

    def __getitem__(self, value: Value) -> Any:
        key = self.inputs.get(value)
        if isinstance(key, Value):
            return key
        storage = self._storage(value)
        if storage is None:
            raise KeyError(value)
        self.read[storage] = None
        return storage.external

    def __iter__(self) -> Iterator[Value]:
        return iter(self.inputs)

    def __len__(self) -> int:
        return len(self.inputs)


def GUARD(x: torch.Tensor) -> bool:
    """The trace serves calls that find the same content in ``x``; False where they look it up. Set by ``reads``, which knows where it was found."""
    return False
