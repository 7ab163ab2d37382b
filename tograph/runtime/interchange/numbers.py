"""Python numbers of the graph as 0-d tensors: what ``py.*`` ops, and ATen ops that take a number, become.

Integers are int64 (Python's own do not overflow: a graph that needs more has no such form), floats float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...errors import InterchangeError
from ..graph.ir import Node
from ..graph.types import SCALARS, ScalarType

aten = torch.ops.aten


class Emit:
    """Emits calls for one node: ``emit(op, *args)``."""

    def __init__(self, emit: Callable[..., Any], node: Node):
        self.emit, self.node = emit, node

    def __call__(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        return self.emit(op, *args, **kwargs)

    def number(self, x: Any, dtype: torch.dtype | None = None) -> Any:
        """A number as a 0-d tensor."""
        if isinstance(x, (bool, int, float)):
            return self.emit(aten.full.default, [], x, dtype=dtype or SCALARS[type(x)])
        return self.to(x, dtype) if dtype is not None else x

    def to(self, x: Any, dtype: torch.dtype) -> Any:
        return self.emit(aten._to_copy.default, x, dtype=dtype)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the node's output."""
        return self.node.outputs[0].type.dtype

    def operand_dtype(self) -> torch.dtype:
        """What two numbers are compared as."""
        kinds = [v.type.kind for v in self.node.inputs if isinstance(v.type, ScalarType)]
        kinds += [type(a) for a in self.node.args if isinstance(a, (bool, int, float))]
        return torch.float64 if float in kinds else torch.int64 if int in kinds else torch.bool


def _arithmetic(op: Any) -> Callable[..., Any]:
    def lower(emit: Emit, a: Any, b: Any) -> Any:
        dtype = emit.dtype
        return emit.to(emit(op, emit.number(a, dtype), emit.number(b, dtype)), dtype)

    return lower


def _comparison(op: Any) -> Callable[..., Any]:
    def lower(emit: Emit, a: Any, b: Any) -> Any:
        dtype = emit.operand_dtype()
        return emit(op, emit.number(a, dtype), emit.number(b, dtype))

    return lower


def _unary(op: Any) -> Callable[..., Any]:
    return lambda emit, x: emit(op, emit.number(x, emit.dtype))


def _math(op: Any) -> Callable[..., Any]:
    return lambda emit, *xs: emit(op, *(emit.number(x, torch.float64) for x in xs))


def _conversion(emit: Emit, x: Any) -> Any:
    return emit.to(emit(aten.reshape.default, emit.number(x), []), emit.dtype)


def _floordiv(emit: Emit, a: Any, b: Any) -> Any:
    dtype = emit.dtype
    return emit(aten.div.Tensor_mode, emit.number(a, dtype), emit.number(b, dtype), rounding_mode="floor")  # fmt: skip


def _range_length(emit: Emit, start: Any, stop: Any, step: Any) -> Any:
    """``max(0, ceil((stop - start) / step))``"""
    start, stop, step = (emit.number(x, torch.int64) for x in (start, stop, step))
    back = emit(aten.neg.default, emit(aten.sub.Tensor, stop, start))
    count = emit(aten.neg.default, emit(aten.div.Tensor_mode, back, step, rounding_mode="floor"))
    return emit(aten.clamp_min.default, count, 0)


def _choose(emit: Emit, tag: Any, options: list[Any]) -> Any:
    """One of the numbers, by place."""
    dtype = emit.dtype
    if not all(isinstance(x, (bool, int, float)) for x in options):
        raise InterchangeError("torch.fx", "a choice among values", emit.node.location)
    out = emit.number(options[-1], dtype)
    for i, x in enumerate(options[:-1]):
        out = emit(aten.where.self, emit(aten.eq.Scalar, tag, i), emit.number(x, dtype), out)
    return out


def _round(emit: Emit, x: Any, digits: int | None = None) -> Any:
    if digits is not None and not isinstance(digits, int):
        raise InterchangeError(
            "torch.fx", "round() to as many digits as the graph computes", emit.node.location
        )
    x = emit.number(x, torch.float64)
    return emit.to(emit(aten.round.decimals, x, decimals=digits or 0), emit.dtype)


def _rounded(op: Any) -> Callable[..., Any]:
    return lambda emit, x: emit.to(emit(op, emit.number(x, torch.float64)), emit.dtype)


def _select(emit: Emit, c: Any, a: Any, b: Any) -> Any:
    return emit(aten.where.self, emit.number(c, torch.bool), emit.number(a, emit.dtype), emit.number(b, emit.dtype))  # fmt: skip


