"""``f(**items)``: a key that ``items`` has by a staged condition only makes a branch for the call with it and one without; of
several dicts by a staged condition there is a branch for the call with each.
"""

from __future__ import annotations

from typing import Any

from ..runtime.guarding import reads, unconverted
from ..runtime.symbols.funcgraph import is_tracing
from ..runtime.values import conditional_items
from ..runtime.values.structure import is_union, may_miss
from . import union
from .star_arguments import call_starred


class _Perhaps:
    """An argument of ``**items`` whose key is there by a staged condition only."""

    def __init__(self, x: Any):
        self.x = x


class _OneOf:
    """All of ``**items``, which is one of several dicts."""

    def __init__(self, x: Any):
        self.x = x


def spread(items: Any) -> Any:
    """``**items``"""
    if is_tracing() and is_union(items):
        return {f"**{id(items)}": _OneOf(items)}
    if not hasattr(items, "keys"):
        raise TypeError(f"argument after ** must be a mapping, not {type(items).__name__}")
    if not is_tracing():
        return items
    reads.passed((items,))
    if type(items) is dict and not conditional_items.is_unordered(items):
        return {k: _Perhaps(x) if may_miss(x) else x for k, x in items.items()}
    unconverted.check_keys(items)
    return items


def call_spread(f, /, *args, **kwargs):
    """``f(*args, **kwargs)``, with keys that are there by a staged condition: with and without each of them."""
    name = next((k for k, x in kwargs.items() if type(x) in (_Perhaps, _OneOf)), None)
    if name is None:
        return call_starred(f, *args, **kwargs)
    if type(kwargs[name]) is _OneOf:
        items = kwargs.pop(name).x
        return union.distribute(lambda d: call_spread(f, *args, **_joined(f, kwargs, spread(d))), items)  # fmt: skip
    rest = {k: v for k, v in kwargs.items() if k != name}
    return union.distribute_missing(
        kwargs[name].x,
        lambda: call_spread(f, *args, **rest),
        lambda v: call_spread(f, *args, **{**kwargs, name: v}),
    )


def call_keywords(f, /, args, *parts):
    """The same, with keywords in parts: pairs of a name and a value, and of None and what ``spread`` gave."""
    kwargs: dict[str, Any] = {}
    for name, x in parts:
        kwargs = _joined(f, kwargs, x if name is None else {name: x})
    return call_spread(f, *args, **kwargs)


def _joined(f: Any, kwargs: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    for name in more:
        if name in kwargs:
            raise TypeError(f"{_called(f)} got multiple values for keyword argument {name!r}")
    return {**kwargs, **more}


def _called(f: Any) -> str:
    """A function in errors of Python about its arguments."""
    name, module = getattr(f, "__qualname__", None), getattr(f, "__module__", None)
    if name is None:
        return str(f)
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"
