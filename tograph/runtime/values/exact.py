"""What tells Python values apart that compare equal: 1, 1.0 and True, 0.0 and -0.0, ``range(0, 3, 2)`` and ``range(0, 4, 2)``.

Invariant: no form is a pair that begins with a type, which in a trace key is a number (see ``keys.without_numbers``).
"""

from __future__ import annotations

from typing import Any

_PLAIN = frozenset((str, type(None)))


def exact(x: Any) -> Any:
    """A hashable form of a hashable value; two values have equal forms where no program can tell them apart."""
    kind = type(x)
    if kind in _PLAIN:
        return x
    if kind is float or kind is complex:
        return ("exact", kind, repr(x))
    if kind is range:
        return ("exact", kind, (x.start, x.stop, x.step))
    if isinstance(x, tuple):
        return ("exact", kind, tuple(map(exact, x)))
    if isinstance(x, frozenset):
        return ("exact", kind, frozenset(map(exact, x)))
    return ("exact", kind, x)


def exact_keys(x: dict) -> tuple:
    """The keys of a dict in their order, in their exact form."""
    return tuple(x) if all(type(k) is str for k in x) else tuple(map(exact, x))
