"""Calls: every call in converted code goes through ``ag__.call``, which converts the callee when it is first called.

``f(a, *b, k=v)``  ->  ``ag__.call(f, a, *b, k=v)``. Functions, methods, partials, callable objects, modules, constructors of
user classes and ``tg.function`` objects are dispatched here; built-ins that have a staged form are in
``builtin``; what is left alone is in ``call_rules``.
"""

from __future__ import annotations

import contextlib
import functools
import io
import sys
import types
import typing
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from ..errors import GradientError, SourceError
from ..runtime import creation, decisions, journal, reads, unconverted
from ..runtime.funcgraph import current_graph, is_tracing, user_location
from ..runtime.growing import StagedList
from ..runtime.products import is_open
from ..runtime.pytrees import base_container, blank, has_identity
from ..runtime.reach import writes
from ..runtime.shapes import SYMBOLS
from ..runtime.structure import is_union
from ..transpiler.syntax import gast
from . import standard, union
from .call_rules import (
    CONVERTED_CODE,
    LEAF_MODULES,
    MARK,
    WRAPPERS,
    is_straight,
    is_user_function,
    module_rule,
)
from .context import OPERATORS, Converter
from .generators import Generator, is_generator_function
from .resolved import resolved

# ---- the rewrite

_FRAME = ("locals", "globals", "vars", "dir", "eval", "exec", "breakpoint")


class Calls(Converter):
    def visit_FunctionDef(self, node):
        """Decorators are called by Python: what they return is what the name stands for."""
        node.args = self.visit(node.args)
        node.body = self.block(node.body)
        return node

    def visit_Call(self, node):
        if (
            isinstance(node.func, gast.Attribute)
            and isinstance(node.func.value, gast.Name)
            and node.func.value.id == OPERATORS
        ):
            return self.generic_visit(node)
        if isinstance(node.func, gast.Name):
            if node.func.id == "super" and not node.args:
                return self._super(node)
            if node.func.id in _FRAME and not (node.func.id in ("vars", "dir") and node.args):
                return self.generic_visit(node)
        node = self.generic_visit(node)
        spread = any(k.arg is None and not isinstance(k.value, gast.Dict) for k in node.keywords)
        operator = "call_spread" if spread else "call"
        made = self.expression(f"{OPERATORS}.{operator}(f_)", node, f_=node.func)
        made.args += node.args
        for keyword in node.keywords:
            if keyword.arg is None and not isinstance(keyword.value, gast.Dict):
                text = f"{OPERATORS}.spread(items_)"
                keyword.value = self.expression(text, keyword.value, items_=keyword.value)
        made.keywords = node.keywords
        return made

    def _super(self, node):
        owner = self.context.first_param
        if owner is None:
            return node
        holes = {
            "cls_": gast.Name("__class__", gast.Load(), None, None),
            "self_": gast.Name(owner, gast.Load(), None, None),
        }
        return self.expression("super(cls_, self_)", node, **holes)


# ---- the operator

_convert: Callable[[types.FunctionType], types.FunctionType]
_convert_generator: Callable[[types.FunctionType], Any]
BUILTINS: dict[
    Any, Callable[..., Any]
] = {}  # built-in -> its staged form, which falls back to the built-in
_HIGHER_ORDER: set[Any] = set()


def set_converter(
    convert: Callable[..., types.FunctionType], convert_generator: Callable[..., Any]
) -> None:
    """The pipeline, which imports this module, says how a function and how a generator function is converted."""
    global _convert, _convert_generator
    _convert, _convert_generator = convert, convert_generator


def handles(*functions: Any) -> Callable:
    """Registers the staged form of functions."""

    def add(form):
        for f in functions:
            BUILTINS[f] = form
        return form

    return add


def takes_functions(*functions: Any) -> None:
    """Functions that call their arguments: those are converted first."""
    _HIGHER_ORDER.update(functions)


