"""``x[key]`` where the key, a bound of a slice or a part of a tensor's key is an object of a user's class: its ``__index__`` is converted."""

from __future__ import annotations

import operator
from collections import deque
from typing import Any

import torch

from .call_rules import is_user_function
from .calls import call

_COUNTED = (list, tuple, str, bytes, bytearray, range, deque, torch.Tensor)
_NUMBERS = frozenset([int, bool, torch.SymInt, torch.Tensor, str, type(None)])


def numbered(x: Any, key: Any) -> Any:
    """``key`` with the numbers that such objects give, where ``x`` counts its items."""
    if type(key) in _NUMBERS or not isinstance(x, _COUNTED):
        return key
    if type(key) is slice:
        step, start, stop = map(_number, (key.step, key.start, key.stop))  # in Python's order
        return slice(start, stop, step)
    if type(key) is tuple and isinstance(x, torch.Tensor):
        return tuple(numbered(x, k) for k in key)
    return _number(key)


def _number(k: Any) -> Any:
    if type(k) in _NUMBERS or isinstance(k, int):
        return k  # Python does not ask a subclass of int
    return call(operator.index, k) if is_user_function(getattr(type(k), "__index__", None)) else k
