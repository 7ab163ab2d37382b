"""Variables as locations: how operators reach the variables of a body function."""

from __future__ import annotations

import dis
import functools
import types
from typing import Any

from ..runtime import journal


def places_of(names: tuple[str, ...], *functions: Any) -> list[journal.Location]:
    """The variables that bodies assign: those of ``names`` live on, the others are scratch.

    They are the cells that the bodies share with the user's function, or globals of its module.
    """
    cells: dict[str, Any] = {}
    module: dict[str, Any] = {}
    stored: set[str] = set()
    for function in functions:
        if function is not None:
            cells.update(zip(function.__code__.co_freevars, function.__closure__ or ()))
            module = function.__globals__
            stored.update(*writes(function.__code__))
    found = []
    for n in sorted(stored | set(names)):
        place = journal.cell(cells[n], n) if n in cells else journal.key_of(module, n, n)
        place.scratch = n not in names
        found.append(place)
    return found


def bound_by(*functions: Any) -> list[journal.Location]:
    """The variables that operands bind (``:=``): they live on."""
    names: set[str] = set()
    for function in functions:
        if isinstance(function, types.FunctionType):
            names.update(*writes(function.__code__))
    return (
        places_of(
            tuple(sorted(names)), *(f for f in functions if isinstance(f, types.FunctionType))
        )
        if names
        else []
    )


@functools.cache
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
