"""Functions, methods and partial objects that the traced code made and that leave a call: each call makes its own.

Such a function shows what its variables, defaults and attributes hold, so these are parts of the result. A variable is a cell, which several functions may
share: it is one object of the result. What holds nothing that a call makes (numbers, texts, objects from outside) is one function for all calls, unless its
code assigns its variables.
"""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import Callable, Iterator
from typing import Any

from ..symbols.journal import MISSING
from ..values import pytrees, structure
from ..values.code_names import stored_names
from ..values.keyed_parts import is_symbolic
from .rebuilding import Rebuilt


def form(x: Any, leave: Callable[[Any], Any]) -> Rebuilt | None:
    """The form in which a function, method, partial object or variable leaves; None for one that leaves as it is. ``leave``: that of its parts."""
    if isinstance(x, types.CellType):
        return Rebuilt(_cell, [leave(v) for v in _content(x)])
    if not isinstance(x, _KINDS) or not _is_own(x, set()):
        return None
    if isinstance(x, types.MethodType):
        return Rebuilt(_MethodOf(x), [leave(x.__self__)])
    if isinstance(x, functools.partial):
        parts = [x.func, *x.args, *x.keywords.values(), *vars(x).values()]
        return Rebuilt(_PartialOf(x), list(map(leave, parts)))
    make = _FunctionOf(x)
    return Rebuilt(make, list(map(leave, make.parts(x))))


_KINDS = (types.FunctionType, types.MethodType, functools.partial)


def _is_own(x: Any, seen: set[int]) -> bool:
    """Whether something that a call makes, or that is its caller's, is in ``x``."""
    if id(x) in seen or structure.OUTSIDE[0](x):
        return False
    seen.add(id(x))
    if is_symbolic(x) or structure.is_union(x) or isinstance(x, (list, dict, set)):
        return True
    if isinstance(x, tuple):
        return any(_is_own(v, seen) for v in x)
    if isinstance(x, types.MethodType):
        return pytrees.has_parts(type(x.__self__)) and _is_own(x.__self__, seen)
    if isinstance(x, types.FunctionType):
        return _is_assigned(x) or any(_is_own(v, seen) for v in _held(x))
    if type(x) is functools.partial:
        parts = (x.func, *x.args, *x.keywords.values(), *vars(x).values())
        return any(_is_own(v, seen) for v in parts)
    return pytrees.has_parts(type(x))


def _is_assigned(f: types.FunctionType) -> bool:
    """Whether a function that shares a variable with this one, or itself, assigns it."""
    cells = list(
        f.__closure__ or ()
    )  # no tuple: the one that ``get_referrers`` is given it leaves out
    closures = [t for t in gc.get_referrers(*cells) if type(t) is tuple] if cells else []
    ids = set(map(id, closures))
    sharing = [g for g in gc.get_referrers(*closures) if type(g) is types.FunctionType and id(g.__closure__) in ids] if closures else []  # fmt: skip
    here = set(map(id, cells))
    return any(
        id(cell) in here and name in stored_names(g.__code__)
        for g in sharing
        for name, cell in zip(g.__code__.co_freevars, g.__closure__ or ())
    )


def _held(f: types.FunctionType) -> Iterator[Any]:
    for cell in f.__closure__ or ():
        yield from _content(cell)
    yield from f.__defaults__ or ()
    yield from (f.__kwdefaults__ or {}).values()
    yield from vars(f).values()


def _content(cell: types.CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _cell(parts: list[Any]) -> types.CellType:
    return types.CellType(*(v for v in parts if v is not MISSING))


class _FunctionOf:
    """Makes a function of its variables, defaults and attributes, ``parts`` in this order."""

    def __init__(self, f: types.FunctionType):
        self.code, self.namespace, self.name = f.__code__, f.__globals__, f.__name__
        self.about = {n: getattr(f, n) for n in _ABOUT if hasattr(f, n)}
        # which cells hold the function itself: no part
        self.own = [any(v is f for v in _content(c)) for c in f.__closure__ or ()]
        self.defaults = len(f.__defaults__ or ())
        self.keywords, self.attributes = tuple(f.__kwdefaults__ or ()), tuple(vars(f))

    def parts(self, f: types.FunctionType) -> list[Any]:
        cells = [c for c, own in zip(f.__closure__ or (), self.own) if not own]
        return [*cells, *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values(), *vars(f).values()]  # fmt: skip

    def __call__(self, parts: list[Any]) -> types.FunctionType:
        rest = iter(parts)
        cells = tuple(types.CellType() if own else next(rest) for own in self.own)
        defaults = tuple(next(rest) for _ in range(self.defaults))
        made = types.FunctionType(self.code, self.namespace, self.name, defaults or None, cells or None)  # fmt: skip
        made.__kwdefaults__ = {name: next(rest) for name in self.keywords} or None
        for name, value in [*self.about.items(), *zip(self.attributes, rest)]:
            setattr(made, name, value.copy() if name == "__annotations__" else value)
        for cell, own in zip(cells, self.own):
            if own:
                cell.cell_contents = made
        return made


_ABOUT = ("__qualname__", "__module__", "__doc__", "__annotations__", "__type_params__")


class _MethodOf:
    """Makes the same method of another object; a list of the call leaves as one of Python's, with a method of that."""

    def __init__(self, method: types.MethodType):
        self.function = method.__func__

    def __call__(self, parts: list[Any]) -> Any:
        if type(parts[0]) is list:
            return getattr(parts[0], self.function.__name__)
        return types.MethodType(self.function, parts[0])


class _PartialOf:
    """Makes a partial object of its function and arguments."""

    def __init__(self, x: functools.partial):
        self.kind, self.count = type(x), len(x.args)
        self.names, self.attributes = tuple(x.keywords), tuple(vars(x))

    def __call__(self, parts: list[Any]) -> functools.partial:
        f, args, rest = parts[0], parts[1 : 1 + self.count], iter(parts[1 + self.count :])
        made = self.kind(f, *args, **{name: next(rest) for name in self.names})
        for name, value in zip(self.attributes, rest):
            setattr(made, name, value)
        return made
