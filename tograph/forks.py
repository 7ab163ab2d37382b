"""Locks of a process that forks while another of its threads holds them: that thread does not exist in the child, and nobody would let go.

A lock that is held for milliseconds, around what must not be seen half done (LLVM's own state), is taken before the fork and let go after it,
on both sides. One that is held while the user's code runs is replaced in the child.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_replaced: weakref.WeakSet[Any] = weakref.WeakSet()


def held(lock: Any) -> Any:
    """``lock``, which a fork waits for."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
    return lock


def replaced(owner: Any) -> None:
    """The child of a fork gives ``owner`` a new ``lock``."""
    _replaced.add(owner)


def _renew() -> None:
    for owner in list(_replaced):
        owner.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