def call(f, /, *args, **kwargs):  # noqa: C901  a case for each kind
    """``f(*args, **kwargs)``, converted."""
    kind = type(f)
    if kind is types.FunctionType:
        if f.__code__ in CONVERTED_CODE:
            record_writes(f)
            return f(*args, **kwargs)
        form = BUILTINS.get(f)
        if form is not None:
            return form(*args, **kwargs)
        if f.__code__ is standard.DISPATCHER:
            return standard.dispatch(call, f, args, kwargs)
        if is_user_function(f):
            if is_generator_function(f) and is_tracing():
                return Generator(converted(f), _convert_generator(f), args, kwargs)
            return converted(f)(*args, **kwargs)
        if f.__code__ is _NOT_COMPILED:
            return call(f.__wrapped__, *args, **kwargs)
        if f.__module__ == _FUNCTIONAL and any(map(is_open, (*args, *kwargs.values()))):
            return converted(f)(*args, **kwargs)
        return leave_alone(f, args, kwargs)
    if kind is types.MethodType:
        if isinstance(f.__self__, StagedList):
            form = METHODS.get((StagedList, f.__name__))
            if form is not None and f.__self__.handle is None:
                return form(f.__self__, *args, **kwargs)
            if journal.active() and f.__name__ in _CHANGING:
                journal.record(journal.contents(f.__self__))
            form = GROWING.get(f.__name__) if f.__self__.handle is not None else None
            return f(*args, **kwargs) if form is None else form(f.__self__, *args, **kwargs)
        return _method(f, args, kwargs)
    if is_union(f):
        return union.distribute(lambda g: call(g, *args, **kwargs), f)
    if (
        kind is types.MethodWrapperType
        and f.__name__ == "__call__"
        and isinstance(f.__self__, type)
    ):
        return _instance(f.__self__, args, kwargs)  # super().__call__() of a metaclass
    if (
        kind is types.BuiltinFunctionType
        or kind is types.BuiltinMethodType
        or kind is types.MethodWrapperType
    ):
        return _builtin(f, args, kwargs)
    if isinstance(f, type):
        return _construct(f, args, kwargs)
    if kind is weakref.ref:
        return _referent(f)
    if kind is functools._lru_cache_wrapper:
        return standard.cached(call, f, args, kwargs)
    if kind is functools.partial:
        return call(f.func, *f.args, *args, **{**f.keywords, **kwargs})
    if isinstance(f, torch.nn.Module):
        return _module(f, args, kwargs)
    if isinstance(f, SYMBOLS):
        raise TypeError(f"{f.node.kind.__name__!r} object is not callable")
    form = BUILTINS.get(f) if _hashable(f) and not isinstance(f, (tuple, frozenset)) else None
    if form is not None:
        return form(*args, **kwargs)
    if getattr(kind, "__tograph_callable__", False):
        return f(*args, **kwargs)
    method = getattr(kind, "__call__", None)
    if type(method) is types.FunctionType and is_user_function(method):
        return converted(method)(f, *args, **kwargs)
    return leave_alone(f, args, kwargs)


union.set_call(call)


def _referent(f: weakref.ref) -> Any:
    found, watch = f(), reads.current()
    if watch is not None:
        watch.referent(f, found)
    return found


def _hashable(f: Any) -> bool:
    return type(f).__hash__ is not None


def converted(f: types.FunctionType) -> types.FunctionType:
    """The converted form of a user's function; code without branches may do without source."""
    try:
        made = _convert(f)
        record_writes(made)
        return made
    except SourceError as error:
        if is_straight(f.__code__):
            return lambda *args, **kwargs: unconverted.run(f, args, kwargs)
        raise SourceError(str(error), user_location()) from None


def record_writes(f: types.FunctionType) -> None:
    """The variables of outer functions and the globals that a function assigns are about to change."""
    if not journal.active():
        return
    cells, names = writes(f.__code__)
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
        if name in cells:
            journal.record(journal.cell(cell, name))
    for name in names:
        journal.record(journal.key_of(f.__globals__, name, name))


