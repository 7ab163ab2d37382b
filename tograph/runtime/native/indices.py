"""Indices and slices of a dim as Python takes them: counted from the end when negative.

An index that is out of range declines, a slice is cut to what there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..graph.ir import Value
from ..kernels.loop_ir import LONGEST, Open, bound
from .values import Decline

if TYPE_CHECKING:
    from .lower import Lowering

LAST = (1 << 63) - 1  # the end of a slice that has none


def index_of(low: Lowering, at, n: int | Open) -> str:
    """An index into a dim of ``n``, counted from the end when negative; out of range fails."""
    if isinstance(at, int) and not isinstance(n, Open):
        if not -n <= at < n:
            raise Decline("an index that is out of range")
        return str(at % n)
    count = low.sizes.text(n)
    given = low.numbers.number(low.register(low.operand(at)), "i64")
    if (given, count) in low.found:
        return low.found[given, count]
    code = low.code
    wrapped = code.do(f"add i64 {given}, {count}")
    text = code.do(f"select i1 {code.do(f'icmp slt i64 {given}, 0')}, i64 {wrapped}, i64 {given}")
    low.fail(code.do(f"icmp uge i64 {text}, {count}"))
    low.found[given, count] = text
    return text


def slice_of(
    low: Lowering, n: int | Open, start: Any, stop: Any, step: Any
) -> tuple[str, int | Open]:
    """(the first element, the number of elements) of a slice of a dim of ``n``."""
    if isinstance(step, Value):
        raise Decline("a step that is known only at run time")
    start = 0 if start is None else start
    if not isinstance(n, Open) and not isinstance(start, Value) and not isinstance(stop, Value):
        first, last, _ = slice(start, stop, step).indices(n)
        return str(first), len(range(first, last, step))
    key = (
        n,
        *(low.register(low.operand(a)).text for a in (start, LAST if stop is None else stop)),
        step,
    )
    if key not in low.found:
        low.found[key] = _slice_of(low, n, start, LAST if stop is None else stop, step)
    return low.found[key]


def place_of(low: Lowering, n: int | Open, start: Any, length: int, step: int) -> str:
    """The first element of a slice that is known to have ``length`` elements; inside of the dim, whatever the run gives."""
    first = _clamped(low, start, n)
    span = (length - 1) * step + 1 if length else 0
    if first == "0" or (isinstance(start, int) and not isinstance(n, Open)):
        return first
    code = low.code
    code.declare("llvm.smin.i64", "i64 {}(i64, i64)")
    last = str(n - span) if not isinstance(n, Open) else code.do(f"sub i64 {low.sizes.text(n)}, {span}")  # fmt: skip
    return code.do(f"call i64 @llvm.smin.i64(i64 {first}, i64 {last})")


def _slice_of(
    low: Lowering, n: int | Open, start: Any, stop: Any, step: int
) -> tuple[str, int | Open]:
    code = low.code
    first, last = _clamped(low, start, n), _clamped(low, stop, n)
    if first == "0" and step == 1 and isinstance(n, Open) and last == low.sizes.text(n):
        return first, n
    length = code.do(f"sub nsw i64 {last}, {first}")
    if first != "0":
        code.declare("llvm.smax.i64", "i64 {}(i64, i64)")
        length = code.do(f"call i64 @llvm.smax.i64(i64 {length}, i64 0)")
    if step != 1:
        length = code.do(f"udiv i64 {code.do(f'add nsw i64 {length}, {step - 1}')}, {step}")
    most = _most(n, start, stop, step)
    if most != 1 or not isinstance(n, Open):  # what is left of one element is as often none
        return first, low.sizes.new(length, most)
    # One element at the end of an open dimension: it is broadcast as one, and without it the host has the empty tensor.
    low.fail(code.do(f"icmp ne i64 {length}, 1"))
    return first, 1


def _most(n: int | Open, start: Any, stop: Any, step: int) -> int:
    """The most elements that a slice has: parts of a dimension without a bound have one where both ends are counted from one side."""
    first = start if type(start) is int else None
    end = stop if type(stop) is int else None
    found = [bound(n)]
    if first is not None and first < 0 and end == LAST:
        found.append(-first)
    elif first is not None and end is not None and (first < 0) == (end < 0):
        found.append(max(end - first, 0))
    elif end is not None and end >= 0:
        found.append(end)
    most = min(found)
    return most if most >= LONGEST else -(-most // step)


def _clamped(low: Lowering, at: Any, n: int | Open) -> str:
    """A bound of a slice: counted from the end when negative, and then brought into 0..n."""
    if at == 0 and not isinstance(at, Value):
        return "0"
    if isinstance(at, int) and at > 0 and not isinstance(n, Open):
        return str(min(at, n))
    code, count = low.code, low.sizes.text(n)
    if isinstance(at, int) and at >= bound(n):
        return count
    text = low.numbers.number(low.register(low.operand(at)), "i64")
    wrapped = code.do(f"add i64 {text}, {count}")
    text = code.do(f"select i1 {code.do(f'icmp slt i64 {text}, 0')}, i64 {wrapped}, i64 {text}")
    for name, limit in (("smax", "0"), ("smin", count)):
        code.declare(f"llvm.{name}.i64", "i64 {}(i64, i64)")
        text = code.do(f"call i64 @llvm.{name}.i64(i64 {text}, i64 {limit})")
    return text
