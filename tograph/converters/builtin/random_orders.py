"""``random.shuffle``, ``sample`` and ``choices`` when the graph runs: Python's own algorithms, over numbers that are drawn then.

They draw as Python 3.11 and 3.12 do, so that the same seed gives the same order. The functions of this module are converted like the user's.
"""

from __future__ import annotations

import bisect
import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from ...runtime.inference.shapes import SYMBOLS
from ...runtime.symbols.funcgraph import current_graph, is_tracing
from ...runtime.symbols.scalars import new_scalar
from ...runtime.values.structure import is_growing
from ..call_rules import DECIDING
from ..calls import call
from ..container_changes import record_change
from ..registry import handles
from .outside_numbers import drawn_below, drawn_float, drawn_now, drawn_places, is_outside

UNROLLED = 16  # steps that are copies of the code
MOST = 1 << 62  # numbers of the graph have 64 bits


def _steps(n: Any, items: Any) -> Any:
    """``n``, as a number of the graph where so many steps over numbers are better a loop of the graph."""
    if type(n) is not int or n <= UNROLLED or not is_tracing():
        return n
    known = items if isinstance(items, range) else list.__iter__(items) if isinstance(items, list) else ("",)  # fmt: skip
    if not all(isinstance(v, (int, float, *SYMBOLS)) for v in known):
        return n
    return new_scalar("py.constant", (n,), int, current_graph())


def _shuffled(generator, x):
    for i in reversed(range(1, _steps(len(x), x))):
        j = drawn_below(generator, i + 1)
        x[i], x[j] = x[j], x[i]


def _sampled(generator, population, k, *, counts=None):
    if not isinstance(population, Sequence):
        raise TypeError("Population must be a sequence.  For dicts or sets, use sorted(d).")
    if counts is not None:
        population = [v for v, n in zip(population, counts, strict=True) for _ in range(n)]
    n = len(population)
    if not 0 <= k <= n:
        raise ValueError("Sample larger than population or is negative")
    if type(n) is int and type(k) is int and n**k < MOST:
        code = drawn_places(generator, n, k)
        return [population[code // n**i % n] for i in range(k)]
    found = []
    if n <= (21 if k <= 5 else 21 + 4 ** math.ceil(math.log(k * 3, 4))):
        pool = list(population)
        for i in range(_steps(k, pool)):
            j = drawn_below(generator, n - i)
            found.append(pool[j])
            pool[j] = pool[n - i - 1]
        return found
    taken = set()
    for _ in range(_steps(k, population)):
        j = drawn_below(generator, n)
        while j in taken:
            j = drawn_below(generator, n)
        taken.add(j)
        found.append(population[j])
    return found


def _chosen(generator, population, weights=None, *, cum_weights=None, k=1):
    n = len(population)
    if weights is None and cum_weights is None:
        if n == 0:
            raise IndexError("list index out of range")
        return [population[int(drawn_float(generator) * n)] for _ in range(k)]
    if weights is not None and cum_weights is not None:
        raise TypeError("Cannot specify both weights and cumulative weights")
    sums = list(itertools.accumulate(weights)) if cum_weights is None else cum_weights
    if len(sums) != n:
        raise ValueError("The number of weights does not match the population")
    total = sums[-1] + 0.0
    if total <= 0.0:
        raise ValueError("Total of weights must be greater than zero")
    if total == math.inf or total != total:
        raise ValueError("Total of weights must be finite")
    return [
        population[bisect.bisect_right(sums, drawn_float(generator) * total, 0, n - 1)]
        for _ in range(k)
    ]


def _form(name: str, meaning: Callable[..., Any]) -> None:
    plain = getattr(random.Random, name)
    DECIDING.add(meaning)

    def form(generator: random.Random, *args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        if is_outside(generator, *given, *(x.length() for x in given if is_growing(x))):
            return call(meaning, generator, *args, **kwargs)
        if name == "shuffle" and given and isinstance(given[0], list):
            record_change(given[0], name, (), {})  # what Python changes itself is undone too
        return drawn_now(generator, name, *args, **kwargs)

    handles(plain)(form)


for _name, _meaning in (("shuffle", _shuffled), ("sample", _sampled), ("choices", _chosen)):
    _form(_name, _meaning)
