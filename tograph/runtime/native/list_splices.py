"""Items of a list of lists that others come in the place of, in native code.

What is in the items stands in one row, in the order of the items, so an item that is replaced by a longer one moves all that follows it there, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from . import list_functions
from .list_memory import given, places
from .values import Listed

if TYPE_CHECKING:
    from .lower import Lowering


def none(x: Listed) -> Listed:
    """A list like ``x`` that has no items."""
    return replace(x, length="0")


def splice(low: Lowering, x: Listed, start: str, count: str, y: Listed) -> Listed:
    """``x``, whose memory may be changed, with the items of ``y`` in the place of ``count`` items from ``start`` on."""
    code = low.code
    name = list_functions.splice(low, x.item)
    where = f"i64 {x.begin}, i64 {x.length}, i64 {start}, i64 {count}"
    held = code.do(f"call i1 @{name}({given(low, x)}, {where}, {places(y)}, i64 {y.begin}, i64 {y.length})")  # fmt: skip
    low.fail(code.do(f"xor i1 {held}, true"))
    low.work += 100
    return replace(x, length=code.add(x.length, code.do(f"sub i64 {y.length}, {count}")))
