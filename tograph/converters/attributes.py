"""Attributes: reads of user objects, and writes, which may be state of a staged construct.

``o.a``  ->  ``ag__.attr(o, 'a')`` unless ``a`` is an attribute that tensors have, or ``o`` is a module; ``o.a = v``  ->
``ag__.setattr_(o, 'a', v)``; ``o.a += v`` reads and writes once; ``del o.a`` likewise.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import torch

from ..runtime.control_flow import StagedException
from ..runtime.diagnosis.frames import outer_frame
from ..runtime.gradients import grad_fields
from ..runtime.guarding import reads
from ..runtime.guarding.callables import METHODS
from ..runtime.guarding.lookups import unheld
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.library import required
from ..runtime.library.staged_string import StagedString
from ..runtime.symbols import journal
from ..runtime.symbols.descriptions import hides
from ..runtime.symbols.funcgraph import current_graph, is_tracing
from ..runtime.symbols.journal import MISSING
from ..runtime.symbols.symbolic import SymTensor
from ..runtime.values import locations
from ..runtime.values.growing import StagedList, check_attribute
from ..runtime.values.structure import is_union, may_miss
from ..transpiler.syntax import gast
from ..transpiler.templates import constant
from . import failure_attributes, text_options
from .call_rules import MARK, is_user_function, module_rule
from .calls import call
from .context import OPERATORS, Converter
from .staged_class import StagedClass
from .union import apply, distribute_missing, test_options

_OF_FAILURES = frozenset(["__cause__", "__context__", "__notes__", "__traceback__"])
_NAMES = _OF_FAILURES | frozenset(["__name__", "__qualname__", "__doc__", "__class__", "__dict__"])
_HISTORY = frozenset(["requires_grad", "is_leaf", "grad_fn"])
_DATA = (
    frozenset(n for n in dir(torch.Tensor) if not callable(getattr(torch.Tensor, n, None)))
    - _HISTORY
    - {"grad", "__dict__"}
)
_AUGMENTED = {gast.Add: "iadd", gast.Sub: "isub", gast.Mult: "imul", gast.MatMult: "imatmul", gast.Div: "itruediv",
              gast.FloorDiv: "ifloordiv", gast.Mod: "imod", gast.Pow: "ipow", gast.LShift: "ilshift",
              gast.RShift: "irshift", gast.BitOr: "ior", gast.BitXor: "ixor", gast.BitAnd: "iand"}  # fmt: skip


def augmented(op: gast.operator) -> str:
    """The operator function of ``x op= y``."""
    return _AUGMENTED[type(op)]


class Attributes(Converter):
    def visit_Call(self, node):
        """The callee of ``ag__.call(x.f, ...)`` is a method: those that tensors and containers have stay as they are."""
        callee = node.args[0] if node.args and _is_call(node) else None
        if isinstance(callee, gast.Attribute):
            callee.is_method = True
        return self.generic_visit(node)

    def visit_Attribute(self, node):
        node = self.generic_visit(node)
        if not isinstance(node.ctx, gast.Load) or self._plain(node):
            return node
        return self.expression(
            f"{OPERATORS}.attr(owner_, name_)", node, owner_=node.value, name_=constant(node.attr)
        )

    def _plain(self, node) -> bool:
        special = node.attr.startswith("__") and node.attr.endswith("__")
        if (getattr(node, "is_method", False) and node.attr in METHODS) or (special and node.attr not in _NAMES):  # fmt: skip
            return True
        return (
            isinstance(node.value, gast.Name)
            and (node.value.id == OPERATORS or _is_library(self.context.resolve(node.value)))
        ) or (
            isinstance(node.value, gast.Attribute) and _is_library(self.context.resolve(node.value))
        )

    def visit_Assign(self, node):
        node.value = self.visit(node.value)
        if len(node.targets) == 1 and isinstance(node.targets[0], gast.Attribute):
            return self._store(node.targets[0], node.value, node)
        node.targets = [self.visit(t) for t in node.targets]
        return node

    def _store(self, target, value, origin):
        holes = {
            "owner_": self.visit(target.value),
            "name_": constant(target.attr),
            "value_": value,
        }
        return self.fill(f"{OPERATORS}.setattr_(owner_, name_, value_)", origin, **holes)

    def visit_AnnAssign(self, node):
        if isinstance(node.target, gast.Attribute) and node.value is not None:
            return self._store(node.target, self.visit(node.value), node)
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_AugAssign(self, node):
        node.value = self.visit(node.value)
        if not isinstance(node.target, gast.Attribute):
            node.target = self.visit(node.target)
            return node
        temp = self.context.namer.fresh("owner")
        op = constant(augmented(node.op))
        holes = {"temp_": temp, "owner_": self.visit(node.target.value), "name_": constant(node.target.attr), "op_": op,
                 "value_": node.value}  # fmt: skip
        text = f"temp_ = owner_\n{OPERATORS}.setattr_(temp_, name_, {OPERATORS}.augment(op_, {OPERATORS}.attr(temp_, name_), value_))"
        return self.fill(text, node, **holes)

    def visit_Delete(self, node):
        out = []
        for target in node.targets:
            if isinstance(target, gast.Attribute):
                holes = {"owner_": self.visit(target.value), "name_": constant(target.attr)}
                out += self.fill(f"{OPERATORS}.delattr_(owner_, name_)", node, **holes)
            else:
                out.append(gast.copy_location(gast.Delete([self.visit(target)]), node))
        return out


def _is_call(node: gast.Call) -> bool:
    f = node.func
    return (
        isinstance(f, gast.Attribute)
        and f.attr == "call"
        and isinstance(f.value, gast.Name)
        and f.value.id == OPERATORS
    )


def _is_library(x) -> bool:
    """Whether ``x`` is a module whose attributes stay as they are."""
    return isinstance(x, types.ModuleType) and not module_rule(x.__name__)


# ---- the operators


def attr(owner, name):
    """``owner.name``; the code of properties and other descriptors of a user's class is converted."""
    if name in _DATA and isinstance(owner, torch.Tensor):
        return getattr(owner, name)
    if is_union(owner):
        found = text_options.method(owner, name)
        return found or apply(lambda o: attr(o, name), owner)
    if hides(owner, name):
        raise AttributeError(f"'Tensor' object has no attribute {name!r}")
    if isinstance(owner, StagedException) and name not in _SPECIAL:
        return failure_attributes.read(owner, name)
    return _attribute(owner, name)


