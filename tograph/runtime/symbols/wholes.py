"""Which tensor object is all of a memory, or a leaf that the code made of a view of it: what a trace knows of objects where it has the memory only."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .root import Root


def _key(x: Any) -> Hashable:
    return id(x.storage_), tuple(map(id, x.chain))


def note(x: Any, root: Root) -> None:
    """``x`` is the tensor that shows its memory in its way."""
    root.wholes[_key(x)] = x, x.storage_, x.chain  # kept, as their ids are


def whole(x: Any, root: Root) -> Any:
    """The tensor object that shows a memory as ``x`` does; None where the trace knows of none."""
    if x.storage_.external is not None and not x.chain:
        return x.storage_.external
    found = root.wholes.get(_key(x))
    return None if found is None else found[0]
