"""Built-ins on numbers and texts: ``int``, ``float``, ``bool``, ``abs``, ``round``, ``divmod``, ``pow``, ``str``, ``format``, ``hash``."""

from __future__ import annotations

import operator

import torch

from ...errors import StagingError
from ...runtime import control_flow
from ...runtime.inference.shapes import SYMBOLS
from ...runtime.library.staged_string import StagedString, text_op
from ...runtime.symbols.funcgraph import current_graph, user_location
from ...runtime.symbols.required import require
from ...runtime.symbols.scalars import new_scalar, own, to_python
from ...runtime.traces.shown import shows_staged
from .. import text_options, union
from ..calls import call
from ..logical import not_
from ..registry import METHODS, handles
from ..staging import is_staged
from ..strings import fstring, str_format
from ..tensor_index import as_place
from .forms import as_number, unless_staged


def _cast(kind: type):
    def cast(x=0, *rest, **kwargs):
        if isinstance(x, StagedString):
            return text_op(kind.__name__, kind, x, *rest, *kwargs.values())
        if isinstance(x, str) and any(map(is_staged, (*rest, *kwargs.values()))):
            raise StagingError("the base of int() is known only when the graph runs: write digits as numbers", user_location())  # fmt: skip
        if rest or kwargs:
            raise TypeError(
                "int() can't convert non-string with explicit base: a staged value has base 10"
            )
        x = as_number(x, ValueError)
        return to_python(x, kind.__name__) if isinstance(x, SYMBOLS) else kind(x)

    return cast


unless_staged(int)(_cast(int))


unless_staged(float)(_cast(float))


@unless_staged(bool)
def bool_(x=False):
    x = union.truth(x, "bool")
    if not is_staged(x):
        return bool(x)
    test = control_flow.predicate(x, "bool")
    return to_python(as_number(test), "bool")


@handles(operator.truth)
def truth(x):
    return call(bool, x)


handles(operator.not_)(not_)


@unless_staged(abs)
def abs_(x):
    return x.__abs__() if isinstance(x, SYMBOLS) else torch.abs(x)


@unless_staged(round)
def round_(number, ndigits=None):
    if isinstance(number, torch.Tensor):
        raise TypeError("type Tensor doesn't define __round__ method")
    digits = as_place(ndigits)
    if isinstance(number, SYMBOLS):
        return own(number).__round__(digits)
    if not isinstance(number, int | float):
        return round(number, digits)
    graph = current_graph()
    kind = float if isinstance(number, float) else int
    return new_scalar("py.round", (number, digits.node.value(graph)), kind, graph)


def _digits(function, spec: str) -> None:
    @unless_staged(function)
    def form(x):
        x = as_place(x)
        return fstring((x, "", spec))


for _function, _spec in ((bin, "#b"), (oct, "#o"), (hex, "#x")):
    _digits(_function, _spec)


@unless_staged(chr)
def chr_(x):
    n = as_place(x)
    for holds in (n >= 0, n < 0x110000):
        require(holds, ValueError("chr() arg not in range(0x110000)"))
    return fstring((n, "", "c"))


@unless_staged(ord)
def ord_(c):
    if not isinstance(c, StagedString):
        found = c.node.kind.__name__ if isinstance(c, SYMBOLS) else type(c).__name__
        raise TypeError(f"ord() expected string of length 1, but {found} found")
    return text_op("ord", int, c)


@unless_staged(divmod)
def divmod_(a, b):
    a, b = own(a), own(b)
    if isinstance(a, _NO_NUMBERS) or isinstance(b, _NO_NUMBERS):
        kinds = [_kind_name(x) for x in (a, b)]
        raise TypeError("unsupported operand type(s) for divmod(): {!r} and {!r}".format(*kinds))
    if (zero := _zero_division(a, b)) is not None:
        require(b != 0, ZeroDivisionError(zero))
    return a // b, a % b


_NO_NUMBERS = (
    torch.Tensor,
    str,
    StagedString,
    list,
    tuple,
    dict,
    set,
    type(None),
)  # without ``__divmod__``


def _kind_name(x) -> str:
    """How Python's messages name the type of an operand."""
    if isinstance(x, torch.Tensor):
        return "Tensor"
    return (x.node.kind if isinstance(x, SYMBOLS) else x.__class__).__name__


def _zero_division(*numbers) -> str | None:
    """What ``divmod`` by zero says of numbers of these kinds; None for other than numbers."""
    kinds = [n.node.kind if isinstance(n, SYMBOLS) else type(n) for n in numbers]
    if not all(issubclass(k, int | float) for k in kinds):
        return None
    try:
        divmod(*(k(0) for k in kinds))
    except ZeroDivisionError as error:
        return str(error)
    return None


@unless_staged(pow)
def pow_(base, exp, mod=None):
    return base**exp if mod is None else _pow_mod(base, exp, mod)


def _pow_mod(*numbers):
    """``pow`` with a modulus: of integers, an inverse where the exponent is negative."""
    kinds = [n.node.kind if isinstance(n, SYMBOLS) else type(n) for n in numbers]
    if not all(issubclass(k, (int, float, complex)) for k in kinds):
        names = ", ".join(repr("Tensor" if issubclass(k, torch.Tensor) else k.__name__) for k in kinds)  # fmt: skip
        raise TypeError(f"unsupported operand type(s) for ** or pow(): {names}")
    if not all(issubclass(k, int) for k in kinds):
        raise TypeError("pow() 3rd argument not allowed unless all arguments are integers")
    base, exp, mod = numbers
    if isinstance(exp, int) and exp >= 0 and isinstance(mod, int) and mod:
        return base**exp % mod
    graph = current_graph()
    values = tuple(n.node.value(graph) if isinstance(n, SYMBOLS) else n for n in numbers)
    return new_scalar("py.pow_mod", values, int, graph)


@unless_staged(complex)
def complex_(real, imag=0):
    raise StagingError(
        "complex() of a staged value is not supported; use torch.complex", user_location()
    )


def _of_its_kind(x):
    """What Python's messages of types say of ``x`` as well."""
    if isinstance(x, SYMBOLS):
        return x.node.kind(1)
    if isinstance(x, torch.Tensor):
        return torch.Tensor()
    return "" if isinstance(x, StagedString) else x


def _text(function, conversion: str) -> None:
    def form(x, *rest):
        if rest:
            function(*map(_of_its_kind, (x, *rest)))  # raises: only bytes take an encoding
        return fstring((x, conversion, ""))

    run = unless_staged(function)(form)

    # A list of the graph, or one with staged items, is shown when the graph runs.
    def text(*args, **kwargs):
        if kwargs:  # of ``str(object=x)``, or of an encoding
            return text(kwargs["object"]) if [*kwargs] == ["object"] and not args else function(*args, **kwargs)  # fmt: skip
        args = tuple(map(text_options.as_text, args))
        if union.holds_union(args, {}):
            return union.apply(text, *args)
        return form(*args) if args and shows_staged(args[0]) else run(*args)

    handles(function)(text)


_text(str, "s")
_text(repr, "r")
_text(ascii, "a")


@unless_staged(format)
def format_(x, spec=""):
    return fstring((x, "", spec))


METHODS[str, "format"] = str_format
