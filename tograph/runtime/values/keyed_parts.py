"""Sets and dicts as what makes them of their parts, where the items or keys are of the graph, or are there on some paths only: their parts are also these."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ..inference.shapes import SYMBOLS
from ..symbols.journal import MISSING
from ..symbols.symbolic import SymTensor
from . import conditional_items


def is_symbolic(x: Any) -> bool:
    """Whether something is a tensor or number of a graph, or a tuple of such."""
    return isinstance(x, (SymTensor, *SYMBOLS)) or (
        isinstance(x, tuple) and any(map(is_symbolic, x))
    )


def keyed(x: Any) -> tuple[Any, list[Any]] | None:
    """What makes such a set or dict, and of which parts; None for anything else."""
    kind = type(x)
    if kind in (set, frozenset) and (conditional_items.conditional(x) or any(map(is_symbolic, x))):
        return SetOf(kind), [*x, *(conditional_items.member(x, item) for item in x)]
    if issubclass(kind, dict) and any(map(is_symbolic, dict.keys(x))):
        make = DictOf(kind, getattr(x, "default_factory", None))
        return make, [*dict.keys(x), *dict.values(x)]
    return None


class SetOf:
    """Makes a set of its items, and then of whether each of them is there."""

    def __init__(self, kind: type):
        self.kind = kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SetOf) and self.kind is other.kind

    def __hash__(self) -> int:
        return hash(self.kind)

    def __call__(self, parts: list[Any]) -> Any:
        half = len(parts) // 2
        pairs = zip(parts[:half], parts[half:])
        return self.kind(item for item, held in pairs if held is not MISSING)


class DictOf:
    """Makes a dict of its keys and then its values: a key without one is not there."""

    def __init__(self, kind: type, factory: Any):
        self.kind, self.factory = kind, factory

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DictOf) and (self.kind, self.factory) == (
            other.kind,
            other.factory,
        )

    def __hash__(self) -> int:
        return hash(self.kind)

    def __call__(self, parts: list[Any]) -> Any:
        half = len(parts) // 2
        made = self.kind() if self.factory is None else self.kind(self.factory)
        # A Counter would add them up, an OrderedDict keeps the order beside the dict.
        put = OrderedDict.__setitem__ if isinstance(made, OrderedDict) else dict.__setitem__
        for key, value in zip(parts[:half], parts[half:]):
            if value is not MISSING:
                put(made, key, value)
        return made