_FUNCTIONAL = torch.nn.functional.__name__  # its Python compares sizes


def convert_if_needed(f: Any) -> Any:
    """A function argument of a higher-order function, converted."""
    if type(f) is types.FunctionType and is_user_function(f):
        return converted(f)
    if type(f) is types.MethodType and is_user_function(f.__func__):
        return types.MethodType(converted(f.__func__), f.__self__)
    return f


def _method(f: types.MethodType, args, kwargs):
    function = f.__func__
    form = BUILTINS.get(function) if _hashable(function) else None
    if form is not None:
        return form(f.__self__, *args, **kwargs)
    if type(function) is types.FunctionType and (
        is_user_function(function) or function.__code__ is _NOT_COMPILED
    ):
        return call(function, f.__self__, *args, **kwargs)
    if type(function) is types.FunctionType:
        return leave_alone(f, args, kwargs)
    return call(function, f.__self__, *args, **kwargs)


# What torch puts around functions that torch.compile has to leave alone, such as Optimizer.zero_grad.
_NOT_COMPILED = torch._disable_dynamo(lambda: None).__code__


def _is_contextmanager(f: Any) -> bool:
    """Whether ``f`` is what ``contextlib.contextmanager`` made of a user's generator function."""
    return getattr(f, "__code__", None) is _HELPER and is_user_function(
        getattr(f, "__wrapped__", None)
    )


@contextlib.contextmanager
def _sample():
    yield


_HELPER = _sample.__code__
WRAPPERS.add(_HELPER)


def leave_alone(f, args, kwargs):
    """``f(*args, **kwargs)`` as it is written, with arguments that it can take."""
    if _is_contextmanager(f):
        if isinstance(f, types.MethodType):
            f, args = f.__func__, (f.__self__, *args)
        native = converted(f.__wrapped__)
        manager = contextlib.contextmanager(native)(*args, **kwargs)
        if is_tracing():
            form = _convert_generator(f.__wrapped__)
            manager.generator__ = form and Generator(native, form, args, kwargs)
        return manager
    return resolved(lambda a, k: _run_alone(f, a, k), f, args, kwargs)


def _run_alone(f, args, kwargs):
    if _hashable(f) and f in _QUIET:
        return f(*args, **kwargs)
    owner = getattr(f, "__self__", None)
    if _is_stream(owner) and f.__name__ in STREAM_METHODS and is_tracing():
        return STREAM_METHODS[f.__name__](owner, *args, **kwargs)
    reads.passed((*args, *kwargs.values(), owner))
    if getattr(f, MARK, False):
        decisions.python("{0!s} runs as written (tg.do_not_convert)", getattr(f, "__name__", f))
    if _hashable(f) and f in _HIGHER_ORDER:
        args = tuple(map(convert_if_needed, args))
        kwargs = {k: convert_if_needed(v) for k, v in kwargs.items()}
        return f(*args, **kwargs)
    return unconverted.run(f, args, kwargs)


def _is_stream(x: Any) -> bool:
    """Whether what is written to an object goes out."""
    return x is not None and (isinstance(x, io.TextIOWrapper) or x is sys.stdout or x is sys.stderr)


_MUTABLE = (list, dict, set, deque, bytearray)
# Functions that look at no content.
_QUIET = frozenset([isinstance, issubclass, id, callable, type, hash, iter, typing.cast])


def _builtin(f, args, kwargs):
    """A C function or a method of a built-in object; changes of containers are recorded."""
    form = BUILTINS.get(f) if _hashable(f) and not isinstance(f, (tuple, frozenset)) else None
    if form is not None:
        return form(*args, **kwargs)
    owner = getattr(f, "__self__", None)
    if type(f) is types.MethodWrapperType and f.__name__ in SLOT_METHODS:
        return SLOT_METHODS[f.__name__](owner, *args, **kwargs)
    if isinstance(owner, _MUTABLE):
        return _container_method(f, owner, args, kwargs)
    if isinstance(owner, torch.Tensor):
        form = TENSOR_METHODS.get(f.__name__)
        if form is not None:
            return form(owner, *args, **kwargs)
    elif owner is not None and not isinstance(owner, types.ModuleType):
        form = METHODS.get((type(owner), f.__name__))
        if form is not None:
            return form(owner, *args, **kwargs)
    return leave_alone(f, args, kwargs)


