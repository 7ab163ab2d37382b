"""The functions of ``math`` on staged numbers."""

from __future__ import annotations

import math

from ...runtime.inference.shapes import SYMBOLS
from ...runtime.symbols.funcgraph import current_graph
from ...runtime.symbols.scalars import new_scalar
from .forms import as_number, unless_staged


def _math(name: str):
    function = getattr(math, name)
    whole = name in ("floor", "ceil", "trunc", "isqrt", "gcd", "comb", "factorial")
    kind = int if whole else bool if name in ("isnan", "isinf", "isfinite") else float

    def form(*args):
        graph = current_graph()
        numbers = [as_number(a) for a in args]
        values = tuple(n.node.value(graph) if isinstance(n, SYMBOLS) else n for n in numbers)
        return new_scalar(f"py.math.{name}", values, kind, graph)

    return unless_staged(function)(form)


for _name in ["sqrt", "sin", "cos", "tan", "exp", "log", "log2", "log10", "tanh", "sinh", "cosh", "asin", "acos", "atan", "atan2", "fabs", "floor", "ceil", "trunc", "isnan", "isinf", "isfinite", "hypot", "pow", "fmod", "copysign", "log1p", "expm1", "erf", "gamma", "lgamma", "degrees", "radians", "isqrt", "gcd", "comb", "factorial"]:  # fmt: skip
    _math(_name)
