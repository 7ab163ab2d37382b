"""``np.arange`` of staged numbers: what loops, comprehensions and indices take of an array, each item as the number of Python that it is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import SymbolicValueError
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.symbols.funcgraph import user_location
from .calls import call
from .iterables import StagedSequence


class StagedArange(StagedSequence):
    """The numbers from ``start`` on, each ``step`` after the one before, as numpy computes them."""

    __tograph_shown__ = True

    def __init__(self, start: Any, stop: Any, step: Any):
        self.bounds = start, stop, step
        kinds = [x.node.kind if isinstance(x, SYMBOLS) else type(x) for x in self.bounds]
        self.kind = float if float in kinds else int

    def __tograph_flatten__(self):
        return None, list(self.bounds)

    @staticmethod
    def __tograph_unflatten__(_, bounds):
        if any(isinstance(b, SYMBOLS) for b in bounds):
            return StagedArange(*bounds)
        return np.arange(*bounds)

    def length(self):
        start, stop, step = self.bounds
        return call(max, call(math.ceil, call(_quotient, stop - start, step)), 0)

    def item(self, index):
        start, _, step = self.bounds
        first = call(self.kind, start)
        return first + index * ((first + step) - first)

    def _refuse(self, *_args: Any, **_options: Any) -> Any:
        raise SymbolicValueError(
            "an array of numpy of a length that is known only when the graph runs is gone over and indexed only: make it by torch.arange",
            user_location(),
        )

    __array__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _refuse
    __rtruediv__ = __pow__ = __neg__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(name)
        return self._refuse()


def _quotient(a, b):
    return a / b


def arange(*args: Any) -> StagedArange:
    start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    return StagedArange(start, stop, step)
