"""What Python demands of the special methods that it calls: converted ones are called as functions, and checked here."""

from __future__ import annotations

from typing import Any

import torch

from ..runtime.inference.shapes import SYMBOLS
from ..runtime.library.staged_string import StagedString
from ..runtime.symbols.required import require
from ..runtime.values.growing import StagedList
from ..runtime.values.structure import is_union
from .staging import is_staged

_TEXT = "{name} returned non-string (type {kind})"
_WANTED: dict[str, tuple[type, str]] = {
    "__str__": (str, _TEXT),
    "__repr__": (str, _TEXT),
    "__format__": (str, "{name} must return a str, not {kind}"),
    "__int__": (int, "{name} returned non-int (type {kind})"),
    "__float__": (float, "{owner}.{name} returned non-float (type {kind})"),
}
_NO_ITERATORS = (list, StagedList, tuple, dict, set, frozenset, str, range, int, float, type(None), torch.Tensor)  # fmt: skip


def checked(name: str, owner: Any, found: Any) -> Any:
    """``found``, which a special method gave; TypeError in Python's words where it may not."""
    wanted, words = _WANTED.get(name, (object, ""))
    may_be = is_union(found) or isinstance(found, (StagedString, wanted))
    if may_be or (is_staged(found) and wanted is not str):
        return found
    kind, of = found.__class__.__name__, type(owner).__name__
    raise TypeError(words.format(name=name, kind=kind, owner=of))


def initialised(found: Any) -> None:
    """TypeError where ``__init__`` gave anything."""
    if found is not None and not is_union(found):
        raise TypeError(f"__init__() should return None, not {found.__class__.__name__!r}")


def iterator(found: Any) -> Any:
    """What ``__iter__`` gave."""
    if type(found) in _NO_ITERATORS:
        raise TypeError(f"iter() returned non-iterator of type {found.__class__.__name__!r}")
    return found


class _Sized:
    def __init__(self, n: Any):
        self.n = n

    def __len__(self) -> int:
        return self.n


def size(n: Any) -> Any:
    """What ``__len__`` gave."""
    if isinstance(n, torch.SymInt):
        require(n >= 0, ValueError("__len__() should return >= 0"))
    return n if isinstance(n, SYMBOLS) or is_union(n) else len(_Sized(n))
