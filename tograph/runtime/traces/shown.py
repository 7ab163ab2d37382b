"""Which values have a text that only the run knows: those of the graph, and what shows them."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from ..control_flow import StagedException
from ..inference.shapes import SYMBOLS
from ..library.staged_string import StagedString
from ..symbols.funcgraph import is_tracing
from ..symbols.symbolic import SymTensor
from ..values import pytrees
from ..values.dict_views import of_view
from ..values.keyed_parts import keyed
from ..values.structure import is_growing, is_union
from ..values.tables import is_table

_PLAIN = (str, int, float, complex, bytes, type(None))


def shows_staged(x: Any, seen: set[int] | None = None) -> bool:
    """Whether a value, or something in it that its text shows, is staged.

    A real tensor counts while tracing: it is captured. Of an object that does not say what its text is, nothing is shown.
    """
    seen = set() if seen is None else seen  # what is walked already, or is being walked
    if isinstance(x, _PLAIN) or id(x) in seen:
        return False
    if isinstance(x, torch.Tensor):
        return isinstance(x, SymTensor) or is_tracing()
    if isinstance(x, (StagedString, StagedException, *SYMBOLS)) or is_union(x) or _of_the_run(x):
        return True
    if is_growing(x):
        return True
    seen.add(id(x))
    return any(shows_staged(part, seen) for part in parts_shown(x))


def _of_the_run(x: Any) -> bool:
    return getattr(type(x), "__tograph_shown__", False)


def parts_shown(x: Any) -> list[Any]:
    """What the text of a value shows of other values; nothing of one that only the run knows."""
    if isinstance(x, (torch.Tensor, StagedString, StagedException, *SYMBOLS)) or is_union(x) or _of_the_run(x):  # fmt: skip
        return []
    if isinstance(x, set) and is_table(x):
        return []
    if (by_key := keyed(x)) is not None:
        return by_key[1]
    if isinstance(x, set):
        return list(x)
    if isinstance(x, BaseException):
        return list(x.args)
    if (viewed := of_view(x)) is not None:
        return [] if viewed[1] == "keys" else list(viewed[0].values())
    if not isinstance(x, (list, tuple, dict)) and not _says_text(type(x)):
        return []
    found = pytrees.parts_of(x)
    if found is None:
        return list(x.values()) if isinstance(x, dict) else []
    return found[1]


def _says_text(cls: type) -> bool:
    """Whether a class has a text of its own, and not where its object lies in memory."""
    plain = cls.__repr__ is object.__repr__ and cls.__str__ is object.__str__
    return not plain or dataclasses.is_dataclass(cls)
