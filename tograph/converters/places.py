"""Variables as locations: how operators reach the variables of a body function."""

from __future__ import annotations

from typing import Any

from ..runtime import journal


def places_of(names: tuple[str, ...], *functions: Any) -> list[journal.Location]:
    """The variables of these names, as the bodies reach them: cells, or globals of the module."""
    cells: dict[str, Any] = {}
    module: dict[str, Any] = {}
    for function in functions:
        if function is not None:
            cells.update(zip(function.__code__.co_freevars, function.__closure__ or ()))
            module = function.__globals__
    return [journal.cell(cells[n], n) if n in cells else journal.key_of(module, n, n) for n in names]
