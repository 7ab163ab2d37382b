"""The entries of the traces that ran last, in slots of a function where machine code finds them (``native.caller``).

The latest is first. Beside each entry stand its guards and its calls.
"""

from __future__ import annotations

from typing import Any

SLOTS = [("_entry", "_checks", "_shape"), *((f"_entry{i}", f"_checks{i}", f"_shape{i}") for i in (1, 2))]  # fmt: skip


def put(function: Any, *found: Any) -> None:
    """Let an entry, with its guards and calls, be the first; those that were before it move up. The caller lets no other thread in."""
    first = found[0]
    for names in SLOTS:
        there = tuple(getattr(function, name) for name in names)
        setattr(function, names[0], None)  # never with the guards or calls of another one
        for name, x in reversed(list(zip(names, found, strict=True))):
            setattr(function, name, x)
        if there[0] is None or there[0] is first:
            return
        found = there


def forget(function: Any) -> None:
    """Empty the slots."""
    for names in SLOTS:
        for name in names:
            setattr(function, name, None)
