"""A variable that is a Python number on one path and a tensor of no dimensions on another: ``best = float("inf")``, then ``best = loss``.

It is a union like any other, so what is returned, printed or asked for its type is the number where it is one. Most often it
is only computed with, beside tensors, where it makes no difference which of the two it is. For that the graph value of the tensor
has the number's value where the union is the number: ``flatten`` sees to it (``as_tensor``), and ``tensor_of`` takes it.

Invariant: of a ``TaggedUnion`` with an ``either_``, option ``either_`` has the value of the option that counts.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..graph.ir import Value
from ..graph.types import ScalarType, TensorType, Type
from ..inference.shapes import SYMBOLS
from ..symbols.funcgraph import FuncGraph
from ..symbols.symbolic import SymTensor
from .structure import Choice, Leaf, Spec, TaggedUnion

SAFE = 2**53  # up to here every int is a float


def slot(spec: Choice) -> int | None:
    """Which option is the tensor, where the others are numbers that it can hold; None for another choice."""
    found = [i for i, o in enumerate(spec.options) if _is_open_scalar(o)]
    if len(found) != 1:
        return None
    dtype = spec.options[found[0]].type.dtype
    others = [o for i, o in enumerate(spec.options) if i != found[0]]
    return found[0] if all(_held(o, dtype) for o in others) else None


def opened(options: tuple[Spec, ...]) -> tuple[Spec, ...]:
    """Options with a tensor of the graph among numbers as one that any path may give."""
    made = tuple(_open(o) for o in options)
    return made if slot(Choice(made)) is not None else options


def _open(spec: Spec) -> Spec:
    known = isinstance(spec, Leaf) and spec.fixed and isinstance(spec.const, SymTensor)
    return Leaf(spec.type) if known else spec


def _is_open_scalar(spec: Spec) -> bool:
    return (
        isinstance(spec, Leaf)
        and isinstance(spec.type, TensorType)
        and spec.type.shape == ()
        and not spec.fixed
    )


def _held(spec: Spec, dtype: torch.dtype) -> bool:
    """Whether a spec is a number that a tensor can hold, up to rounding."""
    if not isinstance(spec, Leaf) or not isinstance(spec.type, ScalarType):
        return False
    kind = spec.type.kind
    if kind is int and type(spec.const) is int and abs(spec.const) > SAFE:
        return False
    if dtype.is_floating_point:
        return kind is not bool
    return kind is {torch.bool: bool, torch.int64: int}.get(dtype)


def as_tensor(number: Any, kind: Type, graph: FuncGraph) -> Value:
    """The graph value of a number as a tensor; beyond the largest float of the type it is infinite."""
    assert isinstance(kind, TensorType)
    value = number.node.value(graph) if isinstance(number, SYMBOLS) else number
    known = not isinstance(value, Value)
    narrow = kind.dtype.is_floating_point and kind.dtype != torch.float64
    if not narrow or (known and _fits(value, kind.dtype)):
        return _scalar(value, kind, graph)
    wide = TensorType(torch.float64, (), kind.device)
    made = _scalar(value, wide, graph)
    return graph.emit("aten._to_copy.default", made, type=kind, dtype=kind.dtype)


def _scalar(value: Any, kind: TensorType, graph: FuncGraph) -> Value:
    kwargs = {"dtype": kind.dtype, "device": torch.device(kind.device)}
    return graph.emit("aten.scalar_tensor.default", value, type=kind, **kwargs)


def _fits(number: float, dtype: torch.dtype) -> bool:
    return not math.isfinite(number) or abs(number) <= torch.finfo(dtype).max


def tensor_of(x: TaggedUnion) -> torch.Tensor | None:
    """The tensor that has the value of the option that counts; None for another union, or where rounding could tell."""
    if x.either_ is None:
        return None
    tensor = x.options_[x.either_]
    numbers = [o for i, o in enumerate(x.options_) if i != x.either_]
    return tensor if all(_exact(n, tensor.dtype) for n in numbers) else None


def _exact(number: Any, dtype: torch.dtype) -> bool:
    if isinstance(number, SYMBOLS):
        return not dtype.is_floating_point or dtype == torch.float64
    if not dtype.is_floating_point or not math.isfinite(number):
        return True
    exponent = math.frexp(number)[1]
    digits, info = _DIGITS.get(dtype, 0), torch.finfo(dtype)
    whole = math.ldexp(number, digits - exponent).is_integer()
    return whole and (number == 0 or info.tiny <= abs(number) <= info.max)


_DIGITS = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


def beside(x: TaggedUnion, other: torch.Tensor) -> torch.Tensor | None:
    """The tensor to compute with for ``x`` beside ``other``; None where it would promote or round otherwise than the number."""
    if x.either_ is None or other.device != x.options_[x.either_].device:
        return None
    tensor = x.options_[x.either_]
    dtype = _with_tensor(tensor.dtype, other)
    numbers = [o for i, o in enumerate(x.options_) if i != x.either_]
    if any(_with_number(_kind(n), other) != dtype for n in numbers):
        return None
    rounded = tensor.dtype == dtype == torch.float32
    return tensor if rounded else tensor_of(x)


def _kind(number: Any) -> type:
    return number.node.kind if isinstance(number, SYMBOLS) else type(number)


def _rank(dtype: torch.dtype) -> int:
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating_point else int(dtype != torch.bool)


def _with_tensor(dtype: torch.dtype, other: torch.Tensor) -> torch.dtype:
    """The type of what PyTorch computes of a tensor of no dimensions and another one."""
    if other.dim() and _rank(dtype) <= _rank(other.dtype):
        return other.dtype
    return torch.promote_types(dtype, other.dtype)


def _with_number(kind: type, other: torch.Tensor) -> torch.dtype:
    """The type of what PyTorch computes of a number and a tensor."""
    rank = {bool: 0, int: 1, float: 2}[kind]
    if rank <= _rank(other.dtype):
        return other.dtype
    return torch.get_default_dtype() if rank == 2 else torch.int64
