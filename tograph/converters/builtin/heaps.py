"""``heapq`` and ``bisect`` in converted code.

Each function has its meaning written in plain Python, which is converted like a user's function. They compare and move items as the
library does, so that a heap has its items in the same places. Outside of a function the library's own runs.

Objects that can change have their places in a list of the graph (``inner_lists``): what moves there is what they hold (``heap_rows``).
"""

from __future__ import annotations

import bisect
import functools
import heapq
from collections.abc import Callable
from typing import Any

from ...runtime.symbols.funcgraph import is_tracing
from ..call_rules import DECIDING
from ..calls import call
from ..registry import handles
from .heap_rows import put_back, rows_of


def _check(heap):
    if not isinstance(heap, list):
        raise TypeError(f"heap argument must be a list, not {type(heap).__name__}")


def _less(a, b, made):
    """Whether an item is less than another; ``made`` gives an item for a row, where what moves are rows."""
    return a < b if made is None else made(a) < made(b)


def _rise(heap, root, at, made):
    """Move the item at a place up to where its parent is not greater."""
    item = heap[at]
    while at > root:
        above = (at - 1) >> 1
        parent = heap[above]
        if not _less(item, parent, made):
            break
        heap[at] = parent
        at = above
    heap[at] = item


def _sink(heap, at, made):
    """Move the item at a place down to a leaf by the smaller children, then up to its place."""
    count, root, item = len(heap), at, heap[at]
    child = 2 * at + 1
    while child < count:
        if child + 1 < count and not _less(heap[child], heap[child + 1], made):
            child = child + 1
        heap[at] = heap[child]
        at = child
        child = 2 * at + 1
    heap[at] = item
    _rise(heap, root, at, made)


def _exchange(heap, item):
    """Take the first item, and let another one sink from its place."""
    _rows, made = rows_of(heap, item)
    if made is None:
        first = heap[0]
        heap[0] = item
        _sink(heap, 0, None)
        return first
    heap.append(item)
    return _taken(heap)


def _taken(heap):
    """Take the first item, and let the last one sink from its place: they change places, and it is the last one that leaves the list."""
    rows, made = rows_of(heap)
    rows[0], rows[-1] = rows[-1], rows[0]
    put_back(heap, rows)
    first = heap.pop()
    if len(heap) > 0:
        rows, made = rows_of(heap)
        _sink(rows, 0, made)
        put_back(heap, rows)
    return first


def _push(heap, item):
    _check(heap)
    heap.append(item)
    rows, made = rows_of(heap)
    _rise(rows, 0, len(rows) - 1, made)
    put_back(heap, rows)


def _pop(heap):
    _check(heap)
    if len(heap) == 0:
        raise IndexError("index out of range")
    _rows, made = rows_of(heap)
    if made is not None:
        return _taken(heap)
    last = heap.pop()
    return last if len(heap) == 0 else _exchange(heap, last)


def _replace(heap, item):
    _check(heap)
    if len(heap) == 0:
        raise IndexError("index out of range")
    return _exchange(heap, item)


def _push_and_pop(heap, item):
    _check(heap)
    if len(heap) == 0 or not (heap[0] < item):
        return item
    return _exchange(heap, item)


def _heapify(heap):
    _check(heap)
    rows, made = rows_of(heap)
    for at in reversed(range(len(rows) // 2)):
        _sink(rows, at, made)
    put_back(heap, rows)


def _smallest(n, iterable, key=None):
    return sorted(iterable, key=key)[: max(n, 0)]


def _largest(n, iterable, key=None):
    return sorted(iterable, key=key, reverse=True)[: max(n, 0)]


def _merged(*iterables, key=None, reverse=False):
    merged = []
    for items in iterables:
        merged = _of_two(merged, list(items), key, reverse)
    return iter(merged)


def _of_two(a, b, key, reverse):
    """Two lists in one: the item that is first, of equal ones that of ``a``."""
    made, i, j = a[:0], 0, 0
    while i < len(a) or j < len(b):
        if j >= len(b):
            second = False
        elif i >= len(a):
            second = True
        else:
            x, y = (a[i], b[j]) if key is None else (key(a[i]), key(b[j]))
            second = x < y if reverse else y < x
        if second:
            made.append(b[j])
            j += 1
        else:
            made.append(a[i])
            i += 1
    return made


# ---- bisect


def _check_low(low):
    if low < 0:
        raise ValueError("lo must be non-negative")


def _left(a, x, lo=0, hi=None, *, key=None):
    _check_low(lo)
    if hi is None:
        hi = len(a)
    while lo < hi:
        middle = (lo + hi) // 2
        if (a[middle] if key is None else key(a[middle])) < x:
            lo = middle + 1
        else:
            hi = middle
    return lo


def _right(a, x, lo=0, hi=None, *, key=None):
    _check_low(lo)
    if hi is None:
        hi = len(a)
    while lo < hi:
        middle = (lo + hi) // 2
        if x < (a[middle] if key is None else key(a[middle])):
            hi = middle
        else:
            lo = middle + 1
    return lo


def _insert_left(a, x, lo=0, hi=None, *, key=None):
    a.insert(_left(a, x if key is None else key(x), lo, hi, key=key), x)


def _insert_right(a, x, lo=0, hi=None, *, key=None):
    a.insert(_right(a, x if key is None else key(x), lo, hi, key=key), x)


def _form(library: Callable[..., Any], form: Callable[..., Any]) -> None:
    DECIDING.add(form)

    @handles(library)
    @functools.wraps(form)
    def run(*args: Any, **kwargs: Any) -> Any:
        return call(form, *args, **kwargs) if is_tracing() else library(*args, **kwargs)


DECIDING.update((_of_two, _check, _check_low, _exchange, _less, _rise, _sink, _taken))
for _library, _meaning in (
    (heapq.heappush, _push),
    (heapq.heappop, _pop),
    (heapq.heapify, _heapify),
    (heapq.heapreplace, _replace),
    (heapq.heappushpop, _push_and_pop),
    (heapq.nsmallest, _smallest),
    (heapq.nlargest, _largest),
    (heapq.merge, _merged),
    (bisect.bisect_left, _left),
    (bisect.bisect_right, _right),
    (bisect.insort_left, _insert_left),
    (bisect.insort_right, _insert_right),
):
    _form(_library, _meaning)
