"""The names that the code of a function, and of the functions in it, loads and assigns."""

from __future__ import annotations

import dis
import functools
import types
import weakref
from collections.abc import Callable
from typing import Any


def _per_code(answer: Callable[[types.CodeType], Any]) -> Callable[[types.CodeType], Any]:
    """Remember the answers for as long as the code objects live; by identity, for the hash of one goes over all that it holds."""
    known: dict[int, tuple[weakref.ref[types.CodeType], Any]] = {}

    @functools.wraps(answer)
    def remembered(code: types.CodeType) -> Any:
        key = id(code)
        found = known.get(key)
        if found is None:
            gone = weakref.ref(code, lambda _: known.pop(key, None))
            found = known[key] = (gone, answer(code))
        return found[1]

    return remembered


@_per_code
def stored_names(code: types.CodeType) -> frozenset[str]:
    """Globals and free variables that the code itself assigns."""
    words = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF")
    return frozenset(i.argval for i in _instructions(code) if i.opname in words)


@_per_code
def loaded_globals(code: types.CodeType) -> tuple[str, ...]:
    loads = ("LOAD_GLOBAL", "LOAD_NAME")
    return tuple(dict.fromkeys(i.argval for i in _instructions(code) if i.opname in loads))


@_per_code
def loaded_variables(code: types.CodeType) -> frozenset[str]:
    words = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
    return frozenset(i.argval for i in _instructions(code) if i.opname in words)


def _instructions(code: types.CodeType):
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _instructions(constant)


@_per_code
def code_names(code: types.CodeType) -> dict[str, None]:
    """The global and attribute names of a code object and of those nested in it, in order; converted code has some as strings."""
    found = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += code_names(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            found.append(constant)
    return dict.fromkeys(found)


@_per_code
def writes(code: types.CodeType) -> tuple[frozenset[str], tuple[str, ...]]:
    """The free variables and the globals that code, with the functions nested in it, assigns."""
    cells: set[str] = set()
    names: set[str] = set()
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("STORE_DEREF", "DELETE_DEREF"):
            cells.add(instruction.argval)
        elif instruction.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            names.add(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner_cells, inner_names = writes(constant)
            cells |= inner_cells
            names |= set(inner_names)
    return frozenset(cells & set(code.co_freevars)), tuple(sorted(names))
