"""The converted form of a user's function, made when the function is first called.

The pipeline makes it, which imports the modules that ask for it; it says how by ``set_converter``.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from ..errors import SourceError
from ..runtime.guarding import unconverted
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import user_location
from ..runtime.values import locations
from ..runtime.values.code_names import writes
from .call_rules import is_straight, is_unconverted, is_user_function

_convert: Callable[[types.FunctionType], types.FunctionType]

_convert_generator: Callable[[types.FunctionType, str], Any]


def set_converter(
    convert: Callable[..., types.FunctionType], convert_generator: Callable[..., Any]
) -> None:
    """The pipeline, which imports this module, says how a function and how a generator function is converted."""
    global _convert, _convert_generator
    _convert, _convert_generator = convert, convert_generator


def converted(f: types.FunctionType) -> types.FunctionType:
    """The converted form of a user's function; code without branches may do without source."""
    try:
        made = _convert(f)
        record_writes(made)
        return made
    except SourceError as error:
        if wraps_users(f):
            return _around(f)
        if is_straight(f.__code__):
            return lambda *args, **kwargs: unconverted.run(f, args, kwargs)
        raise SourceError(str(error), user_location()) from None


def wraps_users(f: Any) -> bool:
    """Whether a decorator says that a function wraps one of the user's."""
    return is_unconverted(getattr(f, "__wrapped__", None))


def _around(f: Any) -> Callable[..., Any]:
    """A wrapper whose code some decorator wrote (one that checks types): it runs as it is, on converted forms of the user's functions that it holds."""

    def held(x: Any) -> Any:
        ends = x is f.__wrapped__ or not hasattr(x, "__wrapped__")
        return converted(x) if ends and is_unconverted(x) else x

    own = f.__globals__
    if (
        vars(sys.modules.get(own.get("__name__", ""), f)) is not own
        and f.__wrapped__ in own.values()
    ):
        own = {name: held(x) for name, x in own.items()}
    cells = tuple(types.CellType(held(c.cell_contents)) for c in f.__closure__ or ())
    made = types.FunctionType(f.__code__, own, f.__name__, None, cells or None)
    made.__defaults__ = f.__defaults__ and tuple(map(held, f.__defaults__))
    made.__kwdefaults__ = f.__kwdefaults__ and {n: held(x) for n, x in f.__kwdefaults__.items()}
    return _with_defaults(made, f)


def _with_defaults(made: types.FunctionType, f: types.FunctionType) -> Callable[..., Any]:
    """``made``, to which its caller may also give the defaults of ``f``: the values of arguments that a graph's signature names."""
    pairs = [
        *zip(f.__defaults__ or (), made.__defaults__ or ()),
        *((x, made.__kwdefaults__[n]) for n, x in (f.__kwdefaults__ or {}).items()),
    ]
    forms = {id(x): form for x, form in pairs if x is not form}

    def call(*args: Any, **kwargs: Any) -> Any:
        return made(
            *(forms.get(id(x), x) for x in args),
            **{n: forms.get(id(x), x) for n, x in kwargs.items()},
        )

    return call if forms else made


def generator_form(f: types.FunctionType, form: str = "push") -> Any:
    """The converted form of a generator function whose values a graph takes."""
    return _convert_generator(f, form)


def record_writes(f: types.FunctionType) -> None:
    """The variables of outer functions and the globals that a function assigns are about to change."""
    if not journal.active():
        return
    cells, names = writes(f.__code__)
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
        if name in cells:
            journal.record(locations.cell(cell, name))
    for name in names:
        journal.record(locations.key_of(f.__globals__, name, name))


def convert_if_needed(f: Any) -> Any:
    """A function argument of a higher-order function, converted."""
    if type(f) is types.FunctionType and is_user_function(f):
        return converted(f)
    if type(f) is types.MethodType and is_user_function(f.__func__):
        return types.MethodType(converted(f.__func__), f.__self__)
    return f
