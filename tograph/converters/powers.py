"""``x ** n``, ``[x] * n`` and ``"x" * n`` for a number that is known only when the graph runs.

torch's formula for the derivative of a power asks whether the number is 0, so beside a floating tensor it enters as a tensor.
"""

from __future__ import annotations

import operator
from numbers import Integral
from typing import Any

import torch

from ..runtime.inference.shapes import SYMBOLS
from ..runtime.library.staged_string import text_op
from ..runtime.values.growing import StagedList
from ..runtime.values.staged_tuples import as_tuple
from . import staged_bytes
from .call_rules import DECIDING
from .calls import call
from .registry import TENSOR_METHODS, handles
from .staging import is_staged
from .tensor_index import as_place


def _as_tensor(n: Any, x: Any) -> Any:
    """A staged number beside a floating tensor as a tensor; anything else as it is."""
    floating = isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())
    if not floating or not isinstance(n, SYMBOLS):
        return n
    return torch.scalar_tensor(n, dtype=x.dtype, device=x.device)


def power(a: Any, b: Any) -> Any:
    """``a ** b``"""
    return operator.pow(_as_tensor(a, b), _as_tensor(b, a))


@handles(torch.pow)
def pow_(input, exponent, **kwargs):
    return torch.pow(_as_tensor(input, exponent), _as_tensor(exponent, input), **kwargs)


def _method(x, exponent):
    return x.pow(_as_tensor(exponent, x))


TENSOR_METHODS["pow"] = _method


def times(a: Any, b: Any) -> Any:
    """``a * b``"""
    for items, n in ((a, b), (b, a)):
        if isinstance(items, (list, tuple, str, bytes, bytearray)) and is_staged(n):
            if isinstance(n, torch.SymFloat):
                raise TypeError("can't multiply sequence by non-int of type 'float'")
            n = n + 0 if isinstance(n, torch.SymBool) else as_place(n)
            if isinstance(n, torch.SymInt):
                return _many(items, n)
    if isinstance(b, StagedList) and isinstance(a, Integral):
        return b * a  # numpy's integers make an array of what it does not know for a list
    return operator.mul(a, b)


def _many(items: Any, n: Any) -> Any:
    if isinstance(items, (bytes, bytearray)):
        staged_bytes.refuse("bytes * number", n)
    if isinstance(items, str):
        return text_op("__mul__", str, items, n)
    found = call(_repeated, items, n)
    return as_tuple(found) if isinstance(items, tuple) else found


def _repeated(items, n):
    found = []
    for _ in range(n):
        found.extend(items)
    return found


DECIDING.add(_repeated)
