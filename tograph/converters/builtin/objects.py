"""Built-ins on objects: ``isinstance``, ``type``, ``callable``, ``getattr`` and its family."""

from __future__ import annotations

import collections
import contextvars
import dataclasses
import sys
from typing import Any

import numpy as np
import torch

from ...runtime import control_flow
from ...runtime.control_flow import StagedException
from ...runtime.guarding import reads, unconverted
from ...runtime.inference.shapes import SYMBOLS
from ...runtime.recording import opaque
from ...runtime.symbols import journal
from ...runtime.symbols.funcgraph import USER_CODE, is_tracing
from ...runtime.symbols.symbolic import SymTensor
from ...runtime.values.growing import StagedList
from ...runtime.values.structure import is_union
from .. import attribute_writes, attributes, standard, union
from ..call_rules import DECIDING
from ..calls import call
from ..construction import noted
from ..iterables import (
    StagedRange,
)
from ..logical import or_
from ..registry import METHODS, SLOT_METHODS, handles
from ..staged_array import StagedArray
from ..staged_class import StagedClass
from ..staging import is_staged
from ..strings import StagedString


def _kind_of(x: Any) -> type | None:
    return x.node.kind if isinstance(x, SYMBOLS) else str if isinstance(x, StagedString) else None


@handles(isinstance)
def isinstance_(x, classes):
    if is_union(classes) or _has_union(classes):
        return _of_some(isinstance_, x, classes)
    classes = _classes(classes)
    if is_union(x):
        if any(isinstance(option, StagedException) for option in x.options_):
            return union.distribute(lambda v: isinstance_(v, classes), x)
        return union.test_options(lambda v: isinstance_(v, classes), x)
    if isinstance(x, StagedException):
        return StagedClass(x).within(classes)
    kind = _kind_of(x)
    if kind is not None:
        return isinstance(x, classes) or issubclass(kind, classes)
    if isinstance(x, StagedRange):
        return isinstance(range(0), classes)
    if isinstance(x, StagedArray):
        return issubclass(np.ndarray, classes)
    if isinstance(x, StagedList):
        return issubclass(x.__class__, classes)
    if type(x) is SymTensor and not isinstance(x, classes):
        return issubclass(torch.nn.Parameter, classes) and issubclass(_class_of(x), classes)
    return isinstance(x, classes)


def _class_of(x: SymTensor) -> type:
    """``torch.Tensor``, or ``torch.nn.Parameter`` where ``x`` is such an argument."""
    found = None if x.chain else reads.argument(x)
    if found is None:
        return torch.Tensor
    watch, i, given = found
    return torch.nn.Parameter if watch.parameter(i, given) else torch.Tensor


@handles(vars)
@union.each
def vars_(*x):
    """Of a tensor, what the code gave it: a copy, beside which symbolic tensors have attributes of their own."""
    if x and type(x[0]) is SymTensor:
        return reads.tensor_fields(x[0])
    reads.passed(x)
    return unconverted.run(vars, x, {})


@handles(dir)
@union.each
def dir_(*x):
    if x and type(x[0]) is SymTensor:
        return sorted({*dir(torch.Tensor), *reads.tensor_fields(x[0])})
    reads.passed(x)
    return unconverted.run(dir, x, {})


@handles(issubclass)
@union.each
def issubclass_(x, classes):
    if type(x) is StagedClass:
        return x.within(classes)
    if _has_union(classes):
        return _of_some(issubclass_, x, classes)
    return issubclass(0 if _is_number(x) else x, _classes(classes))


def _has_union(classes: Any) -> bool:
    return isinstance(classes, tuple) and any(map(is_union, classes))


def _of_some(test: Any, x: Any, classes: Any) -> Any:
    """A test by a class that is one or another by a staged condition, or by several classes with such."""
    if is_union(classes):
        return union.distribute(lambda c: test(x, c), classes)
    found: Any = False
    for c in classes:
        found = or_(found, lambda c=c: test(x, c))
    return found


def _is_number(x: Any) -> bool:
    return isinstance(x, (torch.Tensor, *SYMBOLS))


def _classes(classes: Any) -> Any:
    """``classes``, with numbers in the place of staged ones, for which Python has an error."""
    if isinstance(classes, tuple):
        return tuple(map(_classes, classes)) if any(map(_is_number, classes)) else classes
    return 0 if _is_number(classes) else classes


