"""Writes that put what was computed in another order: the tensor that is written keeps its strides, and what is computed of it afterwards has those.

Such a write is a copy that says all its arguments. The rule ``copy(y, x) = x`` (``passes.rules``) leaves one alone, as the graph that is
left has nothing else to say how the elements lie. A number that is copied is a tensor first, as all that a copy takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..symbols.symbolic import SymTensor, as_symbolic
from .overlap import is_dense

# ``non_blocking`` of a copy that puts the elements in another order.
KEPT = (False,)


def is_turned(target: torch.Tensor, source: Any) -> bool:
    """Whether ``target.copy_(source)`` puts the elements in another order."""
    if not isinstance(source, torch.Tensor):
        return False
    x, y = as_symbolic(target), as_symbolic(source)
    static = x.meta.static and y.meta.static
    return static and tuple(x.meta.size) == tuple(y.meta.size) and lies_otherwise(x, y)


def lies_otherwise(x: SymTensor, y: SymTensor) -> bool:
    """Whether what is written to all of a storage has other strides than ``x``, which keeps its own."""
    one, two = x.meta, y.meta
    if not (one.static and one.laid_out and two.laid_out) or one.stride == two.stride:
        return False
    return (
        math.prod(one.size) == math.prod(x.storage_.meta.size)
        and is_dense(one)
        and any(n > 1 and s != t for n, s, t in zip(one.size, one.stride, two.stride))
    )


def operands(func, args: tuple, record: Callable[..., Any]) -> tuple:
    """The arguments of an in-place op, a number that is copied as a tensor."""
    if func is not torch.ops.aten.copy_.default or isinstance(args[1], torch.Tensor):
        return args
    return (args[0], _number(args[1], args[0], record), *args[2:])


def _number(value: Any, target: torch.Tensor, record: Callable[..., Any]) -> torch.Tensor:
    """The tensor that torch makes of a number which is copied."""
    kinds: dict[Any, torch.dtype] = {bool: torch.bool, torch.SymBool: torch.bool, int: torch.long, torch.SymInt: torch.long, complex: torch.complex128}  # fmt: skip
    dtype = kinds.get(type(value), torch.double)
    return record(
        torch.ops.aten.scalar_tensor.default, (value,), {"dtype": dtype, "device": target.device}
    )
