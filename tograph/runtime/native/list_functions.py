"""Functions of native code that write the items of lists: a program does so at many places, and LLVM takes long for copies of what they do.

Each is for a number of buffers, those of items that are lists before those of what is in them, and for the bytes of an item in the last one; it
gives whether there was memory. ``to`` are the places of the buffers of the list that changes, ``from`` those of the list whose items come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .list_items import PAIR, depth, inside, item_bytes, paired

if TYPE_CHECKING:
    from ..graph.types import Type
    from .lower import Lowering

# Copy pairs whose contents are ``by`` further on; and where the item ``at`` of a list of lists begins, which may be the end of its last one.
_COMMON = f"""define internal void @shift(ptr %to, ptr %from, i64 %pairs, i64 %by) noinline #0 {{
  %count = mul i64 %pairs, 2
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [0, %0], [%next, %loop]
  %a = getelementptr i64, ptr %from, i64 %i
  %b = getelementptr i64, ptr %to, i64 %i
  %x = load i64, ptr %a
  %y = add i64 %x, %by
  store i64 %y, ptr %b
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}
define internal i64 @edge(ptr %place, i64 %begin, i64 %length, i64 %at) noinline #0 {{
  %any = icmp sgt i64 %length, 0
  br i1 %any, label %some, label %none
some:
  %data = load ptr, ptr %place
  %inside = icmp slt i64 %at, %length
  %last = sub i64 %length, 1
  %here = select i1 %inside, i64 %at, i64 %last
  %index = add i64 %begin, %here
  %offset = mul i64 %index, {PAIR}
  %pair = getelementptr i8, ptr %data, i64 %offset
  %behind = getelementptr i8, ptr %pair, i64 8
  %side = select i1 %inside, ptr %pair, ptr %behind
  %found = load i64, ptr %side
  ret i64 %found
none:
  ret i64 0
}}
"""
_APPEND = """define internal i1 @append{n}_{size}(ptr %table, i1 %stays, {to}, i64 %at, {come}, i64 %begin, i64 %length) noinline #0 {{
  %data = load ptr, ptr %from0
  %away = mul i64 %begin, {bytes}
  %source = getelementptr i8, ptr %data, i64 %away
{inner}  %end = add i64 %at, %length
  %used = mul i64 %at, {bytes}
  %need = mul i64 %end, {bytes}
  %block = call ptr @room(ptr %table, ptr %to0, i64 %used, i64 %need, i1 %stays)
  %lost = icmp eq ptr %block, null
  br i1 %lost, label %none, label %write
write:
  %place = getelementptr i8, ptr %block, i64 %used
{copy}  ret i1 true
none:
  ret i1 false
}}
"""
_APPEND_INNER = """  %behind = call i64 @edge(ptr %to0, i64 0, i64 %at, i64 %at)
  %first = call i64 @edge(ptr %from0, i64 %begin, i64 %length, i64 0)
  %last = call i64 @edge(ptr %from0, i64 %begin, i64 %length, i64 %length)
  %many = sub i64 %last, %first
  %by = sub i64 %behind, %first
  %held = call i1 @append{m}_{size}(ptr %table, i1 %stays, {to}, i64 %behind, {come}, i64 %first, i64 %many)
  br i1 %held, label %pairs, label %none
pairs:
"""
_SPLICE = """define internal i1 @splice{n}_{size}(ptr %table, i1 %stays, {to}, i64 %begin, i64 %length, i64 %start, i64 %count, {come}, i64 %at, i64 %many) noinline #0 {{
  %behind = add i64 %start, %count
  %rest = sub i64 %length, %behind
  %target = add i64 %start, %many
  %total = add i64 %target, %rest
{inner}  %old_end = add i64 %begin, %length
  %new_end = add i64 %begin, %total
  %used = mul i64 %old_end, {bytes}
  %need = mul i64 %new_end, {bytes}
  %block = call ptr @room(ptr %table, ptr %to0, i64 %used, i64 %need, i1 %stays)
  %lost = icmp eq ptr %block, null
  br i1 %lost, label %none, label %write
