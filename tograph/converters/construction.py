"""Calls of classes: a staged form, or an object whose ``__new__`` and ``__init__`` are converted.

Objects that hold parameters and state (modules, optimisers) are made once, for good, wherever the first call makes them.
``call`` is the operator of converted calls, which imports this module.
"""

from __future__ import annotations

import enum
import linecache
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ..runtime.guarding import reads
from ..runtime.recording import creation
from ..runtime.symbols.funcgraph import current_graph, is_tracing
from ..runtime.values.pytrees import base_container, blank, has_identity
from . import outside_world, progress, special_results, staged_bytes, standard, union
from .call_rules import is_user_function, module_rule
from .iterators import advancing, gives_items
from .left_alone import shows_staged
from .registry import BUILTINS

# Their objects hold parameters and state: made under a condition, they are made for good.
_MADE_ONCE = (torch.nn.Module, torch.optim.Optimizer)

# What an object of a class needs besides, where each call makes it anew.
BEGINNINGS: dict[type, Callable[[Any], None]] = {}


def construct(call: Callable[..., Any], cls: type, args, kwargs):
    """A class: its staged form, or an object whose ``__init__`` is converted."""
    form = BUILTINS.get(cls)
    if form is not None:
        return _held(form(*args, **kwargs))
    if is_tracing() and progress.is_bar(cls):
        return progress.Bar(*args, **kwargs)
    if issubclass(cls, torch.optim.Optimizer):
        _patch_step(cls)
    if issubclass(cls, enum.Enum) and len(args) == 1 and not kwargs and standard.holds_staged(args):
        return call(standard.member_of, cls, args[0])
    if (
        issubclass(cls, _MADE_ONCE)
        and is_tracing()
        and creation.conditional()
        and creation.without_symbols((*args, *kwargs.values()))
    ):
        if creation.staged() and issubclass(cls, torch.nn.Module):
            return _wrapping(cls, args, kwargs)
        creation.check(f"a {cls.__name__}")
        return creation.make(
            lambda: cls(*args, **kwargs), lambda made: not _wraps(made, args, kwargs)
        )
    if is_tracing() and standard.is_made_by_parts(cls):
        return noted(standard.construct_dataclass(call, cls, args, kwargs))
    meta = type(cls).__call__
    if is_tracing() and is_user_function(meta):
        return call(meta, cls, *args, **kwargs)
    made = instance(call, cls, args, kwargs)
    if is_tracing() and cls in BEGINNINGS:
        BEGINNINGS[cls](made)
    return _held(made)


def _patch_step(cls: type[torch.optim.Optimizer]) -> None:
    """What the first object of a class of optimisers makes of its ``step``, for good: not the work of the branch or body that makes that object."""
    step: Any = cls.step
    if not getattr(step, "hooked", False):
        made: Any = torch.optim.Optimizer.profile_hook_step(step)
        made.hooked = True
        cls.step = made


def _held(made: Any) -> Any:
    """An iterator of ``itertools`` as converted code holds it."""
    return advancing(made) if type(made).__module__ == "itertools" else made


def _wrapping(cls: type, args, kwargs):
    """A module that a staged branch or loop makes: one without tensors of its own, such as a wrapper of its arguments."""
    made = noted(cls(*args, **kwargs))
    if not _wraps(made, args, kwargs):
        creation.check(f"a {cls.__name__}")
    return made


def _wraps(made: Any, args, kwargs) -> bool:
    """Whether all tensors of a module are its arguments': a slice of a ``ModuleList``, which each call may make anew."""
    if not isinstance(made, torch.nn.Module):
        return False
    parts = [p for x in (*args, *kwargs.values()) for p in (x if isinstance(x, (list, tuple)) else [x])]  # fmt: skip
    given = {id(t) for m in parts if isinstance(m, torch.nn.Module) for t in _tensors(m)}
    return all(id(t) in given for t in _tensors(made))


def _tensors(m: torch.nn.Module):
    yield from m.parameters()
    yield from m.buffers()


def instance(call: Callable[..., Any], cls: type, args, kwargs):
    """What ``type.__call__`` does, with ``__new__`` and ``__init__`` of a user's class converted."""
    init = cls.__init__
    raised = issubclass(cls, BaseException) and isinstance(cls.__new__, types.BuiltinMethodType)
    plain = cls.__new__ is (base_container(cls) or object).__new__
    simple = plain or raised or is_user_function(cls.__new__)
    written = [f for f in (init, cls.__new__) if is_user_function(f)]
    if not (simple and is_tracing() and written) or not module_rule(cls.__module__ or ""):
        outside_world.called(cls, args, kwargs)
        reads.passed([a for a in args if hasattr(type(a), "__next__")])
        if issubclass(cls, weakref.ref):
            reads.identified(*args[:1])
        made = _of_library(cls, args, kwargs)
        gives_items(made)
        return noted(made)
    if not all(_is_written(f.__code__) for f in written) or issubclass(cls, torch.nn.Module):
        return noted(cls(*args, **kwargs))
    if raised:  # its arguments are kept before ``__init__`` says otherwise
        made = cls.__new__(cls, *args, **kwargs)
    else:
        made = blank(cls) if plain else call(cls.__new__, cls, *args, **kwargs)
    made = (
        made if is_user_function(cls.__new__) else noted(made)
    )  # what a user's gives may have been there before

    def begin(made: Any) -> None:
        if isinstance(made, cls) and is_user_function(init):
            special_results.initialised(call(init, made, *args, **kwargs))

    union.apply(begin, made)  # of what ``__new__`` gives on each path
    return made


def _of_library(cls: type, args, kwargs):
    """An object of a class that is not converted; StagingError where it has no use for a staged value.

    One that has no use for what is of several kinds (``functools.partial(f)``) is made of each of these; others hold it.
    """
    if cls in (bytes, bytearray):
        staged_bytes.refuse(f"{cls.__name__}()", *args)
    try:
        return cls(*args, **kwargs)
    except (TypeError, ValueError) as error:
        if union.holds_union(args, kwargs):
            return union.apply(lambda *a, **k: _of_library(cls, a, k), *args, **kwargs)
        taken = None if module_rule(cls.__module__ or "") else (*args, *kwargs.values())
        ours = shows_staged(error, cls.__name__, taken)
        if ours is None:
            raise
        raise ours from None


def _is_written(code: types.CodeType) -> bool:
    """Whether code has a source: that of a notebook's cell or a doctest has, what ``exec`` made of a text has none."""
    file = code.co_filename
    return not file.startswith("<") or bool(linecache.getline(file, code.co_firstlineno))


def noted(made):
    """An object that traced code made."""
    if is_tracing() and has_identity(made):
        graph = current_graph()
        graph.root.made[id(made)] = (made, graph)
    return made
