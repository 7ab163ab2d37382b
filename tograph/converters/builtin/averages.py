"""``statistics`` of numbers that only the run knows: of lists and tuples of these, and of lists of the graph.

Python's own functions add up fractions, which need the numbers. Here sums of floats are ``math.fsum``, also exact, so that a result differs
in its last digit at most. Of integers a mean, median or variance is an int where that is exact, else a float. Other arguments (``xbar``,
``weights``) and data of other kinds are left to ``statistics`` itself.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from statistics import StatisticsError
from typing import Any

from ...runtime.symbols.funcgraph import is_tracing
from .. import union
from ..call_rules import DECIDING
from ..calls import call
from ..left_alone import leave_alone
from ..registry import BUILTINS, handles
from ..staged_array import StagedArray
from .numpy_reductions import kinds_of_numbers


def _mean(xs):
    if not xs:
        raise StatisticsError("mean requires at least one data point")
    return math.fsum(xs) / len(xs)


def _mean_of_integers(xs):
    if not xs:
        raise StatisticsError("mean requires at least one data point")
    return _quotient(sum(xs), len(xs))


def _fmean(xs):
    if not xs:
        raise StatisticsError("fmean requires at least one data point")
    return math.fsum(xs) / len(xs)


def _quotient(a, b):
    return a // b if a % b == 0 else a / b


def _in_order(xs):
    if not xs:
        raise StatisticsError("no median for empty data")
    return sorted(xs)


def _median(xs):
    ordered, n = _in_order(xs), len(xs)
    if n % 2 == 1:
        return ordered[n // 2]
    return (ordered[n // 2 - 1] + ordered[n // 2]) / 2


def _median_low(xs):
    return _in_order(xs)[(len(xs) - 1) // 2]


def _median_high(xs):
    return _in_order(xs)[len(xs) // 2]


def _squares(xs):
    middle = math.fsum(xs) / len(xs)
    return math.fsum([(x - middle) ** 2 for x in xs])


def _squares_of_integers(xs):
    """Times how many there are."""
    return len(xs) * sum([x * x for x in xs]) - sum(xs) ** 2


def _at_least(name, xs, least):
    if len(xs) < least:
        raise StatisticsError(
            f"{name} requires at least {'two data points' if least == 2 else 'one data point'}"
        )


def _spread(name: str, least: int, root: bool) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """A variance or its root, of floats and of integers; ``least``: 2 of a sample, 1 of all data."""

    def of_floats(xs):
        _at_least(name, xs, least)
        found = _squares(xs) / (len(xs) - least + 1)
        return math.sqrt(found) if root else found

    def of_integers(xs):
        _at_least(name, xs, least)
        above, below = _squares_of_integers(xs), len(xs) * (len(xs) - least + 1)
        return math.sqrt(above / below) if root else _quotient(above, below)

    return of_floats, of_integers


def _form(function: Any, of_floats: Callable[[Any], Any], of_integers: Callable[[Any], Any]) -> None:  # fmt: skip
    DECIDING.update((of_floats, of_integers))

    @handles(function)
    @union.each
    def form(*args: Any, **named: Any) -> Any:
        alone = is_tracing() and len(args) == 1 and not named
        numbers = alone and not isinstance(args[0], StagedArray)
        kinds = kinds_of_numbers(args[0]) if numbers else None
        if kinds is None or bool in kinds:
            return leave_alone(function, args, named)
        return call(of_integers if kinds == {int} else of_floats, args[0])


def register() -> None:
    """Once, however often it is asked for."""
    if statistics.mean not in BUILTINS:
        DECIDING.update((_quotient, _in_order, _squares, _squares_of_integers, _at_least))
        for function, meanings in _MEANINGS.items():
            _form(function, *meanings)


_MEANINGS: dict[Any, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    statistics.variance: _spread("variance", 2, False),
    statistics.stdev: _spread("stdev", 2, True),
    statistics.pvariance: _spread("pvariance", 1, False),
    statistics.pstdev: _spread("pstdev", 1, True),
    statistics.fmean: (_fmean, _fmean),
    statistics.median: (_median, _median),
    statistics.median_low: (_median_low, _median_low),
    statistics.median_high: (_median_high, _median_high),
    statistics.mean: (_mean, _mean_of_integers),  # last: it tells that all are there
}