def _attribute(owner: Any, name: str) -> Any:
    check_attribute(owner, name)
    special = _SPECIAL.get(name)
    if special is not None and isinstance(owner, special[0]):
        return special[1](owner)
    if name in _HISTORY:
        _ask_history(owner, name)
    found = descriptor(owner, name)
    if found is not MISSING:
        form = _DESCRIPTORS.get(type(found), _user_descriptor)
        value = form(found, _self(owner), name)
        if value is not MISSING:
            return value
    hook = getattr(type(owner), "__getattr__", None)
    if is_hook(hook) and unheld(owner, name):
        return _hooked(hook, owner, name)
    watch = reads.current()
    if watch is None:
        return getattr(owner, name)
    try:
        value = getattr(owner, name)
    except AttributeError:
        watch.absent(owner, name)
        raise
    told = required.told(owner, name, value) if name in _HISTORY else MISSING
    if told is not MISSING:
        return told
    watch.attribute(owner, name, value)
    if may_miss(value):
        return distribute_missing(value, lambda: _class_attribute(owner, name))
    return value


def _self(owner: Any) -> Any:
    """The object behind ``super()``."""
    if type(owner) is not super:
        return owner
    found: Any = owner.__self__  # type: ignore[attr-defined]
    return owner if isinstance(found, type) else found


def _ask_history(owner: Any, name: str) -> None:
    """What a tensor requires may follow from any argument, and whether it is a leaf from the one that it is."""
    reads.history()
    if (
        type(owner) is SymTensor and is_tracing()
    ):  # state of a loop may have one from earlier iterations
        current_graph().note_gradient()
    given = None if name == "requires_grad" else reads.argument(owner)
    if given is not None:
        watch, i, x = given
        watch.leaf(x, i)


def _not_known(name, error):
    raise error.unknown(f"attribute {name!r}")


def _class_of(x):
    """``x.__class__`` of a number or string that only the run knows: Python's class; and of an exception."""
    if isinstance(x, StagedException):
        return StagedClass(x)
    if isinstance(x, StagedString):
        return str
    return type(x) if type(x) is torch.SymInt else x.node.kind  # as of ``type``


_SPECIAL: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "__class__": ((*SYMBOLS, StagedString, StagedException), _class_of),
    "__dict__": (SymTensor, reads.tensor_fields),
    "grad": (torch.Tensor, grad_fields.read),
    "f_back": (types.FrameType, outer_frame),
    **{n: (StagedException, functools.partial(_not_known, n)) for n in _OF_FAILURES},
}


def _property(found, owner, name):
    return call(found.fget, owner) if is_user_function(found.fget) else MISSING


def _cached_property(found, owner, name):
    """``functools.cached_property``: its function is converted, and the value becomes an attribute."""
    held = vars(owner).get(name, MISSING)
    if may_miss(held):  # only some paths have read it
        return distribute_missing(held, lambda: _computed(found, owner, name))
    if held is not MISSING or not is_user_function(found.func):
        return MISSING
    return _computed(found, owner, name)


