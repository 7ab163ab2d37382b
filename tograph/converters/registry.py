"""The tables of staged forms: what a call of a built-in or a method of a built-in class does in converted code.

A form takes the same arguments, and falls back to the built-in where nothing is staged.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

Form = Callable[..., Any]
BUILTINS: dict[Any, Form] = {}
METHODS: dict[tuple[type, str], Form] = {}
GROWING: dict[str, Form] = {}  # methods of lists of the graph
TENSOR_METHODS: dict[str, Form] = {}
DRAWS: dict[str, Form] = {}  # of random generators of numpy, which not every program loads
STREAM_METHODS: dict[str, Form] = {}
SLOT_METHODS: dict[str, Form] = {}  # of objects and of descriptors, which write attributes
SPECIAL_METHODS: dict[str, Form] = {}  # of built-in classes, by name, where values are staged
GETTERS: dict[type, Form] = {}  # what ``operator.itemgetter`` and its kind give
TABLE_METHODS: list[
    Form
] = []  # of dicts and sets of the graph: takes one, the name and the arguments
PICKED: list[
    Form
] = []  # the items of a sequence's iterator whose place only the run knows, by a generator
TABLE_KEYS: list[Form] = []  # what going over a dict or set of the graph gives
STEPS: list[Form] = []  # of the step of an optimiser: takes the method of its class first
CLOSURES: dict[
    types.CodeType, Form
] = {}  # of functions that transforms of torch give: takes one, gives the staged form of it
LATE: dict[str, Callable[[], None]] = {}  # by module: registers the forms of its functions
HIGHER_ORDER: set[Any] = set()  # functions whose arguments are converted first


def handles(*functions: Any) -> Callable:
    """Registers the staged form of functions."""

    def add(form):
        inner = inspect.unwrap(form)
        for f in functions:
            BUILTINS[f] = _by_name(f, form, inner)
        if isinstance(inner, types.FunctionType):
            inner.__qualname__ = functions[
                0
            ].__name__  # in Python's error for a call that does not fit
        return form

    return add


def _by_name(f: Any, form: Form, inner: Any) -> Form:
    """``form``, which may be given arguments by the names that a Python function has for them."""
    plain = inspect.unwrap(f) if isinstance(f, types.FunctionType) else None
    if not isinstance(plain, types.FunctionType) or not isinstance(inner, types.FunctionType):
        return form
    names, own = (g.__code__.co_varnames[: g.__code__.co_argcount] for g in (plain, inner))
    if names[: len(own)] == own:
        return form

    @functools.wraps(form)
    def run(*args: Any, **kwargs: Any) -> Any:
        for name in names[len(args) : len(own)] if kwargs else ():
            if name not in kwargs:
                break
            args += (kwargs.pop(name),)
        return form(*args, **kwargs)

    return run


def hashable(f: Any) -> bool:
    return type(f).__hash__ is not None


def form_of(f: Any) -> Callable[..., Any] | None:
    """The staged form of a callable; content decides whether tuples and sets are hashable, and they have none."""
    return BUILTINS.get(f) if hashable(f) and not isinstance(f, (tuple, frozenset)) else None


def late_form(f: types.FunctionType) -> Form | None:
    """The form of a function that its module's forms, which are registered now, have."""
    if f.__module__ not in LATE:
        return None
    LATE[f.__module__]()
    return BUILTINS.get(f)


def takes_functions(*functions: Any) -> None:
    """Functions that call their arguments: those are converted first."""
    HIGHER_ORDER.update(functions)
