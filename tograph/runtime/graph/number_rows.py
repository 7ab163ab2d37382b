"""Rows of Python's numbers, texts and places of items: Python's own functions are the reference."""

from __future__ import annotations

import math
import operator
from typing import Any

import torch

from ...errors import OutOfRangeError, StagingError
from .opaque import plain
from .rows import MAY_FAIL, NONE, PURE, register

ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor")  # fmt: skip
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_UNARY = {"neg": operator.neg, "pos": operator.pos, "abs": abs, "invert": operator.invert, "not": operator.not_,
          "int": int, "float": float, "bool": bool, "trunc": math.trunc, "ceil": math.ceil, "floor": math.floor,
          "str": str}  # fmt: skip
_BINARY = {n: getattr(operator, n) for n in (*ARITHMETIC, *COMPARISONS)}
_BINARY |= {"min": min, "max": max}
PYTHON = {**_UNARY, **_BINARY}
_FAILING = frozenset(
    [
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "int",
        "float",
        "lshift",
        "rshift",
        "trunc",
        "ceil",
        "floor",
    ]
)


def _number(function):
    """Apply to numbers; a tensor among the arguments counts as the number it holds."""

    def run(*args):
        return function(*(a.item() if isinstance(a, torch.Tensor) else a for a in args))

    return run


for _name, _function in PYTHON.items():
    _effects = MAY_FAIL if _name in _FAILING else PURE
    register(f"py.{_name}", run=_number(_function), effects=_effects, gradient=NONE)
_MATH = """sqrt sin cos tan exp log log2 log10 tanh sinh cosh asin acos atan atan2 fabs floor ceil trunc isnan isinf isfinite hypot pow fmod copysign
log1p expm1 erf gamma lgamma degrees radians isqrt gcd comb factorial perm lcm ldexp exp2 cbrt asinh acosh atanh erfc remainder nextafter ulp"""
for _name in _MATH.split():
    register(f"py.math.{_name}", run=_number(getattr(math, _name)), effects=MAY_FAIL, gradient=NONE)
for _name in ("bit_length", "bit_count"):
    register(f"py.{_name}", run=_number(getattr(int, _name)), effects=PURE, gradient=NONE)


def _math_of(name, part, *args):
    """A function of ``math`` that gives several numbers, of which one is taken, or that takes sequences."""
    found = getattr(math, name)(*args)
    return found if part is None else found[part]


register("py.ratio_part", run=lambda x, part: x.as_integer_ratio()[part], effects=MAY_FAIL, gradient=NONE)  # fmt: skip
register("py.pow_mod", run=pow, effects=MAY_FAIL, gradient=NONE)
register("py.math_of", run=_math_of, effects=MAY_FAIL, gradient=NONE)


def _round(x, digits=None):
    return round(x) if digits is None else round(x, digits)


def _format(*parts) -> str:
    """The text of an f-string: strings as they are, triples (value, conversion, spec) formatted."""
    out = []
    for part in parts:
        if isinstance(part, str):
            out.append(part)
            continue
        value, conversion, spec = part
        value = plain(value)
        if conversion:
            value = {"r": repr, "s": str, "a": ascii}[conversion](value)
        out.append(format(value, spec if isinstance(spec, str) else _format(*spec)))
    return "".join(out)


def _error_text(error):
    """The one text that an exception was made with."""
    if len(error.args) != 1 or not isinstance(error.args[0], str):
        raise StagingError(
            f"e.args of an exception that happens when the graph runs is taken to be one text; here it is {error.args!r}. Use str(e)"
        )
    return error.args[0]


def _text(name, text, *args):
    """A method of ``str``, ``text[a:b:c]`` by the name ``slice``, or a built-in of a string."""
    if name == "slice":
        return text[slice(*args)]
    function = _OF_TEXTS.get(name)
    return getattr(str, name)(text, *args) if function is None else function(text, *args)


def _str_format(text, args, names, values):
    return text.format(*map(plain, args), **dict(zip(names, map(plain, values))))


def _percent(text, values):
    return text % (tuple(map(plain, values)) if isinstance(values, tuple) else plain(values))


_OF_TEXTS: dict[str, Any] = {"list": list, "ord": ord, "int": int, "float": float}


def _size(x, dim):
    return x.size(dim)


# Of a tensor whose size a run knows.
register("py.truth", run=bool, effects=MAY_FAIL, gradient=NONE)
register("py.type", run=type, effects=PURE, gradient=NONE)
register("py.type_name", run=lambda x: type(x).__name__, effects=PURE, gradient=NONE)
register("py.round", run=_number(_round), effects=MAY_FAIL, gradient=NONE)
register("py.select", run=lambda c, a, b: a if c else b, effects=PURE, gradient=NONE)
register(
    "py.isinstance", run=lambda x, kinds: isinstance(x, plain(kinds)), effects=PURE, gradient=NONE
)
register("py.error_text", run=_error_text, effects=MAY_FAIL, gradient=NONE)
register("py.str_format", run=_str_format,
         effects=MAY_FAIL, gradient=NONE)  # fmt: skip
register("py.percent", run=_percent, effects=MAY_FAIL, gradient=NONE)
register("py.size", run=_size, effects=PURE, gradient=NONE)
register("py.rank", run=lambda x: x.dim(), effects=PURE, gradient=NONE)
register("py.dict_view", run=lambda d, kind: getattr(d, kind)(), effects=PURE, gradient=NONE)  # fmt: skip
register("py.format", run=_format, effects=PURE, gradient=NONE)
register("py.text", run=_text, effects=MAY_FAIL, gradient=NONE)
register("py.apply", run=lambda f, *a: f(*a), effects=MAY_FAIL, gradient=NONE)


def _range_length(start, stop, step):
    """How many numbers ``range(start, stop, step)`` has; ValueError for a step of zero, as range says."""
    numbers = range(*(int(v) for v in (start, stop, step)))
    return max(
        0, -((numbers.start - numbers.stop) // numbers.step)
    )  # len() takes none beyond 63 bits


register("py.range_length", run=_range_length, effects=MAY_FAIL, gradient=NONE)


def position(i, n):
    """The place of an item in ``n`` items, negative ones counted from the end; OutOfRangeError where there is none."""
    if not -n <= i < n:
        raise OutOfRangeError(f"list index out of range: index {i}, size {n}")
    return i % n


def _cell(i, n):
    """As ``position``, of indices from 0 on only."""
    if not 0 <= i < n:
        raise OutOfRangeError(f"index {i} is out of range for size {n}")
    return i


def _room(i, n):
    """``i``, the place of a new item where there is room for ``n``."""
    if i >= n:
        raise OutOfRangeError(f"a list of more than {n} items")
    return i


def _slice_stop(stop, n):
    """How many of ``n`` items ``[:stop]`` has."""
    return slice(None, stop).indices(n)[1]


register("py.position", run=position, effects=MAY_FAIL, gradient=NONE)
register("py.cell", run=_cell, effects=MAY_FAIL, gradient=NONE)
register("py.room", run=_room, effects=MAY_FAIL, gradient=NONE)
register("py.slice_stop", run=_slice_stop, effects=PURE, gradient=NONE)
