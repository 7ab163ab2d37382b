"""Callables that the standard library's decorators make of a user's functions and classes: what they call is converted.

``functools.lru_cache``  a call without tensors among its arguments runs outside of the graph, once, as Python would run it; its result,
    made of real tensors, is captured. A call with tensors is traced where it stands.
``functools.singledispatch``  the function for the kind that the first argument has when the graph runs.
``enum``  ``Color(n)`` looks for the member by comparing, where ``n`` is known when the graph runs.
``dataclasses``  the ``__init__`` that is generated for a class calls ``__post_init__``; ``replace`` calls ``__init__``.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import torch

from ..errors import ScopeError
from ..runtime.recording.tracing import suspended
from ..runtime.symbols.funcgraph import is_tracing
from ..runtime.values.pytrees import blank, parts_of
from ..runtime.values.structure import is_union
from .call_rules import DECIDING, WRAPPERS, is_user_function
from .staging import is_staged
from .union import distribute


def holds_staged(x: Any) -> bool:
    """Whether a value is staged, or a container with a staged part."""
    todo, seen = [x], {}
    while todo:
        x = todo.pop()
        if is_staged(x) or is_union(x) or isinstance(x, torch.Tensor):
            return True
        if id(x) not in seen:  # objects may hold each other
            seen[id(x)] = x
            found = parts_of(x)
            todo += found[1] if found is not None else ()
    return False


def cached(call: Callable[..., Any], f: Any, args: tuple, kwargs: dict) -> Any:
    """A call of an ``lru_cache`` function."""
    inner = f.__wrapped__
    if not is_tracing() or not is_user_function(inner):
        return f(*args, **kwargs)
    if holds_staged((args, kwargs)):
        return call(inner, *args, **kwargs)
    try:
        with suspended():
            return f(*args, **kwargs)
    except ScopeError:  # it uses a value of the graph that it found in a closure
        return call(inner, *args, **kwargs)


def member_of(cls, value):
    """The member of an ``Enum`` with a value, converted."""
    for member in (
        () if isinstance(value, torch.Tensor) else cls
    ):  # tensors are equal to themselves only
        if member is value or member.value == value:
            return member
    found = cls._missing_(value)
    if found is None:
        raise ValueError(f"{value!r} is not a valid {cls.__qualname__}")
    return found


DECIDING.add(member_of)
_dispatched: Any = functools.singledispatch(lambda x: x)
DISPATCHER: types.CodeType = _dispatched.__code__
WRAPPERS.add(DISPATCHER)


def dispatch(call: Callable[..., Any], f: Any, args: tuple, kwargs: dict) -> Any:
    """A call of a ``singledispatch`` function."""
    if not args:
        return f(*args, **kwargs)
    if is_union(args[0]):
        return distribute(lambda one: dispatch(call, f, (one, *args[1:]), kwargs), args[0])
    return call(f.dispatch(call(type, args[0])), *args, **kwargs)


def is_made_by_parts(cls: type) -> bool:
    """Whether the ``__init__`` of a class is one that ``dataclasses`` generated and calls what is to be converted: factories, ``__post_init__``."""
    code: Any = getattr(cls.__init__, "__code__", None)
    if not dataclasses.is_dataclass(cls) or code is None or not code.co_filename.startswith("<"):
        return False
    fields = cls.__dataclass_fields__.values()
    return is_user_function(getattr(cls, "__post_init__", None)) or any(
        f.default_factory is not dataclasses.MISSING for f in fields
    )


def compared_fields(method: Any, x: Any) -> tuple[str, ...] | None:
    """The fields that a comparison looks at where ``dataclasses`` generated the method for the class of ``x``, else None."""
    code = getattr(method, "__code__", None)
    if code is None or not code.co_filename.startswith("<"):
        return None
    for cls in type(x).__mro__:
        if vars(cls).get(method.__name__) is method:
            made = vars(cls).get("__dataclass_fields__")
            return (
                None
                if made is None
                else tuple(f.name for f in dataclasses.fields(cls) if f.compare)
            )
    return None


def refuses_changes(method: Any, x: Any, name: str) -> bool:
    """Whether ``method`` is the ``__setattr__`` or ``__delattr__`` of a frozen dataclass, which raises for this attribute."""
    code, made = getattr(method, "__code__", None), getattr(type(x), "__dataclass_params__", None)
    if code is None or made is None or not (made.frozen and code.co_filename.startswith("<")):
        return False
    return "__dataclass_params__" in vars(type(x)) or name in type(x).__dataclass_fields__


def construct_dataclass(call: Callable[..., Any], cls: Any, args: tuple, kwargs: dict) -> Any:
    """What the generated ``__init__`` does, with factories and ``__post_init__`` converted."""
    made = blank(cls)
    own = is_user_function(cls.__setattr__) and not cls.__dataclass_params__.frozen
    put = functools.partial(call, setattr) if own else object.__setattr__
    bound = inspect.signature(cls.__init__).bind(made, *args, **kwargs).arguments
    rest = []
    for name, field in cls.__dataclass_fields__.items():
        kind = field._field_type.name
        if kind == "_FIELD_CLASSVAR":
            continue
        if field.init and name in bound:
            value = bound[name]
        elif field.default_factory is not dataclasses.MISSING:
            value = call(field.default_factory)
        elif field.default is not dataclasses.MISSING and (field.init or name in _slots(cls)):
            value = field.default
        else:
            continue  # the class has the default
        if kind == "_FIELD_INITVAR":
            rest.append(value)
        else:
            put(made, name, value)
    if hasattr(cls, "__post_init__"):
        call(getattr(made, "__post_init__"), *rest)  # noqa: B009  it may be a static method
    return made


def _slots(cls: type) -> set[str]:
    found = [getattr(c, "__slots__", ()) for c in cls.__mro__]
    return {n for names in found for n in ((names,) if isinstance(names, str) else names)}


def replaced(call: Callable[..., Any], x: Any, changes: dict[str, Any]) -> Any:
    """``dataclasses.replace(x, **changes)``"""
    if isinstance(x, type) or not dataclasses.is_dataclass(x):
        raise TypeError("replace() should be called on dataclass instances")
    for field in type(x).__dataclass_fields__.values():
        kind = field._field_type.name
        if kind == "_FIELD_CLASSVAR":
            continue
        if not field.init and field.name in changes:
            raise ValueError(f"field {field.name} is declared with init=False, it cannot be specified with replace()")  # fmt: skip
        if field.init and field.name not in changes:
            if kind == "_FIELD_INITVAR" and field.default is dataclasses.MISSING:
                raise ValueError(f"InitVar {field.name!r} must be specified with replace()")
            changes[field.name] = getattr(x, field.name)
    return call(type(x), **changes)
