"""``np.array`` of numbers that only the run knows: a tensor inside of the function, an array of numpy outside of it.

Of an array the code may take what is here: its items, slices and length, arithmetic with numbers and other such arrays, comparisons, its
reductions, what ``numpy_arrays`` has, and a tensor of it. Dtypes are numpy's: integers divided are f64, as are integers beside floats. All else
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
from ..runtime.symbols.scalars import BESIDE_ARRAYS
from .calls import call
from .iterables import StagedSequence

DTYPES: dict[Any, torch.dtype] = {
    np.dtype(n): getattr(torch, n) for n in ("float64", "float32", "int64", "int32", "bool")
}
NUMPY = {theirs: own for own, theirs in DTYPES.items()}  # by dtypes of torch

_AS_PYTHON = frozenset([torch.float64, torch.int64, torch.bool])


class StagedArray(StagedSequence):
    """An array whose elements are those of ``tensor``; ``alone``: a number of numpy, of a dtype that Python's numbers do not stand for."""

    __tograph_shown__ = True

    def __init__(self, tensor: torch.Tensor, alone: bool = False):
        self.tensor, self.alone = tensor, alone

    def __tograph_flatten__(self) -> tuple[bool, list[Any]]:
        return self.alone, [self.tensor]

    @staticmethod
    def __tograph_unflatten__(alone: bool, parts: list[Any]) -> Any:
        (x,) = parts
        if type(x) is not torch.Tensor:
            return StagedArray(x, alone)
        made = x.detach().clone().numpy()
        return made[()] if alone else made

    # ---- what it is

    @property
    def dtype(self) -> np.dtype:
        return NUMPY[self.tensor.dtype]

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

    def item(self, index: Any = None) -> Any:
        if index is None:
            return call(torch.Tensor.item, self.tensor)
        return number_or_array(torch.select(self.tensor, 0, index))

    def taken(self, key: Any) -> Any:
        """``a[key]``"""
        if isinstance(key, StagedArray):
            key = key.tensor
        if isinstance(key, slice) and type(key.step) is int and key.step < 0:
            whole = key.start is None and key.stop is None
            return StagedArray(self.tensor.flip(0)[:: -key.step]) if whole else self._refuse()
        if isinstance(key, list) and key and all(type(k) is int for k in key):
            key = torch.tensor(key)
        basic = (int, slice, torch.SymInt, type(None), type(...))
        if not isinstance(key, torch.Tensor) and not all(isinstance(k, basic) for k in (key if type(key) is tuple else (key,))):  # fmt: skip
            self._refuse()
        return number_or_array(call(operator.getitem, self.tensor, key))

    def tolist(self) -> Any:
        return call(self.tensor.tolist)

    def copy(self) -> StagedArray:
        return self

    flatten = ravel = lambda self: call(np.ravel, self)

    def reshape(self, *shape: Any) -> StagedArray:
        (sizes,) = shape if len(shape) == 1 and isinstance(shape[0], tuple) else (shape,)
        return StagedArray(self.tensor.reshape(sizes))

    @property
    def T(self) -> Any:
        return call(np.transpose, self)

    def astype(self, dtype: Any) -> StagedArray:
        found = DTYPES.get(np.dtype(dtype))
        return self._refuse() if found is None else StagedArray(self.tensor.to(found))

    def _refuse(self, *_args: Any, **_options: Any) -> NoReturn:
        raise SymbolicValueError(
            "an array of numpy whose elements are known only when the graph runs is indexed, gone over, computed with by + - * / // % ** @, compared, reduced "
            "(mean, sum, max ...), sorted, joined, made a tensor and returned only: make a tensor of the list and use functions of torch",
            user_location(),
        )

    __array__ = __array_function__ = __setitem__ = __bool__ = __format__ = __iadd__ = _refuse
    __isub__ = __imul__ = __itruediv__ = __and__ = __or__ = __invert__ = __repr__ = _refuse
    __hash__: Any = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """An operator of numpy beside an array or a number of numpy; functions of each item have forms (``numpy_arrays``)."""
        known = method == "__call__" and not options
        found = beside_arrays(ufunc, inputs) if known else NotImplemented
        return self._refuse() if found is NotImplemented else found

    def __matmul__(self, other: Any) -> Any:
        return call(np.dot, self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return call(np.dot, other, self)

    def __abs__(self) -> Any:
        return call(np.abs, self)

    def __neg__(self) -> Any:
        return StagedArray(-self.tensor) if self.tensor.dtype != torch.bool else self._refuse()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}", name=name)
        return self._refuse()