def _container_method(f, owner, args, kwargs):
    if args and is_union(args[0]) and f.__name__ in _BY_KEY.get(type(owner).__mro__[-2], ()):
        return union.distribute(lambda key: call(f, key, *args[1:], **kwargs), args[0])
    form = METHODS.get((type(owner), f.__name__))
    if form is not None:
        result = form(owner, *args, **kwargs)
        if result is not NotImplemented:
            return result
    if f.__name__ in _CHANGING:
        if journal.active():
            _record_change(owner, f.__name__, args, kwargs)
        return f(*args, **kwargs)
    _note_look(owner, f.__name__, args)
    return leave_alone(f, args, kwargs)


# Methods whose first argument is a key, an index or a member.
_BY_KEY = {
    dict: frozenset(["get", "pop", "setdefault"]),
    set: frozenset(["add", "discard", "remove"]),
    list: frozenset(["pop", "insert"]),
}


def _record_change(owner, name, args, kwargs) -> None:
    """A method is about to change a container: a step of its own when it neither looks at the content nor fails."""
    blind = name in _BLIND and not kwargs
    if blind and name in ("extend", "extendleft", "update", "__iadd__"):
        reads.passed(args)
        blind = all(type(a) in reads.CONTAINERS for a in args)
        args = (
            tuple(list(a) if not isinstance(a, dict) else dict(a) for a in args) if blind else args
        )
    if not blind:
        watch = reads.current()
        if watch is not None:
            watch.whole(owner)
    if name == "__setitem__" and isinstance(owner, dict):
        record_key(owner, args[0])
        return
    journal.record(journal.contents(owner), (name, args) if blind else None)


def record_key(x: dict, key: Any) -> None:
    """A key of a dict is about to be set."""
    if not journal.active():
        return
    if not dict.__contains__(x, key) and journal.removed(x, key):
        journal.record(journal.contents(x))  # it comes back as the last key
    elif union.may_miss(dict.get(x, key)) and next(reversed(x)) != key:
        journal.unorder(x)  # where it was not there, it is the last key now
    journal.record(journal.key_of(x, key, f"[{key!r}]"))


def _note_look(owner, name, args) -> None:
    """A method looks at a container."""
    watch = reads.current()
    if watch is None or watch.source_of(owner) is None:
        return
    if name == "get" and args and isinstance(owner, dict) and _hashable(args[0]):
        found = dict.get(owner, args[0], _ABSENT)  # a user's class may have a `get` of its own
        if found is _ABSENT:
            watch.missing_key(owner, args[0])
        else:
            watch.item(owner, args[0], found)
    else:
        watch.whole(owner)


_ABSENT = object()
_BLIND = frozenset(
    [
        "append",
        "appendleft",
        "extend",
        "extendleft",
        "insert",
        "add",
        "update",
        "discard",
        "clear",
        "reverse",
    ]
)


# Methods of containers that change them.
_CHANGING = frozenset(
    [
        "append",
        "insert",
        "extend",
        "add",
        "update",
        "setdefault",
        "appendleft",
        "extendleft",
        "pop",
        "popitem",
        "popleft",
        "remove",
        "discard",
        "clear",
        "sort",
        "reverse",
        "rotate",
        "difference_update",
        "intersection_update",
        "symmetric_difference_update",
        "move_to_end",
        "__setitem__",
        "__delitem__",
        "__iadd__",
    ]
)
METHODS: dict[tuple[type, str], Callable[..., Any]] = {}
GROWING: dict[str, Callable[..., Any]] = {}  # methods of lists of the graph
TENSOR_METHODS: dict[str, Callable[..., Any]] = {}
STREAM_METHODS: dict[str, Callable[..., Any]] = {}
SLOT_METHODS: dict[
    str, Callable[..., Any]
] = {}  # of objects and of descriptors, which write attributes


