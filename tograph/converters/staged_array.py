"""``np.array`` of numbers that only the run knows: a tensor inside of the function, an array of numpy outside of it.

Of an array the code may take what is here: its items, slices and length, arithmetic with numbers and other such arrays, comparisons, its
reductions, and a tensor of it. Dtypes are numpy's: integers divided are f64, as are integers beside floats. All else
is refused. An array is not changed in place, so that nobody sees whether two share memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import torch

from ..errors import SymbolicValueError
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.symbols.funcgraph import user_location
from .calls import call
from .iterables import StagedSequence

DTYPES: dict[Any, torch.dtype] = {
    np.dtype(n): getattr(torch, n) for n in ("float64", "float32", "int64", "int32", "bool")
}
_NUMPY = {theirs: own for own, theirs in DTYPES.items()}


class StagedArray(StagedSequence):
    """An array whose elements are those of ``tensor``."""

    __tograph_shown__ = True

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor

    def __tograph_flatten__(self) -> tuple[None, list[Any]]:
        return None, [self.tensor]

    @staticmethod
    def __tograph_unflatten__(_: None, parts: list[Any]) -> Any:
        (x,) = parts
        return x.detach().clone().numpy() if type(x) is torch.Tensor else StagedArray(x)

    # ---- what it is

    @property
    def dtype(self) -> np.dtype:
        return _NUMPY[self.tensor.dtype]

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        return self.tensor.dim()

    @property
    def size(self) -> Any:
        return self.tensor.numel()

    # ---- its items

    def length(self) -> Any:
        return self.tensor.shape[0]

    def item(self, index: Any) -> Any:
        return _of(torch.select(self.tensor, 0, index))

    def taken(self, key: Any) -> Any:
        """``a[key]``"""
        if isinstance(key, StagedArray):
            key = key.tensor
        basic = (int, slice, torch.SymInt, type(None), type(...))
        if not isinstance(key, torch.Tensor) and not all(isinstance(k, basic) for k in (key if type(key) is tuple else (key,))):  # fmt: skip
            self._refuse()
        return _of(call(operator.getitem, self.tensor, key))

    def tolist(self) -> Any:
        return call(list, self) if self.ndim == 1 else self._refuse()

    def copy(self) -> StagedArray:
        return self

    def astype(self, dtype: Any) -> StagedArray:
        found = DTYPES.get(np.dtype(dtype))
        return self._refuse() if found is None else StagedArray(self.tensor.to(found))

    def _refuse(self, *_args: Any, **_options: Any) -> NoReturn:
        raise SymbolicValueError(
            "an array of numpy whose elements are known only when the graph runs is indexed, gone over, computed with by + - * / **, compared, reduced "
            "(mean, sum, max ...), made a tensor and returned only: make a tensor of the list and use functions of torch",
            user_location(),
        )

    __array__ = __array_function__ = __setitem__ = __bool__ = __format__ = __iadd__ = _refuse
    __isub__ = __imul__ = __itruediv__ = __mod__ = __floordiv__ = __and__ = __or__ = __invert__ = (
        _refuse
    )
    __matmul__ = __abs__ = __repr__ = _refuse
    __hash__: Any = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """A function of numpy of one array of f64, or an operator beside a number of numpy."""
        one, two = _OF_ONE.get(ufunc.__name__), _OF_TWO.get(ufunc.__name__)
        if method != "__call__" or options:
            self._refuse()
        if len(inputs) == 1 and one is not None and self.tensor.dtype == torch.float64:
            return StagedArray(one(self.tensor))
        if len(inputs) == 2 and two is not None and not any(isinstance(x, np.ndarray) for x in inputs):  # fmt: skip
            return two(*(x.item() if isinstance(x, np.generic) else x for x in inputs))
        return self._refuse()

    def __neg__(self) -> Any:
        return StagedArray(-self.tensor) if self.tensor.dtype != torch.bool else self._refuse()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}", name=name)
        return self._refuse()


_OF_ONE: dict[str, Callable[..., torch.Tensor]] = {
    n: getattr(torch, n) for n in ("sqrt", "exp", "log", "log1p", "log2", "log10", "sin", "cos", "tanh", "square", "isnan", "isfinite", "floor", "ceil")
} | {"absolute": torch.abs, "fabs": torch.abs}  # fmt: skip
_OF_TWO: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv, "power": operator.pow,
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge, "equal": operator.eq, "not_equal": operator.ne,
}  # fmt: skip


def _of(x: Any) -> Any:
    """An array of a tensor; a number of Python for one without dims."""
    return x.item() if x.dim() == 0 else StagedArray(x)


def _operand(x: Any) -> np.dtype | type | None:
    """The dtype of an array, or the kind of a number; None for anything else."""
    if isinstance(x, (StagedArray, np.generic)):
        return x.dtype
    kind = x.node.kind if isinstance(x, SYMBOLS) else type(x)
    return kind if kind in (int, float) else None


def _together(a: StagedArray, b: Any, function: Any) -> tuple[Any, Any]:
    """The operands as torch computes with them in numpy's dtype."""
    other = _operand(b)
    if other is None or a.dtype == bool or other == np.dtype(bool):
        a._refuse()
    found = np.result_type(np.empty(0, a.dtype), other(0) if isinstance(other, type) else other)
    if function is operator.truediv and found.kind == "i":
        found = np.dtype("float64")
    if found not in DTYPES or (function is operator.pow and found.kind != "f"):
        a._refuse()
    b = b.item() if isinstance(b, np.generic) else b
    left = a.tensor.to(DTYPES[found])
    return left, b.tensor.to(DTYPES[found]) if isinstance(b, StagedArray) else b


def _arithmetic(function: Callable[[Any, Any], Any], reflected: bool) -> Callable[..., Any]:
    def method(self: StagedArray, other: Any) -> Any:
        a, b = _together(self, other, function)
        return StagedArray(function(b, a) if reflected else function(a, b))

    return method


def _reduction(name: str) -> Callable[..., Any]:
    return lambda self, **options: call(getattr(np, name), self, **options)


for _name in ("add", "sub", "mul", "truediv", "pow"):
    setattr(StagedArray, f"__{_name}__", _arithmetic(getattr(operator, _name), False))
    setattr(StagedArray, f"__r{_name}__", _arithmetic(getattr(operator, _name), True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(StagedArray, f"__{_name}__", _arithmetic(getattr(operator, _name), False))
for _name in ("sum", "prod", "mean", "std", "var", "max", "min", "argmax", "argmin"):
    setattr(StagedArray, _name, _reduction(_name))
