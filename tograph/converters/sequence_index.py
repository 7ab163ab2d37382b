"""Lists, tuples, deques, strings and ranges of Python, and arrays of numpy, by a staged index: an item of a table of numbers, one of several strings by its
number, else a balanced tree of branches.

Out of range is the IndexError of Python, when the graph runs.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import torch

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.graph.types import exact_dtype
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import user_location
from ..runtime.symbols.required import require
from ..runtime.symbols.symbolic import scalar_of
from ..runtime.values import locations
from .call_rules import DECIDING
from .calls import call
from .iterables import Indexed, StagedRange
from .number_arrays import StagedArange
from .staged_array import StagedArray
from .tensor_index import as_place
from .text_options import one_of


def sequence_item(x, key):
    """An item of a range whose bounds are known only when the graph runs."""
    if isinstance(x, Indexed):
        return x.item(key)
    if isinstance(x, StagedArange):
        return _select_arange(x, key)
    if isinstance(x, StagedArray):
        return x.taken(key)
    if not isinstance(x, StagedRange):
        kind = type(x).__name__
        raise TypeError(f"{PYTHON_NAMES.get(kind, kind)!r} object is not subscriptable")
    if isinstance(key, slice):
        return _range_slice(x, key)
    n, at = x.length(), as_place(key)

    def outside():
        raise IndexError("range object index out of range")

    inside = (at >= -n) & (at < n)
    return control_flow.staged_if(inside, lambda: x.item(at % n), outside)


def _select_arange(x: StagedArange, key):
    if isinstance(key, slice):
        x._refuse()
    n, at = x.length(), as_place(key)
    require((at >= -n) & (at < n), IndexError("index is out of bounds for axis 0"))
    return x.item(at % n)


def _range_slice(x: StagedRange, key: slice):
    """A slice of a range, where the range or a bound is known only when the graph runs."""
    if isinstance(key.step, SYMBOLS) or x.tensors:
        raise StagingError(
            "a slice of a range with a step that is known only when the graph runs, and one of tg.range, is not supported: make the range with other bounds",
            user_location(),
        )
    return call(_cut, x.start, x.step, x.length(), as_place(key.start), as_place(key.stop), 1 if key.step is None else key.step)  # fmt: skip


def _cut(first, by, n, start, stop, step):
    if step == 0:
        raise ValueError("slice step cannot be zero")
    low, high = (0, n) if step > 0 else (-1, n - 1)
    begin = (low if step > 0 else high) if start is None else _place(start, n, low, high)
    end = (high if step > 0 else low) if stop is None else _place(stop, n, low, high)
    return range(first + begin * by, first + end * by, by * step)


def _place(at, n, low, high):
    return max(at + n, low) if at < 0 else min(at, high)


DECIDING.update((_cut, _place))
PYTHON_NAMES = {
    "Zipped": "zip",
    "Parted": "zip",
    "Mapped": "map",
    "Enumerated": "enumerate",
    "Reversed": "reversed",
}


def select(items, index):
    """An item of a Python sequence by a staged index: numbers from a table, strings by their place, others in a balanced tree of branches."""
    n = len(items)
    if isinstance(items, np.ndarray):
        return _select_array(items, n, index)
    beyond = IndexError(_beyond(items))
    items = list(items) if isinstance(items, (bytes, bytearray)) else items
    table = exact_dtype(items) if n > 2 else None
    if table is not None:
        index = scalar_of(index) if isinstance(index, torch.Tensor) else index
        require((index >= -n) & (index < n), beyond)
        return scalar_of(torch.select(torch.tensor(items, dtype=table), 0, index))
    if n > 2 and all(type(item) is str for item in items):
        index = scalar_of(index) if isinstance(index, torch.Tensor) else index
        require((index >= -n) & (index < n), beyond)
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
        raise beyond

    inside = (index >= -n) & (index < n)
    return control_flow.staged_if(inside, lambda: tree(0, n), outside) if n else outside()


def _beyond(items: Any) -> str:
    """What Python says of an index out of the range of a sequence."""
    kind = type(items).__name__
    for plain, name in ((list, "list "), (str, "string "), (bytes, "")):
        if isinstance(items, plain):
            return f"{name}index out of range"
    return f"{kind} index out of range"


def takes_place(x) -> bool:
    """Whether ``x`` is an array of numpy whose items are numbers that Python has too."""
    return isinstance(x, np.ndarray) and x.ndim == 1 and x.size > 0 and x.dtype.name in ("float64", "int64", "bool")  # fmt: skip


def _select_array(x, n, index):
    """An item of an array of numpy by a staged index: the number of Python that it is."""
    require(
        (index >= -n) & (index < n),
        IndexError(f"index is out of bounds for axis 0 with size {n}"),
    )
    return scalar_of(torch.select(torch.tensor(x), 0, index))


def set_list(items: list | deque, index, value) -> None:
    """Write an item of a Python list by a staged index: every item is the new value or its old one."""
    n = len(items)
    inside = (index >= -n) & (index < n)
    control_flow.staged_if(inside, lambda: None, lambda: _out_of_range(items))
    journal.record(locations.contents(items))
    for i in range(n):
        here = (index == i) | (index == i - n)
        items[i] = control_flow.staged_if(here, lambda: value, lambda i=i: items[i])


def _out_of_range(items):
    raise IndexError(
        f"{'list assignment' if isinstance(items, list) else 'deque'} index out of range"
    )
