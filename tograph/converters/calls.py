"""Calls: every call in converted code goes through ``ag__.call``, which converts the callee when it is first called.

``f(a, *b, k=v)``  ->  ``ag__.call(f, a, *b, k=v)``. Functions, methods, partials, callable objects, modules, constructors of
user classes and ``tg.function`` objects are dispatched here; built-ins that have a staged form are in ``builtin``; what is left alone is told by ``call_rules``.
"""

from __future__ import annotations

import functools
import operator
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from ..runtime.guarding import callables, outer_lists, reads
from ..runtime.guarding.draws import is_generator
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.library.staged_string import StagedString
from ..runtime.symbols import journal, library_ops
from ..runtime.symbols.funcgraph import is_tracing
from ..runtime.symbols.products import is_open
from ..runtime.values import locations
from ..runtime.values.growing import StagedList, check_attribute
from ..runtime.values.structure import is_union
from ..runtime.values.tables import is_table
from ..transpiler.syntax import gast
from . import generic_aliases, module_hooks, recursion, rings, standard, torchscript, union
from .call_rules import (
    CONVERTED_CODE,
    LEAF_MODULES,
    MARK,
    is_special,
    is_step,
    is_user_function,
)
from .compiled import instead
from .construction import construct, instance
from .container_changes import CHANGING
from .container_methods import MUTABLE, container_method
from .context import OPERATORS, Converter, is_docstring
from .conversion import converted, generator_form, record_writes
from .generators import CHANNEL, Generator, is_generator_function
from .keywords import with_keywords
from .left_alone import leave_alone
from .registry import (
    BUILTINS,
    CLOSURES,
    DRAWS,
    GETTERS,
    GROWING,
    METHODS,
    SLOT_METHODS,
    SPECIAL_METHODS,
    STEPS,
    TABLE_METHODS,
    TENSOR_METHODS,
    form_of,
    late_form,
)
from .staged_class import StagedClass

_FRAME = ("locals", "globals", "vars", "dir", "eval", "exec", "breakpoint")


class Calls(Converter):
    def __init__(self, context):
        super().__init__(context)
        # What ``super()`` is of: the first parameter of the function around.
        self.owner = context.first_param
        self.inside = 0  # functions around

    def visit_FunctionDef(self, node):
        """Decorators are called by Python: what they return is what the name stands for. A call that makes one is a call as any other."""
        node.decorator_list = [self.visit(d) if isinstance(d, gast.Call) else d for d in node.decorator_list]  # fmt: skip
        node.args = self.visit(node.args)
        outer = self.owner
        if not getattr(node, "generated", False) and self.inside:
            names = [a.id for a in (*node.args.posonlyargs, *node.args.args)]
            self.owner = next((n for n in names if n != CHANNEL), None)
        self.inside += 1
        node.body = self.block(node.body)
        self.inside -= 1
        self.owner = outer
        if node.args.vararg is not None:
            text, rest = f"name_ = {OPERATORS}.rest_of(name_)", node.args.vararg.id
            at = int(is_docstring(node.body[0]))
            node.body[at:at] = self.fill(text, node, name_=rest)
        return node

    def visit_Lambda(self, node):
        """``lambda *rest: body``  ->  ``lambda *rest: (lambda rest: body)(ag__.rest_of(rest))``."""
        node = self.generic_visit(node)
        if node.args.vararg is not None:
            rest = node.args.vararg.id
            inner = self.expression("lambda: body_", node, body_=node.body)
            inner.args.args = [gast.copy_location(gast.Name(rest, gast.Param(), None, None), node)]
            text = f"inner_({OPERATORS}.rest_of(rest_))"
            node.body = self.expression(text, node, inner_=inner, rest_=rest)
        return node

    def visit_Call(self, node):
        owner = node.func.value if isinstance(node.func, gast.Attribute) else None
        if isinstance(owner, gast.Name) and owner.id == OPERATORS:
            return self.generic_visit(node)
        if isinstance(node.func, gast.Name):
            if node.func.id == "super" and not node.args:
                return self._super(node)
            if node.func.id in _FRAME and not (node.func.id in ("vars", "dir") and node.args):
                return self.generic_visit(node)
        node = self.generic_visit(node)
        spread = any(k.arg is None for k in node.keywords)
        starred = [a for a in node.args if isinstance(a, gast.Starred)]
        for a in starred:
            a.value = self.expression(f"{OPERATORS}.arguments(items_)", a.value, items_=a.value)
        if spread:
            return with_keywords(self, node)
        operator = "call_starred" if starred else "call"
        made = self.expression(f"{OPERATORS}.{operator}(f_)", node, f_=node.func)
        made.args += node.args
        made.keywords = node.keywords
        return made

    def _super(self, node):
        if self.owner is None:
            return node
        holes = {
            "cls_": gast.Name("__class__", gast.Load(), None, None),
            "self_": gast.Name(self.owner, gast.Load(), None, None),
        }
        return self.expression("super(cls_, self_)", node, **holes)


