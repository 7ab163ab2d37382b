"""``f(**items)``: a key that ``items`` has by a staged condition only makes a branch for the call with it and one without."""

from __future__ import annotations

from typing import Any

from ..runtime.guarding import reads, unconverted
from ..runtime.symbols.funcgraph import is_tracing
from ..runtime.values import conditional_items
from . import union
from .star_arguments import call_starred


class _Perhaps:
    """An argument of ``**items`` whose key is there by a staged condition only."""

    def __init__(self, x: Any):
        self.x = x


def spread(items: Any) -> Any:
    """``**items``"""
    if not is_tracing():
        return items
    reads.passed((items,))
    if type(items) is dict and not conditional_items.is_unordered(items):
        return {k: _Perhaps(x) if union.may_miss(x) else x for k, x in items.items()}
    unconverted.check_keys(items)
    return items


def call_spread(f, /, *args, **kwargs):
    """``f(*args, **kwargs)``, with keys that are there by a staged condition: with and without each of them."""
    name = next((k for k, x in kwargs.items() if type(x) is _Perhaps), None)
    if name is None:
        return call_starred(f, *args, **kwargs)
    rest = {k: v for k, v in kwargs.items() if k != name}
    return union.distribute_missing(
        kwargs[name].x,
        lambda: call_spread(f, *args, **rest),
        lambda v: call_spread(f, *args, **{**kwargs, name: v}),
    )