def _computed(found, owner, name):
    value = call(found.func, owner)
    if journal.active():
        journal.record(locations.attribute(owner, name))
    vars(owner)[name] = value
    return value


def _dispatched_method(found, owner, name):
    """``functools.singledispatchmethod``: the method for the kind that the first argument has."""

    def method(first, /, *args, **kwargs):
        chosen = found.dispatcher.dispatch(call(type, first))
        return call(chosen.__get__(owner, type(owner)), first, *args, **kwargs)

    setattr(method, MARK, True)
    return method


def _user_descriptor(found, owner, name):
    """A descriptor of a user's class: its ``__get__`` is converted."""
    get = getattr(type(found), "__get__", None)
    if not is_user_function(get):
        return MISSING
    if not hasattr(type(found), "__set__") and name in getattr(owner, "__dict__", ()):
        return MISSING
    return call(get, found, owner, type(owner))


_DESCRIPTORS: dict[type, Callable[..., Any]] = {
    property: _property,
    functools.cached_property: _cached_property,
    functools.singledispatchmethod: _dispatched_method,
}


_IN_C = (types.MethodDescriptorType, types.WrapperDescriptorType)


def is_hook(method: Any) -> bool:
    """Whether what a class has as ``__getattr__``, ``__setattr__`` or ``__delattr__`` changes or looks at what converted code follows:
    a user's function, or the method of a dict (``__getattr__ = dict.get``)."""
    if isinstance(method, _IN_C):
        return issubclass(method.__objclass__, dict)
    return is_user_function(method)


def _hooked(hook, owner, name):
    """An attribute that is not there: the ``__getattr__`` of a user's class is converted."""
    watch = reads.current()
    if watch is not None:
        watch.asked(owner, name)
    return call(hook, owner, name)


def _class_attribute(owner, name):
    """What is found where the object itself has no such attribute."""
    found = _of_class(owner, name)
    watch = reads.current()
    if watch is not None:
        watch.in_class(owner if isinstance(owner, type) else type(owner), name, found)
    if found is MISSING:
        hook = getattr(type(owner), "__getattr__", None)
        if is_hook(hook):
            return _hooked(hook, owner, name)
        kind = f"type object {owner.__name__!r}" if isinstance(owner, type) else f"{type(owner).__name__!r} object"  # fmt: skip
        raise AttributeError(f"{kind} has no attribute {name!r}")
    get = getattr(type(found), "__get__", None)
    bound = (None, owner) if isinstance(owner, type) else (owner, type(owner))
    if is_user_function(get):
        return call(get, found, *bound)
    return found.__get__(*bound) if hasattr(type(found), "__get__") else found


def computes(owner, name) -> bool:
    """Whether a user's code gives an attribute, or says that there is none: a property, a descriptor, ``__getattr__``."""
    if unheld(owner, name):
        return is_hook(getattr(type(owner), "__getattr__", None))
    found = descriptor(owner, name)
    if name in getattr(owner, "__dict__", ()) and not hasattr(type(found), "__set__"):
        return False
    get = getattr(found, "fget", None) or getattr(found, "func", None)
    return is_user_function(get or getattr(type(found), "__get__", None))


def has_attribute(owner, name):
    """``hasattr(owner, name)`` of one that no user's code computes."""
    if is_union(owner):
        return apply(lambda o: has_attribute(o, name), owner)
    if isinstance(owner, StagedList):
        return hasattr(owner.__class__, name)
    if hides(owner, name):
        return False
    if isinstance(owner, StagedException):
        return failure_attributes.has(owner, name)
    value = getattr(owner, name, None)
    if may_miss(value):
        return (
            True
            if _of_class(owner, name) is not MISSING
            else test_options(lambda v: v is not MISSING, value)
        )
    found = hasattr(owner, name)
    watch = reads.current()
    if watch is not None:
        watch.attribute(owner, name, value) if found else watch.absent(owner, name)
    return found


def _of_class(owner, name):
    """The attribute of the class, unless it is the slot of the object's own; of a class, what it inherits. MISSING without one."""
    if isinstance(owner, type):
        return next((vars(c)[name] for c in owner.__mro__[1:] if name in vars(c)), MISSING)
    found = descriptor(owner, name)
    return MISSING if isinstance(found, types.MemberDescriptorType) else found


def descriptor(owner, name):
    """What the class of an object holds under a name, or MISSING; of ``super()``, the classes behind the one that it stands in."""
    classes = type(owner).__mro__
    if type(owner) is super and name not in vars(super):
        found = owner.__self_class__.__mro__
        classes = found[found.index(owner.__thisclass__) + 1 :]
    for cls in classes:
        if name in cls.__dict__:
            return cls.__dict__[name]
    return MISSING