def call(f, /, *args, **kwargs):
    """``f(*args, **kwargs)``, converted."""
    kind = type(f)
    if kind is types.FunctionType:
        # no frame of ours between two functions of the user but this one: they may recurse deeply
        direct = _direct(f)
        reads.method(f, args)
        if direct is not None and rings.names_itself(f):
            return recursion.entered(direct, f, args, kwargs)
        found = direct(*args, **kwargs) if direct is not None else _function(f, args, kwargs)
    else:
        found = _KINDS.get(kind, _object)(f, args, kwargs)
    if type(found) is list:
        outer_lists.look(found, reads.current(), whole=True)
    return found


union.set_call(call)
recursion.CALL = call


def _direct(f: types.FunctionType) -> Callable[..., Any] | None:
    """What is called in the place of a function, with the same arguments."""
    if f.__code__ in CONVERTED_CODE:
        record_writes(f)
        return f
    form = BUILTINS.get(f) or late_form(f)
    if form is not None:
        return form
    if f.__code__ in CLOSURES:
        return CLOSURES[f.__code__](f)
    if f.__code__ is standard.DISPATCHER or instead(f) is not None or not is_user_function(f):
        return None
    callables.read(f)
    return None if is_generator_function(f) and is_tracing() else converted(f)


def _function(f: Any, args, kwargs):
    """A generator of the user, or a function of a library."""
    if f.__code__ is standard.DISPATCHER:
        return standard.dispatch(call, f, args, kwargs)
    inner = instead(f)
    if inner is not None:
        return call(inner, *args, **kwargs)
    if is_user_function(f):
        resume = functools.partial(generator_form, f, "resume")
        return Generator(converted(f), generator_form(f), args, kwargs, resume)
    if f.__module__ == _FUNCTIONAL and any(map(is_open, (*args, *kwargs.values()))):
        return converted(f)(*args, **kwargs)
    if f.__module__ == _INITIALS and any(isinstance(a, SYMBOLS) for a in (*args, *kwargs.values())):
        return converted(f)(*args, **kwargs)
    return leave_alone(f, args, kwargs)


def _object(f, args, kwargs):
    """A class, a union, a module, or another object that can be called."""
    if is_union(f):
        return union.distribute(lambda g: call(g, *args, **kwargs), f)
    if isinstance(f, type):
        return construct(call, f, args, kwargs)
    callables.read(f)
    if isinstance(f, torch.nn.Module):
        return _module(f, args, kwargs)
    if isinstance(f, SYMBOLS):
        raise TypeError(f"{f.node.kind.__name__!r} object is not callable")
    form = form_of(f)
    if form is not None:
        return form(*args, **kwargs)
    kind = type(f)
    if getattr(kind, "__tograph_callable__", False):
        return f(*args, **kwargs)
    method = getattr(kind, "__call__", None)
    if method is functools.partial.__call__:
        return _partial(f, args, kwargs)
    if type(method) is types.FunctionType and is_user_function(method):
        return call(method, f, *args, **kwargs)
    return leave_alone(f, args, kwargs)


