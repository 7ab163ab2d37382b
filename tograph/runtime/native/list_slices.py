"""Slices of lists in native code, and lists with other items in a slice. Items in a row stay where they are; those of a slice with a step are copied.

A list of lists has what is in its items in one row, in the order of the items, so it has no slices with a step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..graph.ir import Node
from .list_items import item_bytes, paired
from .list_memory import address, copied, either, fresh, reserve
from .values import Decline, Listed

if TYPE_CHECKING:
    from .lower import Lowering

_EVERY = """define internal void @every(ptr %to, i64 %to_step, ptr %from, i64 %from_step, i64 %count, i64 %size) noinline #0 {
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [0, %0], [%next, %loop]
  %source = mul i64 %i, %from_step
  %target = mul i64 %i, %to_step
  %a = getelementptr i8, ptr %from, i64 %source
  %b = getelementptr i8, ptr %to, i64 %target
  call void @llvm.memcpy.p0.p0.i64(ptr %b, ptr %a, i64 %size, i1 false)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def sliced(low: Lowering, node: Node) -> Listed:
    """The items of a slice."""
    base, start, stop, step = node.args
    x = low.operand(base)
    begin, length, step = _span(low, x, start, stop, step)
    if step == 1:
        return replace(x, begin=low.code.add(x.begin, begin), length=length)
    if paired(x.item):
        raise Decline("a slice of a list of lists with a step")
    made = fresh(low, x.item)
    _every(low, reserve(low, made, "0", length), 1, address(low, x, low.code.add(x.begin, begin)), step, length, item_bytes(x.item))  # fmt: skip
    return replace(made, length=length, alias=x.alias)


def spread(low: Lowering, node: Node) -> Listed:
    """A copy of a list with the items of another one, of which there are as many, as its slice: the gradient of a slice."""
    base, start, stop, step, values = node.args
    x, y = low.operand(base), low.operand(values)
    if x.item != y.item or paired(x.item):
        raise Decline("a slice of a list of lists that is replaced")
    begin, length, step = _span(low, x, start, stop, step)
    low.fail(low.code.do(f"icmp ne i64 {length}, {y.length}"))
    made = copied(low, x)
    _every(low, address(low, made, begin), step, address(low, y, y.begin), 1, length, item_bytes(x.item))  # fmt: skip
    return replace(made, alias=either(low.code, x.alias, y.alias))


def _every(low: Lowering, to: str, to_step: int, source: str, step: int, count: str, size: int) -> None:  # fmt: skip
    """Copy so many items of ``size`` bytes; steps are in items."""
    low.globals["every"] = _EVERY
    low.code.declare("llvm.memcpy.p0.p0.i64", "void {}(ptr, ptr, i64, i1)")
    low.code.line(f"call void @every(ptr {to}, i64 {to_step * size}, ptr {source}, i64 {step * size}, i64 {count}, i64 {size})")  # fmt: skip
    low.work += 100


def _span(low: Lowering, x: Listed, start: Any, stop: Any, step: Any) -> tuple[str, str, int]:
    """(the first item of a slice, how many it has, its step)"""
    code = low.code
    step = 1 if step is None else step
    if type(step) is not int or not step:
        raise Decline("a slice of a list with a step that only the run knows")
    least, most = ("0", x.length) if step > 0 else ("-1", code.add(x.length, "-1"))
    first, last = (least, most) if step > 0 else (most, least)
    begin = clamped(low, start, first, most, least, x.length)
    end = clamped(low, stop, last, most, least, x.length)
    ends = (end, begin) if step > 0 else (begin, end)
    span = code.do(f"sub i64 {ends[0]}, {ends[1]}")
    if abs(step) > 1:
        span = code.do(f"sdiv i64 {code.add(span, str(abs(step) - 1))}, {abs(step)}")
    return begin, _larger(low, span, "0"), step


def clamped(
    low: Lowering, at: Any, default: str, most: str, least: str = "0", length: str = ""
) -> str:
    """One end of a slice as Python takes it: from the end of ``length`` (else ``most``) when negative, and within ``least`` and ``most``."""
    if at is None:
        return default
    code = low.code
    given = low.numbers.number(low.register(low.operand(at)), "i64")
    wrapped = code.do(f"add i64 {given}, {length or most}")
    place = code.do(f"select i1 {code.do(f'icmp slt i64 {given}, 0')}, i64 {wrapped}, i64 {given}")
    code.declare("llvm.smin.i64", "i64 {}(i64, i64)")
    return code.do(f"call i64 @llvm.smin.i64(i64 {_larger(low, place, least)}, i64 {most})")


def _larger(low: Lowering, a: str, b: str) -> str:
    low.code.declare("llvm.smax.i64", "i64 {}(i64, i64)")
    return low.code.do(f"call i64 @llvm.smax.i64(i64 {a}, i64 {b})")