LOWER: dict[str, Callable[..., Any]] = {
    "py.constant": lambda emit, x: emit.number(x, emit.dtype),
    "py.int": _conversion, "py.float": _conversion, "py.bool": _conversion, "py.trunc": _conversion,
    "py.not": lambda emit, x: emit(aten.logical_not.default, emit.number(x)),
    "py.floordiv": _floordiv, "py.range_length": _range_length, "py.select": _select,
    "tg.choose": _choose, "py.pos": lambda emit, x: emit.number(x, emit.dtype), "py.round": _round, "py.truth": _conversion,
    "py.invert": lambda emit, x: emit(aten.bitwise_not.default, emit.number(x, emit.dtype)),
    "py.rank": lambda emit, x: emit.number(len(emit.node.inputs[0].type.shape), torch.int64),
    "tg.identity": lambda emit, x, freed=False: x,
    "tg.written": lambda emit, old, new: new,
    "tg.read": lambda emit, x: emit(aten.clone.default, x),
}  # fmt: skip
for _name, _op in {"add": aten.add.Tensor, "sub": aten.sub.Tensor, "mul": aten.mul.Tensor, "truediv": aten.div.Tensor,
                   "mod": aten.remainder.Tensor, "pow": aten.pow.Tensor_Tensor, "min": aten.minimum.default,
                   "max": aten.maximum.default, "and_": aten.bitwise_and.Tensor, "or_": aten.bitwise_or.Tensor,
                   "xor": aten.bitwise_xor.Tensor, "lshift": aten.bitwise_left_shift.Tensor,
                   "rshift": aten.bitwise_right_shift.Tensor}.items():  # fmt: skip
    LOWER[f"py.{_name}"] = _arithmetic(_op)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    LOWER[f"py.{_name}"] = _comparison(getattr(aten, _name).Tensor)
for _name in ("neg", "abs"):
    LOWER[f"py.{_name}"] = _unary(getattr(aten, _name).default)
for _name in ("sqrt", "sin", "cos", "tan", "exp", "log", "log2", "log10", "tanh", "sinh", "cosh", "asin", "acos", "atan", "erf", "log1p", "expm1", "isnan", "isinf", "isfinite", "lgamma"):  # fmt: skip
    LOWER[f"py.math.{_name}"] = _math(getattr(aten, _name).default)
for _name in ("atan2", "hypot", "pow", "fmod", "copysign"):
    _form = {
        "pow": aten.pow.Tensor_Tensor,
        "fmod": aten.fmod.Tensor,
        "copysign": aten.copysign.Tensor,
    }
    LOWER[f"py.math.{_name}"] = _math(_form.get(_name) or getattr(aten, _name).default)
for _name in ("floor", "ceil", "trunc"):
    LOWER[f"py.{_name}"] = LOWER[f"py.math.{_name}"] = _rounded(getattr(aten, _name).default)
LOWER["py.trunc"] = _conversion
LOWER["py.math.fabs"] = _math(aten.abs.default)


# ---- ATen ops whose number is known only when the graph runs


def _place(emit: Emit, x: Any, dim: int, index: Any) -> Any:
    """An index as a tensor of one place, counted from the front."""
    size = emit(aten.sym_size.int, x, dim)
    back = emit(aten.add.Tensor, index, size)
    return emit(aten.reshape.default, emit(aten.where.self, emit(aten.lt.Scalar, index, 0), back, index), [1])  # fmt: skip


def _select_int(emit: Emit, x: Any, dim: int, index: Any) -> Any:
    row = emit(aten.index_select.default, x, dim, _place(emit, x, dim, index))
    return emit(aten.squeeze.dim, row, dim)


def _select_scatter(emit: Emit, x: Any, source: Any, dim: int, index: Any) -> Any:
    row = emit(aten.unsqueeze.default, source, dim)
    return emit(aten.index_copy.default, x, dim, _place(emit, x, dim, index), row)


def _scalar_tensor(emit: Emit, value: Any, **kwargs: Any) -> Any:
    return emit(aten._to_copy.default, value, dtype=emit.dtype)


def _full(emit: Emit, size: Any, value: Any, **kwargs: Any) -> Any:
    made = emit(aten.full.default, size, 0, dtype=emit.dtype)
    return emit(aten.add.Tensor, made, emit.to(value, emit.dtype))


def _tensor_form(op: Any) -> Callable[..., Any]:
    """The overload that takes a tensor in the place of the number."""

    def lower(emit: Emit, x: Any, number: Any, *rest: Any, **kwargs: Any) -> Any:
        return emit(op, x, emit.number(number), *rest, **kwargs)

    return lower


NUMBER_ARGUMENTS: dict[str, Callable[..., Any]] = {
    "aten.select.int": _select_int, "aten.select_scatter.default": _select_scatter,
    "aten.scalar_tensor.default": _scalar_tensor, "aten.full.default": _full,
    "aten.pow.Tensor_Scalar": _tensor_form(aten.pow.Tensor_Tensor), "aten.remainder.Scalar": _tensor_form(aten.remainder.Tensor),
}  # fmt: skip
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    NUMBER_ARGUMENTS[f"aten.{_name}.Scalar"] = _tensor_form(getattr(aten, _name).Tensor)
