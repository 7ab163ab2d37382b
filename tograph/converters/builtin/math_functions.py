"""The functions of ``math`` on staged numbers."""

from __future__ import annotations

import functools
import math
import operator

import torch

from ...runtime.control_flow import outside_value
from ...runtime.inference.shapes import SYMBOLS
from ...runtime.symbols.funcgraph import current_graph
from ...runtime.symbols.scalars import new_scalar
from ...runtime.values.structure import is_growing
from ..calls import call
from ..consumers import gathered
from ..iterables import staged_source
from ..registry import handles
from ..staging import is_staged
from ..tensor_index import as_place
from .forms import as_number, unless_staged


def _math(name: str):
    function = getattr(math, name)
    whole = name in ("floor", "ceil", "trunc", "isqrt", "gcd", "comb", "factorial", "perm", "lcm")
    of_whole = name in ("isqrt", "gcd", "comb", "factorial", "perm", "lcm")
    kind = int if whole else bool if name in ("isnan", "isinf", "isfinite") else float

    def form(*args):
        if name == "log" and len(args) == 2:  # as Python computes it
            return form(args[0]) / form(args[1])
        graph = current_graph()
        if name == "trunc" and isinstance(args[0], torch.Tensor):
            raise TypeError("type Tensor doesn't define __trunc__ method")
        numbers = (
            list(map(as_place, args)) if of_whole else [as_number(a, ValueError) for a in args]
        )
        values = tuple(n.node.value(graph) if isinstance(n, SYMBOLS) else n for n in numbers)
        return new_scalar(f"py.math.{name}", values, kind, graph)

    return unless_staged(function)(form)


for _name in ["sqrt", "sin", "cos", "tan", "exp", "log", "log2", "log10", "tanh", "sinh", "cosh", "asin", "acos", "atan", "atan2", "fabs", "floor", "ceil", "trunc", "isnan", "isinf", "isfinite", "hypot", "pow", "fmod", "copysign", "log1p", "expm1", "erf", "gamma", "lgamma", "degrees", "radians", "isqrt", "gcd", "comb", "factorial", "perm", "lcm", "ldexp", "exp2", "cbrt", "asinh", "acosh", "atanh", "erfc", "remainder", "nextafter", "ulp"]:  # fmt: skip
    _math(_name)


def _parted(name: str, kinds: tuple[type, type]) -> None:
    """A function that gives two numbers."""

    def form(x):
        graph = current_graph()
        value = as_number(x).node.value(graph)
        return tuple(
            new_scalar("py.math_of", (name, part, value), kind, graph)
            for part, kind in enumerate(kinds)
        )

    unless_staged(getattr(math, name))(form)


_parted("modf", (float, float))
_parted("frexp", (float, int))


def _of_sequences(name: str) -> None:
    """A function of sequences of numbers."""
    function = getattr(math, name)

    def form(*sequences):
        sequences = tuple(map(_listed, sequences))
        if not all(isinstance(s, (list, tuple)) for s in sequences) or not any(
            map(_has_staged, sequences)
        ):
            return function(*sequences)
        graph = current_graph()
        values = [_outside(s, graph) for s in sequences]
        return new_scalar("py.math_of", (name, None, *values), float, graph)

    handles(function)(form)


def _listed(items):
    """What a function goes over: a list where its length is known only when the graph runs, or it is a tensor or a generator."""
    items = gathered(items)
    source = staged_source(items)
    unknown = source is not None and is_staged(source.length())
    return call(list, items) if unknown or isinstance(items, torch.Tensor) else items


def _outside(numbers, graph):
    if is_growing(numbers):
        return outside_value(numbers, graph)
    return [outside_value(as_number(x), graph) for x in numbers]


def _has_staged(numbers) -> bool:
    return is_growing(numbers) or any(isinstance(x, (*SYMBOLS, torch.Tensor)) for x in numbers)


_of_sequences("fsum")
_of_sequences("dist")


@handles(math.prod)
def prod(items, /, *, start=1):
    items = _listed(items)
    if not is_growing(items):
        return math.prod(items, start=start)
    return call(functools.reduce, operator.mul, items, start)


@unless_staged(operator.index)
def index(x):
    return +as_place(x)