def _scripted(f: Any, args, kwargs) -> Any:
    """A function of TorchScript: what it was compiled from, where its own branches would look at values."""
    original = getattr(f, "_torchdynamo_inline", None)
    if original is None or not is_tracing():
        return torchscript.function(f, args, kwargs)
    return call(original, *args, **kwargs)


def _referent(f: weakref.ref, args, kwargs) -> Any:
    found, watch = f(*args, **kwargs), reads.current()
    if watch is not None:
        watch.referent(f, found)
    return found


def _partial(f: functools.partial, args, kwargs):
    """A partial, also one of a subclass, whose own ``func`` may be another thing than what the call takes."""
    function, watch = _FUNC.__get__(f), reads.current()
    if watch is not None:
        watch.partial(f)
    return call(function, *f.args, *args, **{**f.keywords, **kwargs})


_FUNC: Any = functools.partial.func


def _getter(f, args, kwargs):
    return GETTERS[type(f)](f, *args, **kwargs)


def _op(f, args, kwargs):
    with library_ops.called(f):
        return _object(f, args, kwargs)


def _cached(f, args, kwargs):
    return standard.cached(call, f, args, kwargs)


def _bound(f: types.MethodType, args, kwargs):
    if isinstance(f.__self__, StagedList):
        return _list_method(f, args, kwargs)
    return _method(f, args, kwargs)


def _list_method(f: types.MethodType, args, kwargs):
    """A method of a list of the graph; changes are recorded."""
    items: Any = f.__self__
    check_attribute(items, f.__name__)
    if is_table(items):
        return TABLE_METHODS[0](items, f.__name__, args, kwargs)
    args = tuple(map(union.settled, args))
    plain = items.handle is None
    form = METHODS.get((StagedList, f.__name__)) if plain else GROWING.get(f.__name__)
    if journal.active() and f.__name__ in CHANGING:
        journal.record(locations.contents(items))
    result = NotImplemented if form is None else form(items, *args, **kwargs)
    return f(*args, **kwargs) if result is NotImplemented else result


def _unbound(f: Any, args, kwargs):
    """``dict.__setitem__(d, k, v)``, ``list.append(self, x)``: what the method of the container does."""
    form = form_of(f)
    if form is None and f.__objclass__ is str and args and isinstance(args[0], (str, StagedString)):
        return call(getattr(args[0], f.__name__), *args[1:], **kwargs)
    if form is None and is_special(f, args):
        return SPECIAL_METHODS[f.__name__](*args, **kwargs)
    if form is None and args and issubclass(f.__objclass__, MUTABLE) and isinstance(args[0], f.__objclass__):  # fmt: skip
        owner = args[0]
        bound = getattr(owner, f.__name__) if isinstance(owner, StagedList) else f.__get__(owner)
        return call(bound, *args[1:], **kwargs)
    return _object(f, args, kwargs)


def _wrapper(f: types.MethodWrapperType, args, kwargs):
    if f.__name__ == "__call__" and isinstance(f.__self__, type):
        return instance(call, f.__self__, args, kwargs)  # super().__call__() of a metaclass
    return _builtin(f, args, kwargs)


_FUNCTIONAL = torch.nn.functional.__name__  # its Python compares sizes
_INITIALS = torch.nn.init.__name__  # and this one numbers


