"""Functions of numpy that take arrays, over arrays and lists of numbers that only the run knows: ``np.sort(xs)``, ``np.dot(a, b)``.

Each is computed by torch in the dtype that numpy has; what has no dimension is a number of Python. Sums of products add in another order
than numpy's. Other arguments than those here (``axis`` of rows, ``out``, ``key``) are left to numpy itself, which refuses staged values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ...runtime.inference.shapes import SYMBOLS
from ...runtime.symbols.funcgraph import is_tracing
from ...runtime.symbols.required import require
from .. import union
from ..call_rules import DECIDING
from ..calls import call
from ..left_alone import leave_alone
from ..registry import form_of, handles
from ..staged_array import DTYPES, NUMPY, StagedArray, number_or_array
from .numpy_functions import OF_FLOATS
from .numpy_reductions import kinds_of_numbers
from .torch_functions import tensor

_EMPTY = IndexError("index -1 is out of bounds for axis 0 with size 0")


def as_tensor(x: Any) -> torch.Tensor | None:
    """The tensor of an array of the run, or of a list of which some numbers are; None for anything else."""
    if isinstance(x, StagedArray):
        return x.tensor
    kinds = kinds_of_numbers(x)
    if kinds is None:
        return None
    return tensor(x, dtype=torch.float64 if float in kinds else torch.int64 if int in kinds else torch.bool)  # fmt: skip


def beside(x: Any) -> torch.Tensor | None:
    """What may stand beside such: an array of numpy, a list of plain numbers, a number."""
    found = as_tensor(x)
    if found is not None:
        return found
    if isinstance(x, SYMBOLS):
        return _weak(torch.scalar_tensor(x, dtype=DTYPES[np.dtype(x.node.kind)]))
    if type(x) in _WEAK:
        return _weak(torch.tensor(x, dtype=DTYPES[np.dtype(type(x))]))
    try:
        made = np.asarray(x) if isinstance(x, (np.ndarray, np.generic, int, float, list, tuple)) else None  # fmt: skip
    except (TypeError, ValueError):
        return None
    return None if made is None or made.dtype not in DTYPES else torch.tensor(made)


_WEAK = (bool, int, float)


def _weak(x: torch.Tensor) -> torch.Tensor:
    """A number of Python, beside which an array keeps its dtype."""
    x.weak_ = True  # type: ignore[attr-defined]
    return x


def _kind(x: torch.Tensor) -> Any:
    return NUMPY[x.dtype].type(0).item() if getattr(x, "weak_", False) else NUMPY[x.dtype]


def together(xs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors in the dtype that numpy gives what is computed of them."""
    found = DTYPES.get(np.result_type(*map(_kind, xs)))
    return [x.to(found or torch.float64) for x in xs]


def _form(*functions: Any, of: Callable[..., Any], arrays: int = 1, options: Sequence[str] = ()) -> None:  # fmt: skip
    """``functions`` by ``of``, whose first ``arrays`` arguments are tensors (all items of the first one where ``arrays`` is 0)."""

    def run(function: Any, args: tuple, named: dict[str, Any]) -> Any:
        given = args[0] if not arrays and args and isinstance(args[0], (list, tuple)) else args[:arrays]  # fmt: skip
        known = is_tracing() and named.keys() <= set(options) and bool(given)
        if not known or all(as_tensor(x) is None for x in given):
            return others[function](*args, **named)
        found = [beside(x) for x in given]
        if any(x is None for x in found):
            return leave_alone(function, args, named)
        made = of(found, *args[1:], **named) if not arrays else of(*found, *args[arrays:], **named)
        if made is NotImplemented:
            return leave_alone(function, args, named)
        return number_or_array(made) if isinstance(made, torch.Tensor) else made

    others = {f: _else(f) for f in functions}
    for function in functions:
        handles(function)(
            union.each(lambda *args, _function=function, **named: run(_function, args, named))
        )


def _else(function: Any) -> Callable[..., Any]:
    """What a call without such arrays is: the form that numbers have, if there is one."""
    found = form_of(function)
    return found or (lambda *args, **named: leave_alone(function, args, named))


def _dot(a: torch.Tensor, b: torch.Tensor) -> Any:
    if not (0 < a.dim() < 3 and 0 < b.dim() < 3) or a.dtype == torch.bool:
        return NotImplemented
    return torch.matmul(*together([a, b]))