# Their objects hold parameters and state: made under a condition, they are made for good.
_MADE_ONCE = (torch.nn.Module, torch.optim.Optimizer)


def _construct(cls: type, args, kwargs):
    """A class: its staged form, or an object whose ``__init__`` is converted."""
    form = BUILTINS.get(cls)
    if form is not None:
        return form(*args, **kwargs)
    if (
        issubclass(cls, _MADE_ONCE)
        and is_tracing()
        and creation.conditional()
        and creation.without_symbols((*args, *kwargs.values()))
    ):
        if creation.staged() and issubclass(cls, torch.nn.Module):
            return _wrapping(cls, args, kwargs)
        creation.check(f"a {cls.__name__}")
        return creation.make(lambda: cls(*args, **kwargs))
    if is_tracing() and standard.is_made_by_parts(cls):
        return noted(standard.construct_dataclass(call, cls, args, kwargs))
    meta = type(cls).__call__
    if is_tracing() and is_user_function(meta):
        return call(meta, cls, *args, **kwargs)
    return _instance(cls, args, kwargs)


def _wrapping(cls: type, args, kwargs):
    """A module that a staged branch or loop makes: one without tensors of its own, such as a wrapper of its arguments."""
    parts = [p for x in (*args, *kwargs.values()) for p in (x if isinstance(x, (list, tuple)) else [x])]  # fmt: skip
    given = {id(t) for m in parts if isinstance(m, torch.nn.Module) for t in _tensors(m)}
    made = noted(cls(*args, **kwargs))
    if any(id(t) not in given for t in _tensors(made)):
        creation.check(f"a {cls.__name__}")
    return made


def _tensors(m: torch.nn.Module):
    yield from m.parameters()
    yield from m.buffers()


def _instance(cls: type, args, kwargs):
    """What ``type.__call__`` does, with ``__new__`` and ``__init__`` of a user's class converted."""
    init = cls.__init__
    plain = cls.__new__ is (base_container(cls) or object).__new__  # type: ignore[comparison-overlap]
    simple = plain or is_user_function(cls.__new__)
    if not (simple and is_tracing() and is_user_function(init)) or not module_rule(
        cls.__module__ or ""
    ):
        return noted(cls(*args, **kwargs))
    if init.__code__.co_filename.startswith("<") or issubclass(cls, torch.nn.Module):
        return noted(cls(*args, **kwargs))
    new = cls.__new__
    made = blank(cls) if plain else call(new, cls, *args, **kwargs)
    if isinstance(made, cls):
        call(init, made, *args, **kwargs)
    return noted(made)


def noted(made):
    """An object that traced code made."""
    if is_tracing() and has_identity(made):
        graph = current_graph()
        graph.root.made[id(made)] = (made, graph)
    return made


def _module(m: torch.nn.Module, args, kwargs):
    """A module: its converted ``forward``, with hooks through torch's own converted ``_call_impl``."""
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
    if is_tracing() and torch.is_grad_enabled() and (
        m._backward_hooks or m._backward_pre_hooks
        or torch_module._global_backward_hooks or torch_module._global_backward_pre_hooks
    ):  # fmt: skip
        raise GradientError(
            f"{cls.__name__} has backward hooks of the whole module, which a graph does not have. Use register_hook on its inputs "
            "and outputs, or call the module under torch.no_grad().",
            user_location(),
        )
    hooked = (
        m._forward_hooks or m._forward_pre_hooks
        or torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks
    )  # fmt: skip
    if hooked:
        return converted(cls._call_impl)(m, *args, **kwargs)
    forward = m.forward
    if cls in LEAF_MODULES and not any(map(is_open, (*args, *kwargs.values()))):
        reads.passed((m,))
        return union.apply(forward, *args, **kwargs)
    return call(forward, *args, **kwargs)