def _method(f: types.MethodType, args, kwargs):
    function = f.__func__
    form = form_of(function) or (late_form(function) if type(function) is types.FunctionType else None)  # fmt: skip
    if form is not None:
        return form(f.__self__, *args, **kwargs)
    if getattr(f, "__name__", "") in DRAWS and is_generator(f.__self__):
        drawn = DRAWS[f.__name__](f, args, kwargs)
        if drawn is not NotImplemented:
            return drawn
    if isinstance(f.__self__, torch.optim.Optimizer) and is_step(function):
        return STEPS[0](function, f.__self__, *args, **kwargs)
    if type(function) is types.FunctionType and (
        is_user_function(function) or instead(function) is not None
    ):
        return call(function, f.__self__, *args, **kwargs)
    if type(function) is types.FunctionType:
        return leave_alone(f, args, kwargs)
    return call(function, f.__self__, *args, **kwargs)


def _builtin(f, args, kwargs):
    """A C function or a method of a built-in object; changes of containers are recorded."""
    form = form_of(f)
    if form is not None:
        return form(*args, **kwargs)
    owner = getattr(f, "__self__", None)
    if is_special(f, (owner, *args)):
        return SPECIAL_METHODS[f.__name__](owner, *args, **kwargs)
    if type(f) is types.MethodWrapperType and f.__name__ in SLOT_METHODS:
        return SLOT_METHODS[f.__name__](owner, *args, **kwargs)
    if isinstance(owner, MUTABLE):
        return container_method(call, f, owner, args, kwargs)
    if isinstance(owner, torch.Tensor):
        form = TENSOR_METHODS.get(f.__name__)
        if form is not None:
            return form(owner, *args, **kwargs)
    elif owner is not None and not isinstance(owner, types.ModuleType):
        form = METHODS.get((type(owner), f.__name__))
        if form is not None:
            return form(owner, *args, **kwargs)
    return leave_alone(f, args, kwargs)


def _module(m: torch.nn.Module, args, kwargs):
    """A module: its converted ``forward``, with hooks through torch's own converted ``_call_impl``."""
    if isinstance(m, torch.jit.ScriptModule):
        return torchscript.module(m, args, kwargs)
    inner = instead(m)
    if inner is not None:
        return call(inner, *args, **kwargs)
    cls = type(m)
    if getattr(m, MARK, False) or getattr(cls.forward, MARK, False):
        reads.passed((m,))
        return m(*args, **kwargs)
    if cls.__call__ is not torch.nn.Module.__call__:
        method = cls.__call__
        return (
            converted(method)(m, *args, **kwargs)
            if is_user_function(method)
            else m(*args, **kwargs)
        )
    watch = reads.current()
    if watch is not None:
        watch.hooks(m)
    with_backward = module_hooks.has_hooks(m)
    if with_backward:
        module_hooks.check(m)
    hooked = with_backward or (
        m._forward_hooks or m._forward_pre_hooks
        or torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks
    )  # fmt: skip
    if hooked:
        return converted(cls._call_impl)(m, *args, **kwargs)
    forward = m.forward
    staged = isinstance(m.training, SYMBOLS) or is_union(m.training)
    if cls in LEAF_MODULES and not staged and not any(map(is_open, (*args, *kwargs.values()))):
        reads.passed((m,))
        return union.apply(forward, *args, **kwargs)
    return call(forward, *args, **kwargs)


_KINDS: dict[type, Callable[[Any, tuple, dict[str, Any]], Any]] = {
    types.MethodType: _bound,
    types.BuiltinFunctionType: _builtin,  # methods of C types are of this kind too
    types.MethodWrapperType: _wrapper,
    types.MethodDescriptorType: _unbound,
    types.WrapperDescriptorType: _unbound,
    StagedClass: StagedClass.another,
    weakref.ref: _referent,
    torch.jit.ScriptFunction: _scripted,
    torch._C.ScriptMethod: torchscript.method,
    functools._lru_cache_wrapper: _cached,
    functools.partial: _partial,
    **dict.fromkeys((operator.itemgetter, operator.methodcaller, operator.attrgetter), _getter),
    **dict.fromkeys(library_ops.CALLABLE, _op),
    **dict.fromkeys(
        generic_aliases.KINDS_OF_ALIASES, functools.partial(generic_aliases.made, call)
    ),
}
