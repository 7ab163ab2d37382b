"""The op table: what every op of a graph means.

A row (``Op``) is complete: its reference (what it does to run-time values), its effects and its gradient. ``NONE`` in a cell is a
statement ("no gradient"), not an omission. Shapes of results are in ``inference``, kernels in ``kernels``: by the same names.

Names. ``aten.add.Tensor`` is an ATen overload; its row is made from the schema, so any ATen op can be
recorded. ``py.add`` works on Python numbers with Python's own meaning. ``tg.*`` are effects, lists,
optionals and constants. ``If``, ``While``, ``Case``, ``Call`` and ``Try`` hold graphs and are run by
the interpreter and the scheduler; their effects are derived from those graphs.

Run-time values: a tensor, a Python number (``ScalarType``), a tuple of tensors (``ListType``), a
one- or zero-element tuple (``OptionalType``) or any object (``ObjectType``).

The rows stand by subject in ``aten_rows``, ``number_rows``, ``outside_rows``, ``state_rows``, ``list_rows`` and ``lowered_rows``; to import this module
is to have them all.
"""

from __future__ import annotations

from . import lowered_rows
from .aten_rows import overload, overload_name, overload_packet, takes_size, torch_row
from .list_rows import array_index, list_index, written_index
from .number_rows import ARITHMETIC, COMPARISONS, PYTHON
from .opaque import OpaqueObject, plain
from .outside_rows import bare_exception, catching, make_exception
from .quick import DIRECT, quick
from .rows import (  # fmt: skip
    FAILS_BY_VALUE,
    IO,
    MAY_COMMIT,
    MAY_FAIL,
    NONE,
    PURE,
    REPLAY,
    TABLE,
    TO_INTEGER,
    TO_REAL,
    Effects,
    Op,
    divides,
    register,
)
from .state_rows import zero_of

__all__ = [
    "ARITHMETIC", "COMPARISONS", "DIRECT", "FAILS_BY_VALUE", "IO", "MAY_COMMIT", "MAY_FAIL", "MOVES", "NONE", "PURE", "PYTHON", "REGION_OPS",
    "REPLAY", "REQUIRED_REGIONS", "TABLE", "TO_INTEGER", "TO_REAL", "Effects", "Op", "OpaqueObject", "array_index", "bare_exception", "catching", "divides",
    "exists", "list_index", "lookup", "lowered_rows", "make_exception", "overload", "overload_name", "overload_packet", "plain", "quick",
    "register", "takes_size", "written_index", "zero_of",
]  # fmt: skip

REGION_OPS = ("If", "While", "Case", "Call", "Try")
REQUIRED_REGIONS = {"If": ("then", "orelse"), "While": ("cond", "body")}
# Ops that compute nothing, but take values from one place to another: in Python that is no op, so they are recorded as if
# gradients were on also where they are off. So are ops with regions: what is computed in these knows for itself.
MOVES = frozenset(
    ["tg.choose", "tg.identity", "tg.read", "tg.written"]
    + [f"tg.list_{n}" for n in ("new", "of", "push", "pop", "insert", "get", "set", "slice", "extend", "reserve")]
    + [f"tg.optional_{n}" for n in ("some", "none", "get")]
)  # fmt: skip


def lookup(name: str) -> Op:
    """The row of an op; KeyError when there is none."""
    row = TABLE.get(name)
    if row is None:
        if not name.startswith(("aten.", "op.")):
            raise KeyError(f"no such op: {name}")
        row = TABLE[name] = torch_row(name)
    return row


def exists(name: str) -> bool:
    """Whether ``lookup`` would find a row."""
    try:
        lookup(name)
    except (KeyError, AttributeError):
        return False
    return True
