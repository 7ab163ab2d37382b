"""Writes and deletions of attributes in place of ``o.a = v`` and ``del o.a``: by the user's own methods where a class has them, and told to the
journal of a staged construct, where what is kept in an object is its state.
"""

from __future__ import annotations

import types
from typing import Any

import torch

from ..errors import StagingError
from ..runtime.gradients import grad_fields
from ..runtime.guarding import reads, unconverted
from ..runtime.library import leaf_flags
from ..runtime.symbols import journal
from ..runtime.symbols.descriptions import hides
from ..runtime.symbols.funcgraph import current_graph, is_tracing, user_location
from ..runtime.symbols.symbolic import SymTensor, switches
from ..runtime.values import conditional_items, inner_lists, locations
from ..runtime.values.growing import check_attribute
from ..runtime.values.structure import is_union, may_miss
from ..runtime.writes import mutation
from . import union
from .attributes import descriptor, is_hook
from .call_rules import is_user_function
from .calls import call
from .failure_attributes import refuse_change
from .standard import refuses_changes
from .union import apply


def setattr_(owner, name, value) -> None:
    """``owner.name = value``"""
    if is_union(owner):
        apply(lambda o: setattr_(o, name, value), owner)
        return
    check_attribute(owner, name, writes=True)
    refuse_change(owner, name)
    if name == "grad" and isinstance(owner, torch.Tensor):
        grad_fields.write(owner, value)
        return
    if name == "data" and isinstance(owner, torch.Tensor) and is_tracing():
        union.apply(lambda v: mutation.replace_data(owner, v), value)
        return
    if hides(owner, name):
        raise StagingError(
            f"symbolic tensors keep something of their own under {name!r}: give the attribute another name",
            user_location(),
        )
    if name == "requires_grad" and _require(owner, value):
        return
    found = descriptor(owner, name)
    if isinstance(found, property) and is_user_function(found.fset):
        call(found.fset, owner, value)
        return
    if found is not None and is_user_function(getattr(type(found), "__set__", None)):
        call(type(found).__set__, found, owner, value)
        return
    hook: Any = type(owner).__setattr__
    if refuses_changes(hook, owner, name):
        hook(owner, name, value)
    if is_hook(hook) and hook is not torch.nn.Module.__setattr__:
        call(hook, owner, name, value)
        return
    _store(setattr, found, owner, name, value)


def _require(x: Any, value: Any) -> bool:
    """``x.requires_grad = value`` of a tensor of the graph; whether it is one, and this a bool."""
    if isinstance(x, torch.Tensor):
        leaf_flags.need_known(value)
    if not isinstance(x, SymTensor) or not isinstance(value, bool):
        return False
    leaf_flags.set_flag(x, value, assigned=True)
    return True


def set_plainly(owner, name, value) -> None:
    """``object.__setattr__(owner, name, value)``: past the ``__setattr__`` of a user's class."""
    found = descriptor(owner, name)
    if isinstance(found, property) and is_user_function(found.fset):
        call(found.fset, owner, value)
    elif is_user_function(getattr(type(found), "__set__", None)):
        call(type(found).__set__, found, owner, value)
    else:
        how = type if isinstance(owner, type) else object
        _store(how.__setattr__, found, owner, name, value)


def _store(how, found, owner, name, value) -> None:
    """Write what is kept in the object itself, or by C."""
    by_c = isinstance(found, types.GetSetDescriptorType) and name not in ("__dict__", "__class__")
    if by_c and not isinstance(owner, (torch.Tensor, type, types.FunctionType, types.CellType)):
        unconverted.run(how, (owner, name, value), {})
        return
    if not journal.active() or isinstance(found, property):
        if isinstance(owner, SymTensor) and is_tracing():
            current_graph().root.tagged = True
        how(owner, name, value)
        return

    if isinstance(owner, SymTensor):
        current_graph().root.tagged = True

    def write() -> None:
        held = getattr(owner, "__dict__", None)
        if type(held) is dict and may_miss(held.get(name)) and next(reversed(held)) != name:
            conditional_items.unorder(held)  # where it was not there, it is the last one now
        if name == "requires_grad" and isinstance(owner, torch.Tensor) and is_tracing():
            reads.leaf(owner)
            switches(owner, value)
            journal.record(leaf_flags.Place(owner))
        else:
            journal.record(locations.attribute(owner, name))
        how(owner, name, value)

    inner_lists.changing(owner, write)


def delattr_(owner, name) -> None:
    """``del owner.name``"""
    if is_union(owner):
        apply(lambda o: delattr_(o, name), owner)
        return
    refuse_change(owner, name)
    hook: Any = type(owner).__delattr__
    if refuses_changes(hook, owner, name):
        hook(owner, name)
    if is_hook(hook) and hook is not torch.nn.Module.__delattr__:
        call(hook, owner, name)
    else:
        delete_plainly(owner, name, delattr)


def delete_plainly(owner, name, how=None) -> None:
    """``object.__delattr__(owner, name)``"""
    found = descriptor(owner, name)
    if isinstance(found, property) and is_user_function(found.fdel):
        call(found.fdel, owner)
        return
    if found is not None and is_user_function(getattr(type(found), "__delete__", None)):
        call(type(found).__delete__, found, owner)
        return
    if journal.active():
        journal.record(locations.attribute(owner, name))
    plain = type if isinstance(owner, type) else object
    (how or plain.__delattr__)(owner, name)
