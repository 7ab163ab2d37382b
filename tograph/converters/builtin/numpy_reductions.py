"""Reductions of numpy over lists and tuples of staged numbers, and over lists of the graph: ``np.mean(returns)``, ``np.argmax(scores)``.

They are computed by torch as numpy computes them: floats in f64, integers and bools in 64 bits, and give a number of Python. A list
without items gives NaN (``np.mean``), 0 or 1 (``np.sum``, ``np.prod``), or numpy's error. Lists of lists, and most of the other arguments, are left to numpy itself, which refuses staged values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from ...runtime.graph.types import ScalarType
from ...runtime.inference.shapes import SYMBOLS
from ...runtime.symbols.funcgraph import is_tracing
from ...runtime.symbols.required import require
from ...runtime.values.structure import Leaf, Tree, is_growing
from .. import union
from ..call_rules import DECIDING
from ..calls import call
from ..left_alone import leave_alone
from ..registry import handles
from ..staged_array import DTYPES, StagedArray, number_or_array
from .torch_functions import array_of, tensor

_KINDS = (bool, int, float)
_OF_ARRAYS = {torch.bool: bool, torch.int64: int, torch.float64: float}


def kinds_of_numbers(items: Any) -> set[type] | None:
    """The kinds of numbers in a list or tuple of which some are staged; None for what is left to numpy."""
    if isinstance(items, StagedArray):
        kind = _OF_ARRAYS.get(items.tensor.dtype) if items.ndim == 1 else None
        return None if kind is None else {kind}
    if is_growing(items):
        held = items.item_spec.type if isinstance(items.item_spec, Leaf) else None
        return {held.kind} if isinstance(held, ScalarType) and held.kind in _KINDS else None
    if not isinstance(items, (list, tuple)) or not any(isinstance(x, SYMBOLS) for x in items):
        return None
    kinds = {x.node.kind if isinstance(x, SYMBOLS) else type(x) for x in items}
    return kinds if kinds <= set(_KINDS) else None


def _form(function: Any, of: Callable[..., torch.Tensor], bools: torch.dtype, empty: str = "", options: Iterable[str] = ()) -> None:  # fmt: skip
    """``function`` of numbers by ``of``, with bools as this dtype, and integers too where that is a float; ``empty``: numpy's error for a list without items."""
    integers = bools if bools.is_floating_point else torch.int64

    @handles(function)
    @union.each
    def form(*args: Any, **named: Any) -> Any:
        if args and isinstance(args[0], StagedArray) and named.get("axis") is None:
            args = (StagedArray(args[0].tensor.reshape(-1)), *args[1:])
        kinds = kinds_of_numbers(args[0]) if is_tracing() and len(args) == 1 else None
        single = isinstance(args[0], StagedArray) and args[0].tensor.dtype == torch.float32
        kinds = {float} if single and len(args) == 1 and args[0].ndim == 1 else kinds
        if kinds is None or not named.keys() <= {"axis", *options} or named.get("axis") not in (None, 0, -1):  # fmt: skip
            return leave_alone(function, args, named)
        dtype = torch.float64 if float in kinds else integers if int in kinds else bools
        dtype = torch.float32 if single else dtype
        given = args[0]
        items = (
            given.tensor.to(dtype) if isinstance(given, StagedArray) else tensor(given, dtype=dtype)
        )
        if empty:
            require(items.shape[0] > 0, ValueError(empty))
        rest = {name: x for name, x in named.items() if name != "axis"}
        return number_or_array(call(of, items, **rest))


