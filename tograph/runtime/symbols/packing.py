"""Hooks that pack what torch's autograd saves.

torch detaches a tensor before it gives it to such a hook, and what comes back gets the history of the tensor again. So that detached
tensor is an alias, which a graph may not take for one of the user's: derivatives of what is computed from it would end there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Packing(threading.local):
    on = False


_packing = _Packing()


@contextmanager
def packing() -> Iterator[None]:
    """Inside, torch detaches what it gives to a hook."""
    before, _packing.on = _packing.on, True
    try:
        yield
    finally:
        _packing.on = before


def is_packing() -> bool:
    return _packing.on
