"""Single numbers that numpy's random generators draw: they are drawn when the graph runs, and in order, also in staged branches and loops.

Arrays are drawn while tracing (``guarding.draws``), which would be before the numbers: where a generator does that, tracing begins again, and
all is drawn then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...runtime.guarding import reads
from ...runtime.guarding.draws import is_generator
from ...runtime.inference.shapes import SYMBOLS
from ...runtime.symbols import journal
from ...runtime.symbols.funcgraph import current_graph, is_tracing
from ..registry import DRAWS
from .outside_numbers import number

# Arguments with which a method draws one number; as many as these have no ``size`` among them.
_SAMPLES: dict[str, tuple] = {
    "rand": (), "randn": (), "random": (), "random_sample": (), "standard_normal": (), "standard_cauchy": (), "randint": (0, 2), "integers": (0, 2),
    "uniform": (0.0, 1.0), "normal": (0.0, 1.0), "lognormal": (0.0, 1.0), "laplace": (0.0, 1.0), "gumbel": (0.0, 1.0), "logistic": (0.0, 1.0),
    "exponential": (1.0,), "poisson": (1.0,), "geometric": (0.5,), "rayleigh": (1.0,), "pareto": (1.0,), "weibull": (1.0,), "power": (1.0,),
    "binomial": (1, 0.5), "beta": (1.0, 1.0), "gamma": (1.0, 1.0), "triangular": (0.0, 0.5, 1.0),
}  # fmt: skip
_NAMED = ("low", "high", "loc", "scale", "mean", "sigma", "lam", "p", "a", "b", "n", "shape", "left", "mode", "right", "endpoint")  # fmt: skip


@functools.cache
def _kind(owner: type, name: str) -> type:
    """What a generator's method gives for numbers."""
    made = np.random.RandomState(0) if issubclass(owner, np.random.RandomState) else np.random.default_rng(0)  # fmt: skip
    return type(getattr(made, name)(*_SAMPLES[name]))


def _draw(name: str) -> Callable[..., Any]:
    def form(method: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        generator = method.__self__
        alone = len(args) <= len(_SAMPLES[name]) and all(k in _NAMED for k in kwargs)
        plain = all(isinstance(v, (bool, int, float)) for v in kwargs.values())
        if not (alone and plain and all(isinstance(a, (int, float, *SYMBOLS)) for a in args)):
            return NotImplemented
        if not is_tracing() or current_graph().root.drawn or not _is_outside(generator):
            return NotImplemented
        kind = _kind(type(generator), name)
        if kind not in (int, float) and journal.depth() < 2:
            return NotImplemented  # a number of numpy
        current_graph().root.draws = True
        take = float if issubclass(kind, float) else int
        return number(take, lambda *a: take(method(*a, **kwargs)), name, args)

    return form


def _is_outside(generator: Any) -> bool:
    shared = is_generator(generator) and generator is np.random.mtrand._rand
    return shared or reads.is_outside(generator)


DRAWS.update({name: _draw(name) for name in _SAMPLES})
