"""Lists and optionals as tensors with room for all items: one handler for each op of ``bounding``.

An item is written by ``select_scatter`` and read by ``select``; the plan does the first in place where nobody reads
the old list any more. Content of a new list's memory is undefined, except in graphs with TensorArrays, whose
unwritten cells are zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from ..graph.ir import Node, Value
from ..graph.types import BOOL, INT, ListType, ScalarType, TensorType, Type
from ..kernels.loop_ir import Unsupported
from .bounding import Bounding, Handler, Rep, adder
from .forms import Form, Items, Maybe, Nothing, Plain, empty_of, form_of

HANDLERS: dict[str, Handler] = {}
handler = adder(HANDLERS)


def _list(b: Bounding, x: Any, item: Form | None = None) -> tuple[Items, list[Value], Any]:
    """(form, memory, number of items) of a list. ``item``: of what is written into it."""
    rep = b.of(x)
    if not isinstance(rep.form, Items):
        raise Unsupported(f"a list of type {x.type}")
    if item is not None and isinstance(rep.form.item, Nothing):
        form = replace(rep.form, item=item)
        rep = Rep(form, b.fit(rep, form))
    return rep.form, rep.parts[:-1], rep.parts[-1]


def _new(b: Bounding, node: Node, zero: bool = False) -> tuple[Items, list[Value]]:
    kind = node.outputs[0].type
    if kind == ListType(None):
        return empty_of(kind, b.capacity, b.device), []
    form = form_of(kind, b.capacity, b.device)
    assert isinstance(form, Items)
    return form, [(b.zeros if zero else b.undefined)(t) for t in form.types[:-1]]


def _write(b: Bounding, form: Items, memory: Sequence[Value], i: Any, rep: Rep) -> list[Value]:
    """The memory with an item at a position."""
    out = []
    for x, part, kind in zip(memory, b.fit(rep, form.item), form.item.types, strict=True):
        if isinstance(kind, ScalarType):
            part = b.emit("aten.scalar_tensor.default", (part,), b.tensor(kind.dtype), dtype=kind.dtype, device=torch.device(b.device))  # fmt: skip
        out.append(b.emit("aten.select_scatter.default", (x, part, 0, i), x.type))
    return out


def _item(b: Bounding, form: Items, memory: Sequence[Value], i: Any) -> Rep:
    """The item at a position that is in range."""
    parts = []
    for x, kind in zip(memory, form.item.types):
        part = b.emit("aten.select.int", (x, 0, i), _tensor_type(b, kind))
        if isinstance(kind, ScalarType):
            part = b.emit(f"py.{kind.kind.__name__}", (part,), kind)
        parts.append(part)
    return Rep(form.item, parts)


def _tensor_type(b: Bounding, kind: Type) -> TensorType:
    return b.tensor(kind.dtype) if isinstance(kind, ScalarType) else kind


# ---- making


@handler("tg.list_new")
def _list_new(b: Bounding, node: Node) -> list[Rep]:
    form, memory = _new(b, node, zero=True) if b.arrays else _new(b, node)
    return [Rep(form, [*memory, 0])]


@handler("tg.list_reserve")
def _list_reserve(b: Bounding, node: Node) -> list[Rep]:
    form, memory = _new(b, node, zero=True)
    count = b.plain(node.args[0])
    if isinstance(count, int) and count > form.capacity:
        raise Unsupported(f"an array of {count} cells")
    return [Rep(form, [*memory, b.room(count, form.capacity + 1)])]


@handler("tg.list_of")
def _list_of(b: Bounding, node: Node) -> list[Rep]:
    form, memory = _new(b, node, zero=b.arrays)
    for i, v in enumerate(node.args):
        memory = _write(b, form, memory, i, b.of(v))
    return [Rep(form, [*memory, len(node.args)])]


@handler("tg.list_from_tensor")
def _from_tensor(b: Bounding, node: Node) -> list[Rep]:
    form = form_of(node.outputs[0].type, b.capacity, b.device)
    rep = b.of(node.args[0])
    if not isinstance(form, Items) or not isinstance(form.item, Plain):
        raise Unsupported("a list of parts of a tensor")
    whole = b.padded(rep.value, rep.form.type, form.types[0])
    return [Rep(form, [whole, rep.size(0)])]


# ---- changing


@handler("tg.list_push")
def _push(b: Bounding, node: Node) -> list[Rep]:
    form, memory, count = _list(b, node.args[0], b.of(node.args[1]).form)
    place = b.room(count, form.capacity)
    return [Rep(form, [*_write(b, form, memory, place, b.of(node.args[1])), b.number("py.add", count, 1)])]  # fmt: skip


@handler("tg.list_pop")
def _pop(b: Bounding, node: Node) -> list[Rep]:
    form, memory, count = _list(b, node.args[0])
    if b.plain(node.args[1]) not in (-1, None):
        raise Unsupported("an item popped from the middle of a list")
    last = b.position(-1, count)
    return [Rep(form, [*memory, last]), _item(b, form, memory, last)]


@handler("tg.list_set")
def _set(b: Bounding, node: Node) -> list[Rep]:
    form, memory, count = _list(b, node.args[0])
    place = b.position(b.plain(node.args[1]), count)
    return [Rep(form, [*_write(b, form, memory, place, b.of(node.args[2])), count])]


@handler("tg.array_write")
def _array_write(b: Bounding, node: Node) -> list[Rep]:
    form, memory, count = _list(b, node.args[0], b.of(node.args[2]).form)
    i, limit = b.plain(node.args[1]), b.plain(node.args[3])
    if limit is not None:
        i = b.emit("py.cell", (i, limit), INT)
    place = b.room(b.emit("py.cell", (i, 1 << 62), INT), form.capacity)
    after = b.number("py.add", place, 1)
    size = count if limit is not None else b.emit("py.max", (count, after), INT)
    return [Rep(form, [*_write(b, form, memory, place, b.of(node.args[2])), size])]


@handler("tg.handle_zeros")
def _handle_zeros(b: Bounding, node: Node) -> list[Rep]:
    rep = b.of(node.args[0])
    parts = [b.zeros(t) if isinstance(t, TensorType) and t.dtype.is_floating_point else p for p, t in zip(rep.parts, rep.form.types)]  # fmt: skip
    return [Rep(rep.form, parts)]


@handler("tg.handle_add")
def _handle_add(b: Bounding, node: Node) -> list[Rep]:
    one, other = map(b.of, node.args)
    if one.form != other.form:
        raise Unsupported("a sum of lists of different capacity")
    parts = [
        b.emit("aten.add.Tensor", (x, y), t) if isinstance(t, TensorType) and t.dtype.is_floating_point else x
        for x, y, t in zip(one.parts, other.parts, one.form.types)
    ]  # fmt: skip
    return [Rep(one.form, parts)]


# ---- reading


@handler("tg.list_get")
def _get(b: Bounding, node: Node) -> list[Rep]:
    form, memory, count = _list(b, node.args[0])
    return [_item(b, form, memory, b.position(b.plain(node.args[1]), count))]


@handler("tg.array_read")
def _array_read(b: Bounding, node: Node) -> list[Rep]:
    form, memory, count = _list(b, node.args[0])
    place = b.emit("py.cell", (b.plain(node.args[1]), count), INT)
    return [_item(b, form, memory, place)]


@handler("tg.list_size")
def _size(b: Bounding, node: Node) -> list[Rep]:
    return [Rep(Plain(INT), [_list(b, node.args[0])[2]])]


@handler("tg.list_stack", "tg.array_stack")
def _stack(b: Bounding, node: Node) -> list[Rep]:
    form, memory, count = _list(b, node.args[0])
    if not isinstance(form.item, Plain):
        raise Unsupported("a stack of items of different sizes")
    whole, dtype = memory[0], node.args[1]
    if dtype is not None and whole.type.dtype != dtype:
        whole = b.emit(
            "aten._to_copy.default", (whole,), b.tensor(dtype, *whole.type.shape), dtype=dtype
        )
    return [b.sized(whole, {0: count})]


@handler("tg.list_concat", "tg.array_concat")
def _concat(b: Bounding, node: Node) -> list[Rep]:
    form, memory, count = _list(b, node.args[0])
    if not isinstance(form.item, Plain) or not form.item.type.shape:
        raise Unsupported("items of different sizes in one tensor")
    first, *rest = form.item.type.shape
    kind = b.tensor(form.item.type.dtype, form.capacity * first, *rest)
    whole = b.emit("aten.view.default", (memory[0], list(kind.shape)), kind)
    return [b.sized(whole, {0: b.number("py.mul", count, first)})]


@handler("tg.list_split_like")
def _split_like(b: Bounding, node: Node) -> list[Rep]:
    """The items of a tensor that is as the one which ``_concat`` makes of a list."""
    form, _, count = _list(b, node.args[1])
    x = b.of(node.args[0])
    if not isinstance(form.item, Plain) or not form.item.type.shape:
        raise Unsupported("items of different sizes cut from one tensor")
    first, *rest = form.item.type.shape
    most = x.form.type.shape[0]
    if most > form.capacity * first or not b.same(x.size(0), b.number("py.mul", count, first)):
        raise Unsupported("items cut from a tensor of another size")
    kind = b.tensor(x.form.type.dtype, form.capacity * first, *rest)
    form = replace(form, item=Plain(replace(form.item.type, dtype=kind.dtype)))
    whole = b.padded(x.parts[0], x.form.type, kind)
    shape = [form.capacity, first, *rest]
    return [Rep(form, [b.emit("aten.view.default", (whole, shape), b.tensor(kind.dtype, *shape)), count])]  # fmt: skip


# ---- optionals


@handler("tg.optional_some")
def _some(b: Bounding, node: Node) -> list[Rep]:
    rep = b.of(node.args[0])
    return [Rep(Maybe(rep.form), [*rep.parts, True])]


@handler("tg.optional_none")
def _none(b: Bounding, node: Node) -> list[Rep]:
    try:
        form = form_of(node.outputs[0].type, b.capacity, b.device)
    except Unsupported:
        form = empty_of(node.outputs[0].type, b.capacity, b.device)
    assert isinstance(form, Maybe)
    parts = [b.undefined(t) if isinstance(t, TensorType) else t.kind(0) for t in form.item.types]
    return [Rep(form, [*parts, False])]


@handler("tg.optional_has")
def _has(b: Bounding, node: Node) -> list[Rep]:
    return [Rep(Plain(BOOL), [b.of(node.args[0]).parts[-1]])]


@handler("tg.optional_get")
def _optional_get(b: Bounding, node: Node) -> list[Rep]:
    rep = b.of(node.args[0])
    assert isinstance(rep.form, Maybe)
    has = rep.parts[-1]
    if has is not True:
        absent = b.emit("py.not", (has,), BOOL)
        b.position(b.emit("py.int", (absent,), INT), 1)
    return [Rep(rep.form.item, rep.parts[:-1])]
