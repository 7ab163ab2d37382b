"""Numbers that fill tensors of small integers and of floats: the graph checks, as torch does, that the type can hold them.

One that the code names fails where it stands: compiled code asks torch for no such op, and a branch that is not taken does not fail.
Compiled code would wrap them, and make floats infinite. What is added or multiplied wraps in eager PyTorch too. A factor (``alpha``) of floats other than f16
is not checked: it would be a check at each step of an optimiser, for one beyond 1e38.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..graph.types import ScalarType
from ..inference.shapes import SYMBOLS, Meta
from ..symbols.funcgraph import current_graph
from ..symbols.required import require

aten = torch.ops.aten

_NUMBER: dict[Any, int | str] = {
    aten.full.default: 1,
    aten.full_like.default: 1,
    aten.new_full.default: 2,
    aten.fill.Scalar: 1,
    aten.masked_fill.Scalar: 2,
    aten.scatter.value: 3,
    aten.scalar_tensor.default: 0,
    aten.constant_pad_nd.default: 2,
    aten.add.Tensor: "alpha",
    aten.sub.Tensor: "alpha",
    aten.addcmul.default: "value",
}
_FLOATS = frozenset([torch.float16, torch.bfloat16, torch.float32, torch.complex64])
_HALVES = (torch.float16, torch.bfloat16)  # torch does not look where there is one element
# Of floats: ``torch.tensor`` and ``x[0] = n``, which make a ``scalar_tensor``, take any number.
_FILLED = frozenset(f for f, where in _NUMBER.items() if type(where) is int) - {aten.scalar_tensor.default}  # fmt: skip
_SCALED = frozenset([aten.add.Tensor, aten.sub.Tensor])
_LEFT = frozenset([torch.uint16, torch.uint32, torch.uint64])  # compiled code leaves these to torch
_NAMES = {torch.uint8: "uint8_t", torch.int8: "int8_t", torch.int16: "int16_t", torch.int32: "int"}  # fmt: skip


def check(func: Any, args: tuple, kwargs: dict, made: Meta) -> bool:
    """Have the graph raise torch's error for the number of an op that the type of its result cannot hold; whether it surely does."""
    dtype = made.dtype
    where = _NUMBER[func]
    n = kwargs.get(where) if isinstance(where, str) else args[where] if where < len(args) else None
    few = dtype in _HALVES and all(type(k) is int and k == 1 for k in made.size)
    if isinstance(n, (int, float)):
        if dtype not in _LEFT and not (dtype in _FLOATS and (few or func not in _FILLED)):
            return _check_known(n, dtype)
        return False
    if not isinstance(n, SYMBOLS) or isinstance(n, torch.SymBool):
        return False
    if dtype in _FLOATS and not few:
        _check_float(func, n, dtype)
    name = _NAMES.get(dtype)
    if name is None:
        return False
    bounds = torch.iinfo(dtype)
    whole = isinstance(n, torch.SymInt)
    least = -bounds.max if whole and dtype is torch.uint8 else bounds.min  # negative ones wrap
    error = RuntimeError(f"value cannot be converted to type {name} without overflow")
    require(n >= least, error)
    require(n <= bounds.max, error)
    return False


def _check_float(func: Any, n: Any, dtype: torch.dtype) -> None:
    """The same of a float, which may also be infinite, or none."""
    if func in _FILLED or (func in _SCALED and dtype is torch.float16):
        most, error = torch.finfo(dtype).max, _refusal(dtype)
        require(((n <= most) & (n >= -most)) | (n - n != 0), error)


def _check_known(n: int | float, dtype: torch.dtype) -> bool:
    """The same of a number that is known: nothing is left to check where the type holds it."""
    error = None if 0 <= n <= 127 else _error(n, type(n), dtype)
    if error is not None:
        holds = current_graph().emit("py.constant", False, type=ScalarType(bool))
        current_graph().add("tg.assert", (holds, "RuntimeError", error.args))
    return error is not None


def _refusal(dtype: torch.dtype) -> RuntimeError:
    """Torch's own error: its name for a type is not always the same one."""
    error = _error(1e300, float, dtype)
    assert error is not None, dtype
    return error


@functools.lru_cache(256)
def _error(n: int | float, _: type, dtype: torch.dtype) -> RuntimeError | None:
    with _disable_current_modes():
        try:
            torch.full((2,), n, dtype=dtype)
        except RuntimeError as error:
            return RuntimeError(*error.args)
    return None


def is_checked(func: Any) -> bool:
    """Whether an op takes a number that the type of its result has to hold."""
    return func in _NUMBER
