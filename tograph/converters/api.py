"""``tg.function`` and what shows and makes converted code: ``to_code``, ``to_graph``, ``convert``."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import torch

from ..errors import (
    AsyncFunctionError,
    ConversionError,
    NotAFunctionError,
    SourceError,
)
from ..runtime.functions.function import Function
from ..runtime.functions.methods import BoundFunction, WeakMethod
from ..runtime.symbols.misuse import check_flag
from ..transpiler import source_search
from . import compiled, recursion
from .call_rules import MARK
from .calls import call
from .conversion import converted, record_writes, wraps_users
from .pipeline import conversion, convert_function

P = ParamSpec("P")
R = TypeVar("R")


@overload
def function(
    fn: Callable[P, R],
    *,
    input_signature: Sequence[Any] | None = None,
    reduce_retracing: bool = False,
    autograph: bool = True,
    name: str | None = None,
) -> Function[P, R]: ...


@overload
def function(
    fn: None = None,
    *,
    input_signature: Sequence[Any] | None = None,
    reduce_retracing: bool = False,
    autograph: bool = True,
    name: str | None = None,
) -> Callable[[Callable[P, R]], Function[P, R]]: ...


def function(
    fn: Callable[..., Any] | None = None,
    *,
    input_signature: Sequence[Any] | None = None,
    reduce_retracing: bool = False,
    autograph: bool = True,
    name: str | None = None,
) -> Any:
    """Run a Python function as a graph. A decorator, with and without arguments.

    ``input_signature``: a ``TensorSpec`` (or structure of them) for each parameter; the function is traced once.
    ``reduce_retracing``: the second size seen in a dimension generalises it. ``autograph``: whether Python control flow on
    tensors is converted. ``name``: of the graph.

    Returns a ``Function``. Raises NotAFunctionError for a class and what cannot be called, SignatureError for an
    ``input_signature`` that is none, ConversionError, when it is called, for code that cannot be converted.

    Example::

        @tg.function
        def collatz(n):
            steps = 0
            while n != 1:
                n = n // 2 if n % 2 == 0 else 3 * n + 1
                steps += 1
            return steps
    """
    check_flag(autograph, "tg.function", "autograph")
    check_flag(reduce_retracing, "tg.function", "reduce_retracing")
    if fn is None:
        return functools.partial(
            function,
            input_signature=input_signature,
            reduce_retracing=reduce_retracing,
            autograph=autograph,
            name=name,
        )
    convert_ = _entry if autograph else None
    _check(fn)
    source_search.remember(fn)
    return Function(fn, convert_, input_signature, reduce_retracing, name)


def _check(fn: Any) -> None:
    if isinstance(fn, (staticmethod, classmethod, property)):
        raise NotAFunctionError(f"put @{type(fn).__name__} above @tg.function, not below it")
    if isinstance(fn, type):
        raise NotAFunctionError(
            f"tg.function takes a function, not the class {fn.__qualname__}: decorate its methods, or give it an object that can be called"
        )
    target = fn.python_function if isinstance(fn, Function) else fn
    if inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target):
        code = target.__code__
        raise AsyncFunctionError(target.__qualname__, (code.co_filename, code.co_firstlineno))
    if inspect.isgeneratorfunction(target):
        code = target.__code__
        raise ConversionError(
            f"{target.__qualname__!r} is a generator function: generators are not supported as the decorated function. "
            "Call it from a function that returns the values.",
            (code.co_filename, code.co_firstlineno),
        )


def _entry(fn: Any) -> Callable[..., Any]:
    """The converted form of the decorated callable."""
    if isinstance(fn, WeakMethod):
        inner = _entry(fn.function)
        return lambda *args, **kwargs: inner(fn.bound_to(), *args, **kwargs)
    if getattr(fn, MARK, False):
        return fn
    inner = compiled.original(fn)
    if inner is not None:
        return _entry(inner)
    if isinstance(fn, types.FunctionType):
        try:
            made = convert_function(fn)
        except SourceError:
            if not wraps_users(fn):
                raise
            made = converted(fn)
        record_writes(made)
        return recursion.entry(fn, made)
    return functools.partial(call, fn)


def _python_function(fn: Any) -> types.FunctionType:
    if isinstance(fn, (Function, BoundFunction)):
        fn = fn.python_function
    if isinstance(fn, WeakMethod):
        fn = fn.function
    if isinstance(fn, functools.partial):
        return _python_function(fn.func)
    inner = compiled.original(fn)
    if inner is not None:
        return _python_function(inner)
    if isinstance(fn, types.MethodType):
        fn = fn.__func__
    if not isinstance(fn, types.FunctionType):
        method = getattr(type(fn), "__call__", None)
        if isinstance(fn, torch.nn.Module):
            method = type(fn).forward
        if not isinstance(method, types.FunctionType) or method.__module__.startswith("tograph."):
            raise NotAFunctionError(f"{fn!r} is not a Python function")
        fn = method
    return fn


def to_code(fn: Any) -> str:
    """The rewritten Python of a function, as it is run while tracing.

    Raises NotAFunctionError for what has no Python source. Example: ``print(tg.to_code(f))``
    """
    return conversion(_python_function(fn)).source


def to_graph(fn: Any) -> Callable[..., Any]:
    """The converted function, not traced: on real tensors it runs at once and gives what ``fn`` gives.

    Raises NotAFunctionError for what has no Python source. Example: ``tg.to_graph(f)(torch.ones(3))``
    """
    if isinstance(fn, types.MethodType):
        return types.MethodType(convert_function(fn.__func__), fn.__self__)
    return convert_function(_python_function(fn))


def convert(fn: Callable[..., Any] | None = None) -> Any:
    """Convert a function in place: the decorator form of ``to_graph``.

    Code that is left alone, such as a callback of a library, then works with tensor conditions.

    Example: ``library.register(tg.convert(callback))``
    """
    if fn is None:
        return convert
    made = to_graph(fn)
    return (
        functools.wraps(fn)(made)
        if isinstance(made, types.FunctionType) and made is not fn
        else made
    )
