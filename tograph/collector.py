"""Python's cyclic garbage collector, while tograph makes many objects that stay.

Importing, converting and tracing allocate tens of thousands of objects and leave next to no garbage. With its usual
threshold (700 objects) the collector would look through them dozens of times, and a few times through all that is
alive, torch's 170,000 objects included: 100 ms each, more than all the rest of a first call.

``seldom()`` raises the threshold, and puts it back, so that a very long trace is still collected now and then. It has
no effect where the collector is off or its threshold is already higher. What was allocated meanwhile is still young
then, and the next look at the young objects is a long one: after an import, ``settle()`` makes all objects old ones.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS = 100_000  # allocated beyond those freed, between two collections
FROZEN = 1000  # fewer are Python's own: 3.12 freezes some of its when it starts
_lock = threading.Lock()
_usual: list[tuple[int, int, int]] = []
_inside = [0]


@contextmanager
def seldom() -> Iterator[None]:
    """Collect only once in ``OBJECTS`` allocations in this ``with`` block; the last thread to leave puts it back."""
    _enter()
    try:
        yield
    finally:
        _leave()


def settle() -> None:
    """All objects alive count as old, without a look at them; where the program has frozen some, nothing changes.

    For what is done once in a process: garbage that is old goes with the next full collection only.
    """
    if gc.isenabled() and gc.get_freeze_count() < FROZEN:
        gc.freeze()
        gc.unfreeze()


def _enter() -> None:
    with _lock:
        _inside[0] += 1
        usual = gc.get_threshold()
        if _inside[0] == 1 and 0 < usual[0] < OBJECTS:
            _usual.append(usual)
            gc.set_threshold(OBJECTS, *usual[1:])


def _leave() -> None:
    with _lock:
        _inside[0] -= 1
        if not _inside[0] and _usual:
            usual = _usual.pop()
            if gc.get_threshold()[0] == OBJECTS:  # else somebody else has set it since
                gc.set_threshold(*usual)