write:
  %from_away = mul i64 %begin, {bytes}
  %own = getelementptr i8, ptr %block, i64 %from_away
  %behind_bytes = mul i64 %behind, {bytes}
  %target_bytes = mul i64 %target, {bytes}
  %rest_bytes = mul i64 %rest, {bytes}
  %tail = getelementptr i8, ptr %own, i64 %behind_bytes
  %moved = getelementptr i8, ptr %own, i64 %target_bytes
  call void @llvm.memmove.p0.p0.i64(ptr %moved, ptr %tail, i64 %rest_bytes, i1 false)
  %start_bytes = mul i64 %start, {bytes}
  %place = getelementptr i8, ptr %own, i64 %start_bytes
  %data = load ptr, ptr %from0
  %away = mul i64 %at, {bytes}
  %source = getelementptr i8, ptr %data, i64 %away
{copy}  ret i1 true
none:
  ret i1 false
}}
"""
_SPLICE_INNER = """  %all_first = call i64 @edge(ptr %to0, i64 %begin, i64 %length, i64 0)
  %all_last = call i64 @edge(ptr %to0, i64 %begin, i64 %length, i64 %length)
  %gone_first = call i64 @edge(ptr %to0, i64 %begin, i64 %length, i64 %start)
  %gone_last = call i64 @edge(ptr %to0, i64 %begin, i64 %length, i64 %behind)
  %first = call i64 @edge(ptr %from0, i64 %at, i64 %many, i64 0)
  %last = call i64 @edge(ptr %from0, i64 %at, i64 %many, i64 %many)
  %all = sub i64 %all_last, %all_first
  %where = sub i64 %gone_first, %all_first
  %gone = sub i64 %gone_last, %gone_first
  %come = sub i64 %last, %first
  %by = sub i64 %gone_first, %first
  %further = sub i64 %come, %gone
  %held = call i1 @splice{m}_{size}(ptr %table, i1 %stays, {to}, i64 %all_first, i64 %all, i64 %where, i64 %gone, {come}, i64 %first, i64 %come)
  br i1 %held, label %pairs, label %none
pairs:
"""
_COPY = """  %bytes = mul i64 {many}, {bytes}
  call void @llvm.memmove.p0.p0.i64(ptr %place, ptr %source, i64 %bytes, i1 false)
"""
_SHIFT = "  call void @shift(ptr %place, ptr %source, i64 {many}, i64 %by)\n"
_SHIFT_TAIL = "  call void @shift(ptr %moved, ptr %moved, i64 %rest, i64 %further)\n"


def append(low: Lowering, item: Type) -> str:
    """A function (table, stays, to.., at, from.., begin, length) that writes items behind the item ``at`` of a list, which ends there."""
    return _function(low, item, "append", _APPEND, _APPEND_INNER, "%length", "")


def splice(low: Lowering, item: Type) -> str:
    """A function (table, stays, to.., begin, length, start, count, from.., at, many) that puts items in the place of others."""
    return _function(low, item, "splice", _SPLICE, _SPLICE_INNER, "%many", _SHIFT_TAIL)


def _function(
    low: Lowering, item: Type, name: str, text: str, inner: str, many: str, tail: str
) -> str:
    low.globals["list functions"] = _COMMON
    low.code.declare("llvm.memmove.p0.p0.i64", "void {}(ptr, ptr, i64, i1)")
    n, leaf = depth(item), item
    while paired(leaf):
        leaf = inside(leaf)
    size = item_bytes(leaf)
    for m in range(1, n + 1):
        nested = {
            "m": m - 1,
            "size": size,
            "to": _places("to", m, 1),
            "come": _places("from", m, 1),
        }
        copy = _COPY.format(many=many, bytes=size) if m == 1 else tail + _SHIFT.format(many=many)
        low.globals[f"{name}{m}_{size}"] = text.format(
            n=m,
            size=size,
            bytes=size if m == 1 else PAIR,
            to=_places("to", m),
            come=_places("from", m),
            inner=inner.format(**nested) if m > 1 else "",
            copy=copy,
        )
    return f"{name}{n}_{size}"


def _places(name: str, n: int, first: int = 0) -> str:
    return ", ".join(f"ptr %{name}{i}" for i in range(first, n))
