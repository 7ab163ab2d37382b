"""``xs[a:b]``, ``xs[a:b] = ys`` and ``del xs[a:b]`` where the list, a bound or ``ys`` is of the graph. A write is what is in front, ``ys``, and what is behind."""

from __future__ import annotations

from typing import Any

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.library.staged_string import text_op
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import user_location
from ..runtime.values import locations
from ..runtime.values.growing import StagedList, as_staged
from ..runtime.values.staged_tuples import as_tuple
from ..runtime.values.structure import is_growing
from . import staged_bytes
from .calls import call
from .generators import Generator
from .tensor_index import as_place, check_bounds, staged_parts


def takes_slice(x: Any, key: Any, value: Any = ()) -> bool:
    """Whether ``x[key] = value`` writes a slice that Python's own list cannot."""
    if not isinstance(key, slice) or not isinstance(x, list) or getattr(x, "frozen", False):
        return False
    return is_growing(x) or is_growing(value) or isinstance(value, Generator) or staged_parts(key)


def set_slice(x: Any, key: slice, value: Any) -> None:
    """``x[key] = value``"""
    check_bounds(key)
    if not isinstance(x, StagedList) or key.step not in (None, 1):
        raise StagingError(
            "a slice with a step, or of a list that was not made in the function, cannot be written where it depends on staged values: "
            "write single items, or make a new list",
            user_location(),
        )
    made = call(list, value)
    start, stop = as_place(key.start), as_place(key.stop)
    n = x.length()
    low = 0 if start is None else _placed(start, n)
    front = as_staged(StagedList(x)).sliced(slice(None, low))
    front.extend(made)
    if stop is not None:
        end = _placed(stop, n)
        front.extend(as_staged(StagedList(x)).sliced(slice(_largest(low, end), None)))
    journal.record(locations.contents(x))
    x.replace(front)


def _placed(i: Any, n: Any) -> Any:
    """A bound of a slice as a number from 0 on; beyond the end means the end."""
    if not isinstance(i, SYMBOLS) and i >= 0:
        return i
    if isinstance(i, SYMBOLS):
        negative = control_flow.predicate(i < 0, "a slice")
        i = control_flow.staged_if(negative, lambda: i + n, lambda: i)
    else:
        i = i + n
    return _largest(i, 0)


def _largest(a: Any, b: Any) -> Any:
    return call(max, a, b)


def sliced(x, key):
    """A list, tuple or string by bounds of the graph."""
    if isinstance(x, (bytes, bytearray)):
        staged_bytes.refuse("a slice of bytes", key.start, key.stop, key.step)
    if isinstance(x, str):
        return text_op("slice", str, x, key.start, key.stop, key.step)
    found = as_staged(StagedList(x))[key]
    return as_tuple(found) if isinstance(x, tuple) else found
