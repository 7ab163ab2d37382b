"""The special methods that Python tries for ``a + b`` or ``a < b``, in its order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..runtime.values.growing import StagedList
from .call_rules import is_user_function
from .calls import call
from .logical import not_
from .standard import compared_fields

Operators = Mapping[str, Callable[..., Any]]


def tried(a: Any, b: Any, method: str, reflected: str, same_type: bool, operators: Operators) -> Any:  # fmt: skip
    """What the methods that Python tries give, in its order; NotImplemented when none answers.

    ``operators``: those of converted code, by their names.
    """
    left, right = getattr(type(a), method, None), getattr(type(b), reflected, None)
    order = [(left, a, b)]
    if same_type or type(a) is not type(b):
        order.append((right, b, a))
        base = getattr(type(a), reflected, None)
        # By inheritance alone: what ``abc`` registers has no say here.
        kind = a.__class__ if isinstance(a, StagedList) else type(a)
        if kind in type(b).__mro__[1:] and (same_type or right is not base):
            order.reverse()
    if method in ("__add__", "__mul__") and isinstance(a, _SEQUENCES) and not is_user_function(left):  # fmt: skip
        order.sort(
            key=lambda entry: entry[0] is left
        )  # that of a sequence comes after what numbers have, such as a ``__radd__``
    for function, x, y in order:
        if (
            function is not None
            and (result := _called(function, x, y, operators)) is not NotImplemented
        ):
            return result
    return NotImplemented


_SEQUENCES = (str, bytes, bytearray, list, tuple, deque)


def _called(function: Any, x: Any, y: Any, operators: Operators) -> Any:
    """What one method gives: a user's, one that ``dataclasses`` made, or what every object has."""
    if function is object.__ne__:
        result = _called(type(x).__eq__, x, y, operators)
        return result if result is NotImplemented else not_(result)
    if isinstance(x, torch.Tensor) and not is_user_function(function):
        return function(x, y)  # torch answers NotImplemented for what it does not know
    fields = compared_fields(function, x)
    if fields is None:
        return call(function, x, y)
    return _by_fields(operators[function.__name__.strip("_")], fields, x, y)


def _by_fields(operator: Any, fields: tuple[str, ...], x: Any, y: Any) -> Any:
    """What a comparison that ``dataclasses`` generated does: it compares the fields of two objects of one class as tuples."""
    if type(x) is not type(y):
        return NotImplemented
    one, other = (tuple(call(getattr, o, n) for n in fields) for o in (x, y))
    return operator(one, other)