_OF_TWO: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv, "floor_divide": operator.floordiv, "remainder": operator.mod, "power": operator.pow,
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge, "equal": operator.eq, "not_equal": operator.ne,
}  # fmt: skip


def beside_arrays(ufunc: Any, inputs: tuple[Any, ...]) -> Any:
    """An operator of numpy on two arrays, or an array and a number, one of which is of the run; NotImplemented for anything else."""
    two = _OF_TWO.get(ufunc.__name__)
    plain = [x for x in inputs if isinstance(x, np.ndarray)]
    if not plain and not any(isinstance(x, StagedArray) for x in inputs):
        return NotImplemented
    if two is None or len(inputs) != 2 or any(x.dtype not in DTYPES or not x.ndim for x in plain):
        return NotImplemented
    held = [StagedArray(torch.tensor(x)) if isinstance(x, np.ndarray) else x for x in inputs]
    arrays = [x.dtype for x in held if isinstance(x, StagedArray)]
    return two(*(_given(x, arrays) if isinstance(x, np.generic) else x for x in held))


def _given(x: np.generic, arrays: list[np.dtype]) -> Any:
    """A number of numpy beside arrays: one of Python, unless it counts for the dtype of the result."""
    plain = x.item()
    same = all(np.result_type(a, x.dtype) == np.result_type(a, plain) for a in arrays)
    return plain if same or x.dtype not in DTYPES else StagedArray(torch.tensor(plain, dtype=DTYPES[x.dtype]))  # fmt: skip


BESIDE_ARRAYS[0] = beside_arrays


def number_or_array(x: torch.Tensor) -> Any:
    """An array of a tensor; a number for one without dims, of Python where its arithmetic is the same as numpy's."""
    if x.dim() == 0 and x.dtype in _AS_PYTHON:
        return x.item()
    return StagedArray(x, x.dim() == 0)


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
    divides = function in (operator.floordiv, operator.mod)
    by_zero = divides and found.kind == "i" and not (type(b) is int and b != 0)  # 0 in numpy
    if found not in DTYPES or by_zero or (function is operator.pow and found.kind != "f"):
        a._refuse()
    b = b.item() if isinstance(b, np.generic) else b
    left = a.tensor.to(DTYPES[found])
    return left, b.tensor.to(DTYPES[found]) if isinstance(b, StagedArray) else b


def _arithmetic(function: Callable[[Any, Any], Any], reflected: bool) -> Callable[..., Any]:
    def method(self: StagedArray, other: Any) -> Any:
        if isinstance(other, np.ndarray) and other.ndim and other.dtype in DTYPES:
            other = StagedArray(torch.tensor(other))
        a, b = _together(self, other, function)
        return number_or_array(function(b, a) if reflected else function(a, b))

    return method


def _function(name: str) -> Callable[..., Any]:
    return lambda self, *args, **options: call(getattr(np, name), self, *args, **options)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(StagedArray, f"__{_name}__", _arithmetic(getattr(operator, _name), False))
    setattr(StagedArray, f"__r{_name}__", _arithmetic(getattr(operator, _name), True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(StagedArray, f"__{_name}__", _arithmetic(getattr(operator, _name), False))
for _name in ("sum", "prod", "mean", "std", "var", "max", "min", "argmax", "argmin", "any", "all", "cumsum", "cumprod", "round",
              "clip", "dot", "argsort", "transpose"):  # fmt: skip
    setattr(StagedArray, _name, _function(_name))