def _spread(of: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """``np.std`` and ``np.var``: of all items, not of a sample, unless ``ddof`` says so."""
    return lambda x, ddof=0: of(x, correction=ddof)


def _middle(x):
    """The mean of the two items in the middle, or that item twice."""
    n = x.shape[0]
    if n == 0 or torch.isnan(x).any():
        return torch.full((), math.nan, dtype=x.dtype)
    ordered = torch.sort(x).values
    return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2


DECIDING.add(_middle)

_EXTREME = "zero-size array to reduction operation {}imum which has no identity"
_ARGUMENT = "attempt to get {} of an empty sequence"

_form(np.sum, torch.sum, torch.int64)
_form(np.prod, torch.prod, torch.int64)
_form(np.mean, torch.mean, torch.float64)
_form(np.std, _spread(torch.std), torch.float64, options=["ddof"])
_form(np.var, _spread(torch.var), torch.float64, options=["ddof"])
_form(np.median, _middle, torch.float64)
_form(np.linalg.norm, torch.linalg.vector_norm, torch.float64)
for _which in ("max", "min"):
    for _function in {getattr(np, _which), getattr(np, f"a{_which}")}:
        _form(_function, getattr(torch, f"a{_which}"), torch.bool, _EXTREME.format(_which))
    _name = f"arg{_which}"
    _form(getattr(np, _name), getattr(torch, _name), torch.int64, _ARGUMENT.format(_name))


def _kinds_in_rows(items: Any) -> set[type] | None:
    """The kinds of numbers in a list of the graph whose items are tuples of numbers; None for any other."""
    spec = items.item_spec if is_growing(items) else None
    if not isinstance(spec, Tree) or not issubclass(spec.cls, tuple):
        return None
    types = [getattr(p, "type", None) for p in spec.parts]
    return {t.kind for t in types if isinstance(t, ScalarType)} if all(isinstance(t, ScalarType) for t in types) else None  # fmt: skip


def _nested(items: Any) -> set[type] | None:
    """The kinds of numbers in a list of lists of numbers, of one length, some of which are staged."""
    rows = items if isinstance(items, (list, tuple)) and not is_growing(items) else ()
    alike = [r for r in rows if isinstance(r, (list, tuple)) and not is_growing(r)]
    if not rows or len(alike) != len(rows) or len({len(r) for r in alike}) != 1:
        return None
    return kinds_of_numbers([x for r in alike for x in r])


def _running(function: Any, of: Callable[..., torch.Tensor]) -> None:
    """``np.cumsum`` and its kind."""

    @handles(function)
    @union.each
    def form(*args: Any, **named: Any) -> Any:
        kinds = kinds_of_numbers(args[0]) if is_tracing() and len(args) == 1 and not named else None
        if kinds is None:
            return leave_alone(function, args, named)
        dtype = torch.float64 if float in kinds else torch.int64
        given = args[0]
        return StagedArray(of(given.tensor.to(dtype) if isinstance(given, StagedArray) else tensor(given, dtype=dtype), 0))  # fmt: skip


_running(np.cumsum, torch.cumsum)
_running(np.cumprod, torch.cumprod)


def _array(function: Any) -> None:
    """``np.array`` and ``np.asarray`` of numbers, some of which only the run knows."""

    @handles(function)
    @union.each
    def form(*args: Any, **named: Any) -> Any:
        dtype = DTYPES.get(np.dtype(named["dtype"])) if named.get("dtype") is not None else None
        plain = (
            is_tracing() and len(args) == 1 and named.keys() <= {"dtype"} and (dtype or not named)
        )
        if plain and isinstance(args[0], torch.Tensor):
            args = (array_of(args[0], shares=function is np.asarray),)
        if plain and isinstance(args[0], StagedArray):
            return StagedArray(args[0].tensor.to(dtype)) if dtype else args[0]
        kinds = (
            (kinds_of_numbers(args[0]) or _kinds_in_rows(args[0]) or _nested(args[0]))
            if plain
            else None
        )
        if not kinds:
            return leave_alone(function, args, named)
        found = torch.float64 if float in kinds else torch.int64 if int in kinds else torch.bool
        return StagedArray(tensor(args[0], dtype=dtype or found))


for _function in (np.array, np.asarray):
    _array(_function)
