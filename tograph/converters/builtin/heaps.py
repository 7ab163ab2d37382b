"""``heapq`` and ``bisect`` in converted code.

Each function has its meaning written in plain Python, which is converted like a user's function. They compare and move items as the
library does, so that a heap has its items in the same places. Outside of a function the library's own runs.
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


def _check(heap):
    if not isinstance(heap, list):
        raise TypeError(f"heap argument must be a list, not {type(heap).__name__}")


def _rise(heap, root, at):
    """Move the item at a place up to where its parent is not greater."""
    item = heap[at]
    while at > root:
        above = (at - 1) >> 1
        parent = heap[above]
        if not (item < parent):
            break
        heap[at] = parent
        at = above
    heap[at] = item


def _sink(heap, at):
    """Move the item at a place down to a leaf by the smaller children, then up to its place."""
    count, root, item = len(heap), at, heap[at]
    child = 2 * at + 1
    while child < count:
        if child + 1 < count and not (heap[child] < heap[child + 1]):
            child = child + 1
        heap[at] = heap[child]
        at = child
        child = 2 * at + 1
    heap[at] = item
    _rise(heap, root, at)


def _exchange(heap, item):
    """Take the first item, and let another one sink from its place."""
    first = heap[0]
    heap[0] = item
    _sink(heap, 0)
    return first


def _push(heap, item):
    _check(heap)
    heap.append(item)
    _rise(heap, 0, len(heap) - 1)


def _pop(heap):
    _check(heap)
    if len(heap) == 0:
        raise IndexError("index out of range")
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
    for at in reversed(range(len(heap) // 2)):
        _sink(heap, at)


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


DECIDING.update((_of_two, _check, _check_low, _exchange, _rise, _sink))
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
