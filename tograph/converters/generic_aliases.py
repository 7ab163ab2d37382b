"""Classes with parameters, called: ``Stack[int]()``, ``dict[str, int]()``, ``typing.Counter()``. They make an object of the class itself.

As in Python, an object whose class takes attributes knows the alias as ``__orig_class__``.
"""

from __future__ import annotations

import contextlib
import types
import typing
from collections.abc import Callable
from typing import Any

from ..runtime.values.tables import KINDS

KINDS_OF_ALIASES = (types.GenericAlias, type(typing.List[int]), type(typing.List))  # noqa: UP006


def made(call: Callable[..., Any], alias: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """``alias(*args, **kwargs)``"""
    cls = alias.__origin__
    if not isinstance(cls, type) or not getattr(alias, "_inst", True):
        return alias(*args, **kwargs)  # its error
    x = call(cls, *args, **kwargs)
    if cls.__dictoffset__ and cls not in KINDS:  # a table of the graph has no attributes
        with contextlib.suppress(AttributeError):
            call(setattr, x, "__orig_class__", alias)
    return x
