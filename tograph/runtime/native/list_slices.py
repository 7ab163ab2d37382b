"""Slices of lists in native code. Items in a row stay where they are; those of a slice with a step are copied.

A list of lists has what is in its items in one row, in the order of the items, so it has no slices with a step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..graph.ir import Node
from .list_items import item_bytes, paired
from .list_memory import address, fresh, reserve
from .values import Decline, Listed

if TYPE_CHECKING:
    from .lower import Lowering

_EVERY = """define internal void @every(ptr %to, ptr %from, i64 %count, i64 %step, i64 %size) noinline #0 {
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [0, %0], [%next, %loop]
  %source = mul i64 %i, %step
  %target = mul i64 %i, %size
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
    x, code = low.operand(base), low.code
    step = 1 if step is None else step
    if type(step) is not int or not step:
        raise Decline("a slice of a list with a step that only the run knows")
    if step != 1:
        return _stepped(low, x, start, stop, step)
    begin, end = clamped(low, start, "0", x.length), clamped(low, stop, x.length, x.length)
    length = _larger(low, code.do(f"sub i64 {end}, {begin}"), "0")
    return replace(x, begin=code.add(x.begin, begin), length=length)


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


def _stepped(low: Lowering, x: Listed, start: Any, stop: Any, step: int) -> Listed:
    """Every ``step``-th item from ``start`` on, before ``stop``, in memory of their own."""
    if paired(x.item):
        raise Decline("a slice of a list of lists with a step")
    code = low.code
    least, most = ("0", x.length) if step > 0 else ("-1", code.add(x.length, "-1"))
    first, last = (least, most) if step > 0 else (most, least)
    begin = clamped(low, start, first, most, least, x.length)
    end = clamped(low, stop, last, most, least, x.length)
    ends = (end, begin) if step > 0 else (begin, end)
    span = code.add(code.do(f"sub i64 {ends[0]}, {ends[1]}"), str(abs(step) - 1))
    length = _larger(low, code.do(f"sdiv i64 {span}, {abs(step)}"), "0")
    made, size = fresh(low, x.item), item_bytes(x.item)
    place = reserve(low, made, "0", length)
    low.globals["every"] = _EVERY
    code.declare("llvm.memcpy.p0.p0.i64", "void {}(ptr, ptr, i64, i1)")
    source = address(low, x, code.add(x.begin, begin))
    code.line(f"call void @every(ptr {place}, ptr {source}, i64 {length}, i64 {step * size}, i64 {size})")  # fmt: skip
    low.work += 100
    return replace(made, length=length, alias=x.alias)
