"""How Python finds an attribute: in a module's dicts, in the object, in its class, or by ``__getattr__``."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

import torch

from ..symbols.journal import MISSING


def module_store(owner: Any, name: str) -> str:
    """Which dict of a module holds an attribute."""
    if not isinstance(owner, torch.nn.Module) or name in vars(owner):
        return ""
    stores = ("_parameters", "_buffers", "_modules")
    return next((s for s in stores if name in vars(owner).get(s, ())), "")


def held_by(cls: type, name: str) -> Any:
    """What a class or its bases hold under a name."""
    return next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), MISSING)


def is_method(owner: Any, name: str) -> bool:
    """A function, property or other descriptor of the class: what it reads counts, not what it is."""
    if name in getattr(owner, "__dict__", ()) and not isinstance(owner, type):
        return False
    found = held_by(owner if isinstance(owner, type) else type(owner), name)
    if isinstance(found, (types.MemberDescriptorType, type(None))) or found is MISSING:
        return False
    return hasattr(type(found), "__get__")


def member_name(cls: type, function: types.FunctionType) -> str | None:
    """The name of a function in a class; None where it is no member."""
    for c in cls.__mro__:
        at = function.__name__
        if at in vars(c):
            return at if function in _functions(vars(c)[at]) else None
    found = (n for c in cls.__mro__ for n, x in vars(c).items() if function in _functions(x))
    return next(found, None)


def of_a_user(cls: type) -> bool:
    """Whether a class is the user's own."""
    root = cls.__module__.partition(".")[0]
    return root not in _LIBRARIES and (root == "__main__" or root not in sys.stdlib_module_names)


_LIBRARIES = ("builtins", "torch", "numpy", "tograph")


def _functions(member: Any) -> tuple[Any, ...]:
    """The functions that a member of a class runs."""
    if isinstance(member, types.FunctionType):
        return (member,)
    if isinstance(member, (staticmethod, classmethod)):
        return (member.__func__,)
    if isinstance(member, property):
        return (member.fget, member.fset, member.fdel)
    return (member.func,) if isinstance(member, functools.cached_property) else ()


def member_test(cls: type, name: str) -> tuple[str, Any] | None:
    """(a test that a class still holds a member, the function or descriptor that the test compares).

    None for members of libraries, and those that the class gives anew each time it is asked.
    """
    holders = [c for c in cls.__mro__ if name in vars(c)]
    if not holders or not of_a_user(holders[0]):
        return None
    member = vars(holders[0])[name]
    if isinstance(member, classmethod) and isinstance(member.__func__, types.FunctionType):
        return f"{{0}}.{name}.__func__ is ", member.__func__
    if isinstance(member, staticmethod):
        return f"{{0}}.{name} is ", member.__func__
    # by its very class: what a subclass of property gives for the class is up to it
    stays = type(member) in (types.FunctionType, property, functools.cached_property)
    return (f"{{0}}.{name} is ", member) if stays else None


def is_lazy(owner: Any, name: str) -> bool:
    """Whether asking an object for an attribute that it does not hold runs a descriptor, such as a ``functools.cached_property``.

    Functions are descriptors too, whose ``__get__`` does nothing but bind.
    """
    if isinstance(owner, (type, types.ModuleType)) or not hasattr(owner, "__dict__"):
        return False
    kind = type(held_by(type(owner), name))
    bound = issubclass(kind, (types.FunctionType, types.BuiltinFunctionType))
    return hasattr(kind, "__get__") and not hasattr(kind, "__set__") and not bound


def is_dynamic(owner: Any, name: str) -> bool:
    """Whether an attribute comes from ``__getattr__``."""
    held = name in getattr(owner, "__dict__", ()) or held_by(type(owner), name) is not MISSING
    return not held and not isinstance(owner, type)


def unheld(owner: Any, name: str) -> bool:
    """Whether neither an object nor its class holds an attribute, so that ``__getattr__`` is asked for it."""
    held = owner.__mro__ if isinstance(owner, type) else (owner,)
    if any(name in getattr(x, "__dict__", ()) for x in held) or module_store(owner, name):
        return False
    return held_by(type(owner), name) is MISSING


def absence_test(owner: Any, name: str) -> str:
    """The test that an object still holds no attribute of its own, which runs no code of its class."""
    if is_lazy(owner, name):
        return f"{name!r} not in {{0}}.__dict__"
    hook = getattr(type(owner), "__getattr__", None)
    if hook not in (None, torch.nn.Module.__getattr__) and unheld(owner, name):
        return f"unheld({{0}}, {name!r})"
    return f"not hasattr({{0}}, {name!r})"
