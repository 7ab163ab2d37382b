"""The kinds of locations: variables, keys of dicts, attributes, contents of containers, and what a construct keeps for itself.

They read and write by the methods that C has for built-in classes, so that no code of a user's class runs.
"""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict, deque
from typing import Any

import torch

from ...errors import StagingError
from ..symbols.journal import MISSING, Location, active, key_place


def item(box: list, kind: str, name: str) -> Location:
    """The only item of a list, in which a construct keeps something of its own: a counter, a flag."""
    return Location((kind, id(box)), name, lambda: box[0], lambda v: box.__setitem__(0, v), box)


def cell(cell, name: str) -> Location:
    """A variable of a function that nested functions share."""

    def get():
        try:
            return cell.cell_contents
        except ValueError:
            return MISSING

    def set(value):
        if value is not MISSING:
            cell.cell_contents = value
        elif get() is not MISSING:
            del cell.cell_contents

    return Location(("cell", id(cell)), name, get, set, cell)


def kind_in_c(x: Any) -> Any:
    """The class of a container whose methods are C's: one of a user's may have others."""
    return next((c for c in type(x).__mro__ if c in _IN_C), type(x))


_IN_C = (OrderedDict, defaultdict, dict, list, set, deque, bytearray, tuple, frozenset)


def _put_in_order(mapping: Any, key: Any, order: tuple) -> None:
    """Move a key that was added last to where it stood in ``order``; keys that are not in it came later."""
    kind = kind_in_c(mapping)
    # compared as the mapping does: tensors by identity
    places, only = {k: i for i, k in enumerate(order)}, {key: None}
    before = frozenset(order[: places[key]])
    others = [k for k in kind.__iter__(mapping) if k not in only]
    at = max((i + 1 for i, k in enumerate(others) if k in before), default=0)
    for other in others[at:]:
        kind.__setitem__(mapping, other, kind.pop(mapping, other))


def key_of(mapping, key, name: str) -> Location:
    """One key of a dict-like object, module globals among them."""

    kind = kind_in_c(mapping)
    order = tuple(kind.__iter__(mapping)) if kind.__contains__(mapping, key) else ()

    def set(value):
        if value is MISSING:
            kind.pop(mapping, key, None)
            return
        back = order and not kind.__contains__(mapping, key)  # it was there, and is not now
        kind.__setitem__(mapping, key, value)
        if back:
            _put_in_order(mapping, key, order)

    made = Location(
        key_place(mapping, key),
        name,
        lambda: kind.get(mapping, key, MISSING),
        set,
        mapping,
    )
    made.name_key = key
    return made


def attribute(owner, attr: str) -> Location:
    """An attribute that is kept in the object itself."""
    order = _order_of(owner, attr) if active() else ()

    def get():
        found = getattr(owner, "__dict__", None)
        if found is not None and attr in found:
            return found[attr]
        for store in ("_parameters", "_buffers", "_modules"):
            kept = (found or {}).get(store)
            if isinstance(kept, dict) and attr in kept:
                return kept[attr]
        if found is None or _is_in_c(owner, attr):
            return getattr(owner, attr, MISSING)
        return MISSING

    def set(value):
        if get() is not value:  # it is where the class has refused the write
            _put_attribute(owner, attr, value, order)

    return Location(("attr", id(owner), attr), f"{type(owner).__name__}.{attr}", get, set, owner)


def _put_attribute(owner: Any, attr: str, value: Any, order: tuple) -> None:
    """Write or delete an attribute that holds something else, or nothing."""
    if attr == "__dict__" and not isinstance(value, dict):
        raise StagingError(
            f"the __dict__ of a {type(owner).__name__} is replaced in a staged branch or loop: update it instead"
        )
    if value is MISSING:
        # that of a module looks for the attribute in others first, which may be gone already
        plain = isinstance(owner, torch.nn.Module) and attr in owner.__dict__
        kind = object if plain else _hooks(owner, "__delattr__")
        kind.__delattr__(owner, attr)
    else:
        _set_in_order(owner, attr, value, order)


def _order_of(owner: Any, attr: str) -> tuple:
    """The names of the attributes that an object holds, where this is one of them."""
    held = getattr(owner, "__dict__", None)
    return tuple(held) if type(held) is dict and attr in held else ()


def _set_in_order(owner: Any, attr: str, value: Any, order: tuple) -> None:
    """Write an attribute; one that had been taken out comes back where it stood in ``order``."""
    back = order and attr not in owner.__dict__
    if isinstance(owner, torch.nn.Module):
        _make_room(owner, attr, value)
    set_plainly(owner, attr, value)
    if back and attr in owner.__dict__:
        _put_in_order(owner.__dict__, attr, order)


def _make_room(module: torch.nn.Module, attr: str, value: Any) -> None:
    """Take out a parameter, buffer or child in whose place the module would refuse a value of another kind, which was there before it."""
    for store, kind in _STORES.items():
        held = module.__dict__.get(store)
        if held and attr in held and value is not None and not isinstance(value, kind):
            del held[attr]


_STORES = {"_parameters": torch.nn.Parameter, "_buffers": torch.Tensor, "_modules": torch.nn.Module}
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)


def _is_in_c(owner: Any, attr: str) -> bool:
    """Whether C keeps an attribute; of tensors only what is no computation."""
    if isinstance(owner, torch.Tensor):
        return attr == "requires_grad"
    for kind in type(owner).__mro__:
        if attr in kind.__dict__:
            return isinstance(kind.__dict__[attr], _DESCRIPTORS)
    return False


def _hooks(owner: Any, name: str) -> Any:
    """The class whose way of writing attributes is the plain one for an object: a ``__setattr__`` of a user's class ran before."""
    kind = type(owner)
    if isinstance(owner, (type, torch.nn.Module, types.ModuleType)) or not isinstance(
        getattr(kind, name), types.FunctionType
    ):
        return kind
    return object


def set_plainly(owner: Any, attr: str, value: Any) -> None:
    """Write an attribute; a ``__setattr__`` of a user's class ran before."""
    _hooks(owner, "__setattr__").__setattr__(owner, attr, value)


def contents(container, name: str = "") -> Location:
    """All of a list, dict, set, deque or bytearray."""

    of, become = kind_in_c(container), getattr(type(container), "become", None)

    def get():
        if issubclass(type(container), dict):
            return dict(of.items(container))
        if become is not None:
            return type(container)(container)
        return list.copy(container) if of is list else of(container)

    def set(value):
        if become is not None:
            become(container, value)
        elif isinstance(container, (list, bytearray)):
            of.__setitem__(container, slice(None), value)
        elif isinstance(container, deque):
            of.clear(container)
            of.extend(container, value)
        else:
            of.clear(container)
            of.update(container, value)

    kind = "list" if isinstance(container, list) else type(container).__name__
    label = name or f"a {getattr(container, 'kind_', kind)}"
    return Location(("contents", id(container)), label, get, set, container)
