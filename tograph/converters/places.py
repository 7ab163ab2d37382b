"""Variables as locations: how operators reach the variables of a body function."""

from __future__ import annotations

import types
from typing import Any

from ..runtime.symbols import journal
from ..runtime.values import locations
from ..runtime.values.code_names import writes


def places_of(names: tuple[str, ...], *functions: Any) -> list[journal.Location]:
    """The variables that bodies assign: those of ``names`` and globals live on, the others are scratch.

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
        place = locations.cell(cells[n], n) if n in cells else locations.key_of(module, n, n)
        # A global that only a function or class in the body declares is seen outside all the same.
        place.scratch = n not in names and n in cells
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
