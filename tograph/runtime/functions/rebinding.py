"""Pickling and copying of functions: by reference, as Python's own functions are.

A decorated function of a module is its name; one that was made of a function that has a name is made of that again. One that was made of a method, a ``functools.partial`` or a callable object
belongs to that object: a copy of the object gets a function of its own. Traces are never copied.
"""

from __future__ import annotations

import copy
import importlib
import pickle
import types
from typing import Any


def reduce_function(f: Any) -> tuple:
    """How to pickle a ``Function``; PicklingError for one that no name leads to."""
    inner = f.python_function
    found = _named(inner)
    if found is inner or not isinstance(inner, types.FunctionType):
        return remake, (type(f), inner, f._convert, f.input_signature, f.reduce_retracing, f._name)
    if getattr(found, "python_function", None) is not inner:
        raise pickle.PicklingError(
            f"cannot pickle {f!r}: {inner.__module__}.{inner.__qualname__} is not it; functions are pickled by name, so define it "
            "at the top of a module"
        )
    return by_name, (inner.__module__, inner.__qualname__)


def _named(f: Any) -> Any:
    """What the name of a function leads to, if anything."""
    try:
        return by_name(f.__module__, f.__qualname__)
    except (ImportError, AttributeError):
        return None


def by_name(module: str, qualname: str) -> Any:
    """The object of a name."""
    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def remake(cls: type, inner: Any, convert: Any, signature: Any, reduced: bool, name: Any) -> Any:
    """A new function of an object, without traces."""
    return cls(inner, convert, signature, reduced, name)


def copy_function(f: Any) -> Any:
    """The function itself, as of Python's own; one of the same object, without traces."""
    inner = f.python_function
    return f if isinstance(inner, types.FunctionType) else without_traces(f, inner)


def without_traces(f: Any, inner: Any) -> Any:
    """A function like ``f`` of ``inner`` that knows no traces."""
    return remake(type(f), inner, f._convert, f.input_signature, f.reduce_retracing, f._name)


def deepcopy_function(f: Any, memo: dict) -> Any:
    """The function for a deep copy of what holds it."""
    if isinstance(f.python_function, types.FunctionType):
        return f
    made = without_traces(f, copy.deepcopy(f.python_function, memo))
    memo[id(f)] = made
    return made


def refuse_scripting(function: Any) -> Any:
    """What ``torch.jit.script`` asks for first. RuntimeError: it would go on with ``__call__``."""
    label = function.label()
    raise RuntimeError(
        f"torch.jit.script takes no tg.function: give it {label}.python_function, or keep {label} and save it with tg.save"
    )
