"""What a piece of code can reach: objects and variables that exist before it runs.

A region of a staged construct may change objects that it made itself, which concerns nobody, and objects that were
there before, which are state. The latter are those reachable from the functions that the region runs: their cells,
the globals that their code names, and what these hold. Of modules and classes only what some code names counts, and
the special methods, which no code has to name; of libraries only their objects, not their functions and classes.
"""

from __future__ import annotations

import copy
import functools
import gc
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from ..symbols.funcgraph import USER_CODE, Ref
from .code_names import code_names
from .dict_views import VIEWS

LIMIT = 50_000
# What a dict may come to hold, besides what it holds: see ``reserved``.
RESERVED: list[Callable[[dict], list[Any]]] = []
_OURS = __name__.partition(".")[0] + "."
_LIBRARIES = frozenset((*sys.stdlib_module_names, _OURS[:-1], "torch", "numpy")) - {"__main__"}
# What torch computes its sizes with. Registries of the standard library (of ``copy``) lead there, to half of all functions that there are,
# and what their code names would be looked for in all modules.
_BESIDE_TORCH = _LIBRARIES | {"sympy", "mpmath"}
_ATOMS = (int, float, bool, str, bytes, complex, type(None), torch.Tensor, torch.dtype,
          types.CodeType, torch.SymInt, torch.SymFloat, torch.SymBool, Ref)  # fmt: skip
_FUNC: Any = functools.partial.func  # a subclass may have another ``func`` beside it
_WRAPPED: dict[type, Callable[[Any], list[Any]]] = {
    property: lambda x: [x.fget, x.fset, x.fdel],
    staticmethod: lambda x: [x.__func__],
    classmethod: lambda x: [x.__func__],
    functools.partial: lambda x: [_FUNC.__get__(x), x.args, x.keywords],
    functools.cached_property: lambda x: [x.func],
    types.MethodType: lambda x: [x.__self__, x.__func__],
    types.BuiltinMethodType: lambda x: [x.__self__],  # of a function it is the module, or None
    types.MethodWrapperType: lambda x: [x.__self__],
    types.MappingProxyType: lambda x: [*x.keys(), *x.values()],
    **dict.fromkeys(VIEWS, gc.get_referents),
}


_CONTAINERS = (dict, list, tuple, set, frozenset, deque)
_LOOKS: weakref.WeakKeyDictionary[type, Callable] = weakref.WeakKeyDictionary()


def reachable(roots: Iterable[Any], wanted: Sequence[Any] | None = None) -> set[int]:
    """The ids of all objects and cells that can be reached from ``roots``, at most ``LIMIT`` of them.

    ``wanted``: it is enough to know which of these can be.
    """
    walk = _Walk(None if wanted is None else {id(x) for x in wanted})
    walk.run(roots)
    return walk.seen


def user_variables() -> list[Any]:
    """What the local variables of the user's functions hold."""
    found: list[Any] = []
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code in USER_CODE:
            found += frame.f_locals.values()
        frame = frame.f_back
    return found


def own_variables() -> list[Any]:
    """The same without the variables around those functions."""
    found: list[Any] = []
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code in USER_CODE:
            around = frame.f_code.co_freevars
            found += [x for name, x in frame.f_locals.items() if name not in around]
        frame = frame.f_back
    return found


class Reach:
    """What can be reached from roots, and what from more of them, without going over the former again.

    ``wanted``: the ids of the objects of which it is enough to know whether they can be.
    """

    def __init__(self, roots: Iterable[Any], wanted: set[int] | None = None):
        self._walk = _Walk(wanted)
        if wanted != set():
            self._walk.run(roots)

    @property
    def seen(self) -> set[int]:
        """The ids of what was found: those of no other objects as long as this object lives."""
        return self._walk.seen

    def also(self, roots: Sequence[Any]) -> set[int]:
        """The ids of what can be reached from these roots too."""
        found_all = self._walk.wanted is not None and not self._walk.wanted
        if not roots or found_all:
            return self._walk.seen
        walk = self._walk.copy()
        walk.run(roots)
        return walk.seen


