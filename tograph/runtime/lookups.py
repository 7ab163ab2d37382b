"""How Python finds an attribute: in a module's dicts, in the object, in its class, or by ``__getattr__``."""

from __future__ import annotations

import types
from typing import Any

import torch

from .journal import MISSING


def module_store(owner: Any, name: str) -> str:
    """Which dict of a module holds an attribute."""
    if not isinstance(owner, torch.nn.Module) or name in vars(owner):
        return ""
    stores = ("_parameters", "_buffers", "_modules")
    return next((s for s in stores if name in vars(owner).get(s, ())), "")


def _lookup(cls: type, name: str) -> Any:
    return next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), MISSING)


def is_method(owner: Any, name: str) -> bool:
    """A function, property or other descriptor of the class: what it reads counts, not what it is."""
    if name in getattr(owner, "__dict__", ()) and not isinstance(owner, type):
        return False
    found = _lookup(owner if isinstance(owner, type) else type(owner), name)
    if isinstance(found, (types.MemberDescriptorType, type(None))) or found is MISSING:
        return False
    return hasattr(type(found), "__get__")


def is_dynamic(owner: Any, name: str) -> bool:
    """Whether an attribute comes from ``__getattr__``."""
    held = name in getattr(owner, "__dict__", ()) or _lookup(type(owner), name) is not MISSING
    return not held and not isinstance(owner, type)