def _where(condition: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.where(condition != 0, *together([x, y]))


def _clip(x: torch.Tensor, low: Any = None, high: Any = None) -> Any:
    given = [b for b in (low, high) if b is not None]
    found = [b for b in map(beside, given) if b is not None]
    if not given or len(found) < len(given):
        return NotImplemented
    x, *bounds = together([x, *found])
    if low is not None:
        x = torch.maximum(x, bounds[0])
    return x if high is None else torch.minimum(x, bounds[-1])


def _round(x: torch.Tensor, decimals: int = 0) -> Any:
    if type(decimals) is not int or not x.dtype.is_floating_point:
        return NotImplemented
    scale = 10.0 ** abs(decimals)
    if decimals == 0:
        return torch.round(x)
    return torch.round(x * scale) / scale if decimals > 0 else torch.round(x / scale) * scale


def _quantile(scale: float, words: str) -> Callable[..., Any]:
    """``np.quantile`` (of 1) or ``np.percentile`` (of 100), between neighbours in proportion."""

    def of(x: torch.Tensor, q: Any) -> Any:
        given = beside(q)
        if given is None or x.dim() != 1 or x.dtype == torch.float32:
            return NotImplemented
        part = given.to(torch.float64) / scale
        require(((part >= 0) & (part <= 1)).all().item(), ValueError(words))
        require(x.shape[0] > 0, _EMPTY)
        return call(_at, x.to(torch.float64), part)

    return of


def _at(x, part):
    """The items at parts of the way through the sorted ones, NaN where one of them is."""
    at = part * (x.shape[0] - 1)
    low, ordered = at.floor().long(), torch.sort(x).values
    a, b = ordered[low], ordered[torch.clamp(low + 1, max=x.shape[0] - 1)]
    return torch.where(x.isnan().any(), torch.nan, torch.lerp(a, b, at - low))


DECIDING.add(_at)


def _average(x: torch.Tensor, *, weights: Any = None) -> Any:
    w = None if weights is None else beside(weights)
    if x.dim() != 1 or x.dtype == torch.float32 or (weights is not None and w is None):
        return NotImplemented
    x = x.to(torch.float64)
    if w is None:
        return x.mean()
    total = w.to(torch.float64).sum()
    require((total != 0).item(), ZeroDivisionError("Weights sum to zero, can't be normalized"))
    return (x * w).sum() / total


def _spread(x: torch.Tensor) -> Any:
    if x.dtype == torch.bool or x.dim() != 1:
        return NotImplemented
    require(x.shape[0] > 0, ValueError("zero-size array to reduction operation maximum which has no identity"))  # fmt: skip
    return x.max() - x.min()


def _diff(x: torch.Tensor) -> Any:
    return torch.diff(x) if x.dtype != torch.bool and x.dim() == 1 else NotImplemented


def _joined(join: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    return lambda xs, axis=0: join(together(xs), axis) if type(axis) is int else NotImplemented


def _appended(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return torch.cat(together([x.reshape(-1), values.reshape(-1)]))


def _close(a: torch.Tensor, b: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-8, *, equal_nan: bool = False) -> torch.Tensor:  # fmt: skip
    a, b = together([a.to(torch.float64), b])
    return torch.isclose(a, b, rtol, atol, equal_nan)


def _equal(a: torch.Tensor, b: torch.Tensor) -> Any:
    if a.dim() != b.dim():
        return False
    return call(_same_items, *together([a, b]))


def _same_items(a, b):
    if a.shape != b.shape:
        return False
    return bool((a == b).all())


DECIDING.add(_same_items)


def _in_one(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1)


def _each(name: str, kinds: tuple[torch.dtype, ...], whole: bool) -> None:
    """A function of numpy of each item, or of two such arrays; ``whole``: integers give integers."""
    of = getattr(torch, name)

    def compute(*xs: torch.Tensor) -> Any:
        found = together(xs)
        if found[0].dtype not in kinds:
            return NotImplemented
        return of(*(found if whole or found[0].dtype == torch.float32 else [x.to(torch.float64) for x in found]))  # fmt: skip

    function = getattr(np, name)
    _form(function, of=compute, arrays=function.nin)


_NUMBERS = (torch.int64, torch.float64, torch.float32)
for _name in OF_FLOATS:
    _each(_name, _NUMBERS, whole=False)
for _name in ("floor", "ceil", "trunc"):
    _each(_name, (torch.float64, torch.float32), whole=False)
for _name in ("abs", "square", "maximum", "minimum"):
    _each(_name, _NUMBERS, whole=True)
_form(np.fabs, of=lambda x: torch.abs(x if x.dtype == torch.float32 else x.to(torch.float64)))
_CLOSENESS = ("rtol", "atol", "equal_nan")
_form(np.sort, of=lambda x: torch.sort(x).values)
_form(np.argsort, of=lambda x: torch.argsort(x, stable=True))
_form(np.diff, of=_diff)
_form(np.flip, of=lambda x: torch.flip(x, list(range(x.dim()))))
_form(np.ravel, of=_in_one)
_form(np.transpose, of=lambda x: x.permute(*reversed(range(x.dim()))))
_form(np.any, of=lambda x: (x != 0).any())
_form(np.all, of=lambda x: (x != 0).all())
_form(np.count_nonzero, of=lambda x: (x != 0).sum())
_form(np.round, np.around, of=_round, options=["decimals"])
_form(np.dot, np.matmul, np.inner, of=_dot, arrays=2)
_form(np.outer, of=lambda a, b: torch.outer(*together([a.reshape(-1), b.reshape(-1)])), arrays=2)
_form(np.where, of=_where, arrays=3)
_form(np.clip, of=_clip)
_form(np.quantile, of=_quantile(1.0, "Quantiles must be in the range [0, 1]"))
_form(np.percentile, of=_quantile(100.0, "Percentiles must be in the range [0, 100]"))
_form(np.average, of=_average, options=["weights"])
_form(np.ptp, of=_spread)
_form(np.append, of=_appended, arrays=2)
_form(np.isclose, of=_close, arrays=2, options=_CLOSENESS)
_form(np.allclose, of=lambda *xs, **named: _close(*xs, **named).all(), arrays=2, options=_CLOSENESS)
_form(np.array_equal, of=_equal, arrays=2)
_form(np.concatenate, of=_joined(torch.cat), arrays=0, options=["axis"])
_form(np.hstack, of=_joined(torch.cat), arrays=0)
_form(np.stack, of=_joined(torch.stack), arrays=0, options=["axis"])