class _Walk:
    def __init__(self, wanted: set[int] | None):
        self.wanted = wanted
        self.seen: set[int] = set()
        self.atoms: dict[type, bool] = {}
        self.looks: dict[type, Callable[[_Walk, Any], list[Any]]] = {}
        self.held: list[Any] = []  # what only this walk holds, so that ids stay theirs
        self.names: set[str] = set()
        self.asked: dict[int, set[str]] = {}  # names that code has of each module, by its globals
        self.looked_for: set[str] = set()  # names that were looked for in all of ``spaces``
        self.spaces: list[tuple[Any, bool]] = []  # modules and classes; of a library
        self.fresh: list[tuple[Any, bool]] = []  # those that were found since

    def copy(self) -> _Walk:
        made = _Walk(None)
        for name, x in vars(self).items():
            setattr(made, name, copy.copy(x))
        made.asked = {key: set(names) for key, names in self.asked.items()}
        return made

    def run(self, roots: Iterable[Any]) -> None:
        seen, atoms, wanted = self.seen, self.atoms, self.wanted
        limit = len(seen) + LIMIT
        todo = list(roots)
        while todo:
            found: list[Any] = []
            for x in todo:
                kind = type(x)
                atom = atoms.get(kind)
                if atom is None:
                    atom = atoms[kind] = isinstance(x, _ATOMS)
                if atom:
                    continue
                key = id(x)
                if key in seen:
                    continue
                if len(seen) >= limit:
                    return
                seen.add(key)
                if wanted is not None and key in wanted:
                    wanted.discard(key)
                    if not wanted:
                        return
                if kind is list or kind is tuple:
                    found += x
                else:
                    found += self._children(x)
            self.held.append(todo)
            todo = found or self._named()

    def _named(self) -> list[Any]:
        """What code that was found names in the modules and classes that were found."""
        found: list[Any] = []
        for names, spaces in (
            (self.names - self.looked_for, self.spaces),
            (self.names, self.fresh),
        ):
            for space, library in spaces if names else ():
                held = vars(space)
                for name in names & held.keys():
                    x = held[name]
                    if not library or _is_object(x):
                        found.append(x)
        self.looked_for |= self.names
        self.spaces += self.fresh
        self.fresh = []
        return found

    def _children(self, x: Any) -> list[Any]:
        kind = type(x)
        if kind is types.FunctionType:
            return self._of_function(x)
        if kind is dict:
            return [] if x is sys.modules else [*x.keys(), *x.values(), *_reserved(x)]
        if kind is list or kind is tuple:
            return list(x)
        look = self.looks.get(kind)
        if look is None:
            look = self.looks[kind] = _LOOKS.get(kind) or _LOOKS.setdefault(kind, _look_of(kind))
        return look(self, x)

    def _of_function(self, f: types.FunctionType) -> list[Any]:
        found = [
            *(f.__closure__ or ()),
            *(f.__defaults__ or ()),
            *(f.__kwdefaults__ or {}).values(),
        ]
        if f.__dict__:
            found += f.__dict__.values()
        if f.__globals__.get("__name__", "").startswith(_OURS):
            return found  # the operators of converted code hold nothing of the user's but in their closures
        names = code_names(f.__code__)
        asked = self.asked.setdefault(id(f.__globals__), set())
        new = names.keys() - asked
        if new:
            asked |= new
            self._global(f.__globals__, [n for n in names if n in new], found)
        return found

    def _global(self, space: dict[str, Any], names: Sequence[str], found: list[Any]) -> None:
        """Add what code of a module names there. A library's code changes nothing by attributes of the user's, so its names count there only."""
        if _is_left(space.get("__name__", "")):
            found += [x for n in names if _is_object(x := space.get(n))]
            return
        self.names.update(names)
        for n in names:
            if n in space:
                found.append(space[n])
            elif n in sys.modules:
                found.append(sys.modules[n])  # imported where it is used

    def _of_space(self, x: Any) -> list[Any]:
        """A module or class: what it holds is taken by name; of a class the special methods too."""
        library = _is_left(x.__name__ if isinstance(x, types.ModuleType) else x.__module__)
        if isinstance(x, types.ModuleType):
            # What tograph keeps for itself is no state of the user's.
            if not (x.__name__ + ".").startswith(_OURS):
                self.fresh.append((x, library))
            return []
        if library:
            return []
        self.fresh.append((x, False))
        special = [
            v
            for k, v in vars(x).items()
            if k.startswith("__") and isinstance(v, types.FunctionType)
        ]
        return [*special, *x.__mro__[1:], *([type(x)] if type(x) is not type else ())]


