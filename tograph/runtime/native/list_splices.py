"""Items of a list that others come in the place of, in native code: what is behind them moves.

What is in the items of a list of lists stands in one row, in the order of the items, so an item that is replaced by a longer one moves all that
follows it there, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .list_items import inside, item_bytes, paired
from .list_memory import address, bounds, contents, reserve, shift, some
from .values import Listed

if TYPE_CHECKING:
    from .lower import Lowering


def one(low: Lowering, x: Listed, item: Listed) -> Listed:
    """A list like ``x``, of lists, that has one item."""
    code, pair, place = low.code, low.code.cell("[2 x i64]"), low.code.cell("[2 x i64]")
    code.line(f"store i64 {item.begin}, ptr {pair}")
    end = code.do(f"getelementptr i64, ptr {pair}, i64 1")
    code.line(f"store i64 {code.add(item.begin, item.length)}, ptr {end}")
    code.line(f"store ptr {pair}, ptr {place}")
    return Listed(x.item, (place, *item.places), "0", "1", item.owners, item.alias)


def none(x: Listed) -> Listed:
    """A list like ``x`` that has no items."""
    return replace(x, length="0")


def splice(low: Lowering, x: Listed, start: str, count: str, y: Listed) -> Listed:
    """``x``, whose memory may be changed, with the items of ``y`` in the place of ``count`` items from ``start`` on."""
    code = low.code
    rest = code.do(f"sub i64 {x.length}, {code.add(start, count)}")
    total = code.add(code.add(start, y.length), rest)
    if paired(x.item):
        by, moved = _splice_inside(low, x, start, count, y)
    reserve(low, x, code.add(x.begin, x.length), code.add(x.begin, total))
    behind, target = (code.add(start, n) for n in (count, y.length))
    _copy(low, x, behind, x, target, rest)
    if not paired(x.item):
        _copy(low, y, "0", x, start, y.length)
    else:
        tail = address(low, x, code.add(x.begin, target))
        shift(low, tail, tail, rest, moved)
        here = address(low, x, code.add(x.begin, start))
        shift(low, here, address(low, y, y.begin), y.length, by)
    low.work += 100
    return replace(x, length=total)


def _splice_inside(low: Lowering, x: Listed, start: str, count: str, y: Listed) -> tuple[str, str]:
    """The same of what is in the items; (how far the items of ``y`` are from where they were, how far those behind them)."""
    code, mine, given = low.code, contents(low, x), contents(low, y)
    end = code.add(mine.begin, mine.length)

    def edge(at: str) -> str:
        """Where the item ``at`` begins, which may be the end."""
        left = code.do(f"sub i64 {x.length}, {at}")
        (begin,) = some(low, left, lambda: (bounds(low, x, code.add(x.begin, at))[0],))
        there = code.do(f"icmp sgt i64 {left}, 0")
        return code.do(f"select i1 {there}, i64 {begin}, i64 {end}")

    first, last = edge(start), edge(code.add(start, count))
    gone = code.do(f"sub i64 {last}, {first}")
    inner = replace(mine, item=inside(x.item))
    splice(low, inner, code.do(f"sub i64 {first}, {mine.begin}"), gone, given)
    return code.do(f"sub i64 {first}, {given.begin}"), code.do(f"sub i64 {given.length}, {gone}")


def _copy(low: Lowering, source: Listed, at: str, x: Listed, to: str, count: str) -> None:
    """Copy so many items as they stand."""
    code = low.code
    here = address(low, source, code.add(source.begin, at))
    there = address(low, x, code.add(x.begin, to))
    nbytes = code.multiply(count, item_bytes(x.item))
    code.declare("llvm.memmove.p0.p0.i64", "void {}(ptr, ptr, i64, i1)")
    code.line(f"call void @llvm.memmove.p0.p0.i64(ptr {there}, ptr {here}, i64 {nbytes}, i1 false)")  # fmt: skip