def _module_here() -> str | None:
    """The module of the user's code that runs, as Python takes it from the frame that makes a class."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code not in USER_CODE:
        frame = frame.f_back
    return None if frame is None else frame.f_globals.get("__name__")


def _new_class(*args: Any, **kwargs: Any) -> type:
    """``type(name, bases, namespace)``."""
    made, module = type(*args, **kwargs), _module_here()
    if module is not None and "__module__" not in args[2]:
        made.__module__ = module
    return made


@handles(collections.namedtuple)
def namedtuple(*args, **kwargs):
    return collections.namedtuple(*args, **{"module": _module_here(), **kwargs})


@handles(type)
def type_(x, *rest, **kwargs):
    if rest or kwargs:
        return _new_class(x, *rest, **kwargs)
    if isinstance(x, StagedList):
        return x.__class__
    if type(x) is SymTensor:
        return _class_of(x)
    if is_union(x):
        return union.distribute(type_, x)
    if isinstance(x, StagedException):
        return StagedClass(x)
    # A size that torch made stays torch.SymInt: ``type(n) is int`` asks whether a size is static.
    return type(x) if type(x) is torch.SymInt else _kind_of(x) or type(x)


@handles(object.__new__)
def new_(cls, /, *args, **kwargs):
    return noted(object.__new__(cls, *args, **kwargs))


@handles(dataclasses.replace)
def replace(x, /, **changes):
    if is_union(x):
        return union.distribute(lambda v: replace(v, **changes), x)
    return (
        standard.replaced(call, x, changes) if is_tracing() else dataclasses.replace(x, **changes)
    )


@handles(callable)
def callable_(x):
    return union.test_options(callable, x) if is_union(x) else callable(x)


@handles(torch.is_tensor)
def is_tensor(x):
    return isinstance_(x, torch.Tensor)


@handles(setattr)
def setattr_call(owner, name, value):
    if is_union(name):
        return union.distribute(lambda chosen: setattr_call(owner, chosen, value), name)
    return attribute_writes.setattr_(owner, name, value)


@handles(hasattr)
def hasattr_call(owner, name):
    if is_union(name):
        return union.distribute(lambda chosen: hasattr_call(owner, chosen), name)
    if is_tracing() and _computed(owner, name):
        return call(_has, owner, name)
    return attributes.has_attribute(owner, name)


@handles(getattr)
def getattr_call(owner, name, *default):
    if is_union(name):
        return union.distribute(lambda chosen: getattr_call(owner, chosen, *default), name)
    if not default:
        return attributes.attr(owner, name)
    if is_tracing() and _computed(owner, name):
        return call(_read, owner, name, default[0])
    there = attributes.has_attribute(owner, name)
    if is_staged(there):
        return control_flow.staged_if(
            there, lambda: attributes.attr(owner, name), lambda: default[0]
        )
    return attributes.attr(owner, name) if there else default[0]


def _computed(owner, name) -> bool:
    """Whether a user's code gives an attribute of an object, or of one that it may be."""
    options = owner.options_ if is_union(owner) else (owner,)
    return any(attributes.computes(x, name) for x in options)


def _has(owner, name):
    """``hasattr`` of what a user's code computes, which runs once."""
    try:
        getattr(owner, name)
    except AttributeError:
        return False
    return True


def _read(owner, name, default):
    """``getattr`` with a default of what a user's code computes."""
    try:
        return getattr(owner, name)
    except AttributeError:
        return default


DECIDING.update((_has, _read))


@handles(object.__setattr__, type.__setattr__)
def set_plainly(owner, name, value):
    return attribute_writes.set_plainly(owner, name, value)


@handles(object.__delattr__, type.__delattr__)
def delete_plainly(owner, name):
    return attribute_writes.delete_plainly(owner, name)


def _set_by_descriptor(descriptor, owner, value):
    return attribute_writes.set_plainly(owner, descriptor.__name__, value)


SLOT_METHODS["__setattr__"] = set_plainly
SLOT_METHODS["__delattr__"] = delete_plainly
SLOT_METHODS["__set__"] = _set_by_descriptor


@handles(delattr)
def delattr_call(owner, name):
    if is_union(name):
        return union.distribute(lambda chosen: delattr_call(owner, chosen), name)
    return attribute_writes.delattr_(owner, name)


def _reset(variable, token):
    """``ContextVar.reset``"""
    if journal.depth() < 2:
        return variable.reset(token)
    return unconverted.run(opaque.reset_variable, (variable, token), {})


METHODS[(contextvars.ContextVar, "reset")] = _reset
