"""What may have a stand-in (``stand_ins``), and what passes between one and the object of a call: ``Generators`` their state, ``Closures`` the content of their variables.

A closure is a function that another one defines, a lambda or an inner ``def``: each call of that makes a new one of the same code. One that assigns to its
variables has no stand-in, nor one with attributes, or defaults that may change: these would show.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from types import CellType, FunctionType
from typing import Any, Protocol

import torch

from ..values.arguments import is_fixed
from ..values.code_names import writes
from ..values.exact import exact


class Kind(Protocol):
    """``living``: how many objects that exist have traces of their own before there are stand-ins."""

    living: int

    def key(self, x: Any) -> Hashable:
        """What a stand-in and the object have in common."""

    def make(self, x: Any) -> Any:
        """A stand-in for objects of the key of ``x``."""

    def put(self, own: Any, x: Any, inner: Callable[[str, Any], Any]) -> None:
        """Make the stand-in what ``x`` is. ``inner`` gives what stands for the content of a variable."""

    def back(self, own: Any, x: Any) -> None:
        """The call has ended."""


class Generators:
    """Random generators."""

    living = 1

    def key(self, x: torch.Generator) -> Hashable:
        return str(x.device)

    def make(self, x: torch.Generator) -> torch.Generator:
        return torch.Generator(x.device)

    def put(self, own: torch.Generator, x: torch.Generator, inner: Any) -> None:
        own.set_state(x.get_state())

    def back(self, own: torch.Generator, x: torch.Generator) -> None:
        x.set_state(own.get_state())


class Closures:
    """Functions that another function defines."""

    living = 3

    def key(self, x: FunctionType) -> Hashable:
        named = tuple((x.__kwdefaults__ or {}).items())
        return x.__code__, id(x.__globals__), x.__name__, exact(x.__defaults__), exact(named)

    def make(self, x: FunctionType) -> FunctionType:
        cells = tuple(CellType() for _ in x.__closure__ or ())
        made = FunctionType(x.__code__, x.__globals__, x.__name__, x.__defaults__, cells or None)
        made.__qualname__, made.__module__ = x.__qualname__, x.__module__
        made.__kwdefaults__, made.__annotations__ = x.__kwdefaults__, x.__annotations__
        return made

    def put(self, own: FunctionType, x: FunctionType, inner: Callable[[str, Any], Any]) -> None:
        for name, cell, from_ in zip(x.__code__.co_freevars, own.__closure__ or (), x.__closure__ or ()):  # fmt: skip
            if from_ == CellType():  # a variable that has no value yet
                _empty(cell)
            else:
                cell.cell_contents = inner(name, from_.cell_contents)

    def back(self, own: FunctionType, x: FunctionType) -> None:
        """A stand-in keeps nothing of the caller's alive."""
        for cell in own.__closure__ or ():
            _empty(cell)


def _empty(cell: CellType) -> None:
    if cell != CellType():
        del cell.cell_contents


GENERATORS, CLOSURES = Generators(), Closures()


def kind_of(x: Any) -> Kind | None:
    """Of what kind an object is; None where it has no stand-in."""
    if type(x) is torch.Generator:
        return GENERATORS
    return CLOSURES if type(x) is FunctionType and _is_closure(x) else None


def _is_closure(f: FunctionType) -> bool:
    if "<locals>" not in f.__qualname__ and f.__name__ != "<lambda>":
        return False
    defaults = (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values())
    if f.__dict__ or not all(map(is_fixed, defaults)):
        return False
    return set(f.__code__.co_freevars).isdisjoint(writes(f.__code__)[0])
