"""Lists, tuples, strings and ranges of Python by a staged index: an item of a table of numbers, one of several strings by its
number, else a balanced tree of branches.

Out of range is the IndexError of Python, when the graph runs.
"""

from __future__ import annotations

import torch

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import user_location
from ..runtime.symbols.required import require
from ..runtime.symbols.symbolic import scalar_of
from ..runtime.values import locations
from .iterables import Indexed, StagedRange, exact_dtype
from .tensor_index import as_place
from .text_options import one_of


def sequence_item(x, key):
    """An item of a range whose bounds are known only when the graph runs."""
    if isinstance(x, Indexed):
        return x.item(key)
    if not isinstance(x, StagedRange):
        kind = type(x).__name__
        raise TypeError(f"{_PYTHON.get(kind, kind)!r} object is not subscriptable")
    if isinstance(key, slice):
        raise StagingError(
            "a slice of a range whose bounds are known only when the graph runs is not supported: make the range with other bounds",
            user_location(),
        )
    n, at = x.length(), as_place(key)

    def outside():
        raise IndexError("range object index out of range")

    inside = (at >= -n) & (at < n)
    return control_flow.staged_if(inside, lambda: x.item(at % n), outside)


_PYTHON = {"Zipped": "zip", "Mapped": "map", "Enumerated": "enumerate", "Reversed": "reversed"}


def select(items, index):
    """An item of a Python sequence by a staged index: numbers from a table, strings by their place, others in a balanced tree of branches."""
    n = len(items)
    kind = (
        "list"
        if isinstance(items, list)
        else "string"
        if isinstance(items, str)
        else type(items).__name__
    )
    table = exact_dtype(items) if n > 2 else None
    if table is not None:
        index = scalar_of(index) if isinstance(index, torch.Tensor) else index
        require((index >= -n) & (index < n), IndexError(f"{kind} index out of range"))
        return scalar_of(torch.select(torch.tensor(items, dtype=table), 0, index))
    if n > 2 and all(type(item) is str for item in items):
        index = scalar_of(index) if isinstance(index, torch.Tensor) else index
        require((index >= -n) & (index < n), IndexError(f"{kind} index out of range"))
        return one_of(items, index % n)
    at = index % n if n else index

    def tree(low: int, high: int):
        if high - low == 1:
            return items[low]
        middle = (low + high) // 2
        return control_flow.staged_if(
            at < middle, lambda: tree(low, middle), lambda: tree(middle, high)
        )

    def outside():
        raise IndexError(f"{kind} index out of range")

    inside = (index >= -n) & (index < n)
    return control_flow.staged_if(inside, lambda: tree(0, n), outside) if n else outside()


def set_list(items: list, index, value) -> None:
    """Write an item of a Python list by a staged index: every item is the new value or its old one."""
    n = len(items)
    inside = (index >= -n) & (index < n)
    control_flow.staged_if(inside, lambda: None, lambda: _out_of_range())
    journal.record(locations.contents(items))
    for i in range(n):
        here = (index == i) | (index == i - n)
        items[i] = control_flow.staged_if(here, lambda: value, lambda i=i: items[i])


def _out_of_range():
    raise IndexError("list assignment index out of range")