def _is_object(x: Any) -> bool:
    """Whether a global of a library is an object: its functions, classes and modules are not followed."""
    return not isinstance(x, (types.FunctionType, type, types.ModuleType))


def _look_of(kind: type) -> Callable[[_Walk, Any], list[Any]]:
    """How the objects of a class are taken apart."""
    if getattr(kind, "__tograph_opaque__", False):
        return lambda walk, x: []
    if issubclass(kind, (type, types.ModuleType)):
        return _Walk._of_space
    if issubclass(kind, (types.CellType, weakref.ref)):
        return lambda walk, x: _held(x)
    if kind in _WRAPPED:
        return lambda walk, x: _WRAPPED[kind](x)
    slots = [s for c in kind.__mro__ for s in _names(getattr(c, "__slots__", ()))]
    named = not _is_left(kind.__module__)
    holds = issubclass(kind, _CONTAINERS) or hasattr(kind, "__tograph_holds__")
    look = functools.partial(_parts, slots=slots, named=named, holds=holds)
    wrapped = next((inside for base, inside in _WRAPPED.items() if issubclass(kind, base)), None)
    return look if wrapped is None else lambda walk, x: [*wrapped(x), *look(walk, x)]


def _parts(walk: _Walk, x: Any, slots: Sequence[str], named: bool, holds: bool) -> list[Any]:
    """What an object holds, and its class where it is ``named``."""
    found = _items(x) if holds else []
    if named:
        found.append(type(x))
    fields = getattr(x, "__dict__", None)
    if fields is not None:
        found.append(fields)
    return found + [getattr(x, s, None) for s in slots] if slots else found


def is_library(name: Any) -> bool:
    """Whether a module, by its name, belongs to Python, torch, numpy or tograph."""
    return not isinstance(name, str) or name.partition(".")[0] in _LIBRARIES


def _is_left(name: Any) -> bool:
    """Whether functions and classes of a module are not followed: those of a library, and of what torch computes with."""
    return not isinstance(name, str) or name.partition(".")[0] in _BESIDE_TORCH


def _items(x: Any) -> list[Any]:
    """What a container holds, keys too."""
    if issubclass(type(x), dict):
        return [*dict.keys(x), *dict.values(x), *_reserved(x)]
    if isinstance(x, list):
        return [*list.__iter__(x)]  # a list of the graph refuses its own iterator
    base = next((c for c in (tuple, set, frozenset, deque) if isinstance(x, c)), None)
    # past what a class of the user's makes of iteration and length
    return x.__tograph_holds__() if base is None else [*base.__iter__(x)]


def _reserved(x: dict) -> list[Any]:
    return [held for of in RESERVED for held in of(x)]


def _held(x: types.CellType | weakref.ref) -> list[Any]:
    try:
        return [x() if isinstance(x, weakref.ref) else x.cell_contents]
    except ValueError:  # an empty cell
        return []


def _names(slots: Any) -> tuple[str, ...]:
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(n for n in names if not n.startswith("__"))


def named(f: types.FunctionType | types.MethodType) -> list[Any]:
    """The objects and functions that a function finds in the variables around it, in its defaults and in its object."""
    if isinstance(f, types.MethodType):
        return [f.__self__, f.__func__]
    found = [x for cell in f.__closure__ or () for x in _held(cell)]
    if is_library(f.__globals__.get("__name__", "")):
        return found if f.__globals__["__name__"].startswith(_OURS) else []
    found += [f.__globals__[n] for n in code_names(f.__code__) if n in f.__globals__]
    found += [*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]
    return [x for x in found if not isinstance(x, (type, types.ModuleType))]
