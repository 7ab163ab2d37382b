"""The ops of lists for ``buffers``: each is given and gives (buffer, length) for a list."""

from __future__ import annotations

from typing import Any

import torch

from ..graph.ir import Graph, Node, Value
from ..graph.types import INT, ListType, TensorType
from .buffers import Buffers, Capacity
from .expansion import Parts
from .lengths import slice_bounds


def _item(node: Node, at: int = 0) -> Any:
    """The type of an item among the outputs."""
    return node.outputs[at].type


def _new(e: Buffers, node: Node) -> list[Parts]:
    return [(e.zeros(e.row_type(_item(node)), 0), 0)]


def _of(e: Buffers, node: Node, *items: Any) -> list[Parts]:
    row = e.row_type(_item(node))
    if not items:
        return _new(e, node)
    kind = TensorType(row.dtype, (len(items), *row.shape), row.device)
    made = e.emit("aten.cat.default", [e.row(v, row) for v in items], 0, type=kind)
    e.rows[made] = Capacity(None, len(items))
    return [(made, len(items))]


def _push(e: Buffers, node: Node, items: Parts, v: Any) -> list[Parts]:
    buffer, n = items
    base, more = e.known(buffer)
    row = e.row(v, e.row_of(buffer))
    longer = e.joined(buffer, row, Capacity(base, more + 1))
    if not (base is None and n == more):
        longer = e.put(longer, n, row)
    return [(longer, e.number("py.add", n, 1))]


def _get(e: Buffers, node: Node, items: Parts, i: Any) -> list[Parts]:
    buffer, n = items
    return [(e.taken(buffer, e.index(n, i), _item(node)),)]


def _set(e: Buffers, node: Node, items: Parts, i: Any, v: Any) -> list[Parts]:
    buffer, n = items
    at = e.index(n, i)
    return [(e.put(buffer, at, e.row(v, e.row_of(buffer))), n)]


def _pop(e: Buffers, node: Node, items: Parts, i: Any) -> list[Parts]:
    buffer, n = items
    left = e.number("py.sub", n, 1)
    e.check(e.number("py.gt", n, 0) if isinstance(n, Value) else n > 0, "IndexError", "pop from empty list")  # fmt: skip
    if isinstance(i, int) and i == -1:
        return [(e.shorter(buffer, 1), left), (e.taken(buffer, left, _item(node, 1)),)]
    at = e.index(n, i, "pop index out of range")
    item = e.taken(buffer, at, _item(node, 1))
    rest = e.shorter(buffer, 1)
    places = e.positions(rest)
    after = e.pointwise("aten.ge.Scalar", places, at, dtype=torch.bool)
    moved = e.pointwise("aten.add.Tensor", places, e.counted(after))
    return [(e.gathered(buffer, moved, e.known(rest)), left), (item,)]


def _insert(e: Buffers, node: Node, items: Parts, i: Any, v: Any) -> list[Parts]:
    """Rows from the place on move by one; the new one goes into the gap."""
    buffer, n = items
    at, _, _ = slice_bounds(e, n, i, None, 1)
    longer = e.longer(buffer, 1)
    places = e.positions(longer)
    after = e.pointwise("aten.gt.Scalar", places, at, dtype=torch.bool)
    moved = e.pointwise("aten.sub.Tensor", places, e.counted(after))
    gap = e.gathered(longer, moved, e.known(longer))
    return [(e.put(gap, at, e.row(v, e.row_of(buffer))), e.number("py.add", n, 1))]


def _extend(e: Buffers, node: Node, a: Parts, b: Parts) -> list[Parts]:
    """Both one after the other; the second begins where the items of the first end."""
    rows, other = e.known(a[0]), e.known(b[0])
    total = Capacity(rows.base, rows.more + other.more) if other.base is None else None
    both = e.joined(a[0], b[0], total)
    n = e.number("py.add", a[1], b[1])
    if rows == Capacity(None, a[1]):
        return [(both, n)]
    places = e.positions(both)
    gap = e.number("py.sub", e.size(a[0]), a[1])
    second = e.pointwise("aten.ge.Scalar", places, a[1], dtype=torch.bool)
    moved = e.pointwise("aten.add.Scalar", places, gap)
    last = e.number("py.sub", e.size(both), 1)
    moved = e.pointwise("aten.clamp.default", e.pointwise("aten.where.self", second, moved, places), None, last)  # fmt: skip
    return [(e.gathered(both, moved, e.known(both)), n)]


def _slice(e: Buffers, node: Node, items: Parts, start: Any, stop: Any, step: Any) -> list[Parts]:
    buffer, n = items
    first, length, step = slice_bounds(e, n, start, stop, step)
    if first == 0 and step == 1:
        return [(buffer, length)]
    places = e.pointwise("aten.mul.Scalar", e.positions(buffer), step)
    places = e.pointwise("aten.add.Scalar", places, first)
    last = e.number("py.sub", e.size(buffer), 1)
    places = e.pointwise("aten.clamp.default", places, 0, e.number("py.max", last, 0))
    return [(e.gathered(buffer, places, e.known(buffer)), length)]


def _stack(e: Buffers, node: Node, items: Parts, dtype: Any, shape: Any, device: Any) -> list[Parts]:  # fmt: skip
    return [(e.content(*items),)]


def _concat(e: Buffers, node: Node, items: Parts, dtype: Any, shape: Any, device: Any) -> list[Parts]:  # fmt: skip
    rows = e.content(*items)
    rest = [int(n) for n in rows.type.shape[2:]]
    if 0 in rest:
        raise e.refuse(f"{node.op} of items without elements")
    return [(e.emit("aten.reshape.default", rows, [-1, *rest], type=node.outputs[0].type),)]


def _from_tensor(e: Buffers, node: Node, x: Value) -> list[Parts]:
    static = x.type.shape[0]
    if static is not None:
        e.rows[x] = Capacity(None, static)
    n = static if static is not None else e.emit("py.size", x, 0, type=INT)
    return [(x, n)]


def _reserve(e: Buffers, node: Node, n: Any) -> list[Parts]:
    return [(e.zeros(e.row_type(_item(node)), n), n)]


def _array_write(e: Buffers, node: Node, items: Parts, i: Any, v: Any, limit: Any) -> list[Parts]:
    """A cell beyond the end makes the array longer, with zeros between."""
    buffer, n = items
    row = e.row(v, e.row_of(buffer))
    if limit is not None:
        at = e.within(i, limit, "index out of range for a TensorArray")
        return [(e.put(buffer, at, row), n)]
    end = e.number("py.add", i, 1)
    more = e.number("py.max", e.number("py.sub", end, e.size(buffer)), 0)
    e.check(e.number("py.ge", i, 0), "IndexError", "index out of range for a TensorArray")
    return [(e.put(e.longer(buffer, more), i, row), e.number("py.max", n, end))]


def _array_read(e: Buffers, node: Node, items: Parts, i: Any, *_: Any) -> list[Parts]:
    buffer, n = items
    at = e.within(i, n, "index out of range for a TensorArray")
    return [(e.taken(buffer, at, _item(node)),)]


def _zeros(e: Buffers, node: Node, items: Any) -> list[Parts]:
    buffer, n = items
    return [(e.buffer(buffer, "aten.zeros_like.default", (buffer,), e.known(buffer)), n)]


def _size(e: Buffers, node: Node, items: Parts) -> list[Parts]:
    return [(e.value(items[1], INT),)]


Buffers.rules = {
    "tg.list_new": _new, "tg.list_of": _of, "tg.list_push": _push, "tg.list_get": _get, "tg.list_set": _set, "tg.list_pop": _pop,
    "tg.list_insert": _insert, "tg.list_extend": _extend, "tg.list_slice": _slice, "tg.list_stack": _stack,
    "tg.list_concat": _concat, "tg.list_from_tensor": _from_tensor, "tg.list_reserve": _reserve, "tg.list_size": _size,
    "tg.array_write": _array_write, "tg.array_read": _array_read, "tg.array_stack": _stack, "tg.array_concat": _concat,
    "tg.handle_zeros": _zeros, "tg.identity": lambda e, node, items, *_: [items],
}  # fmt: skip


def buffers(graph: Graph, system: str, capacity: int | None = None) -> Graph:
    """``graph`` without lists; a list among its outputs is one tensor of its items."""
    e = Buffers(graph, system, capacity=capacity).run()
    for out in graph.outputs:
        if isinstance(out.type, ListType):
            e.made.outputs.append(e.content(*e.parts[out]))
        else:
            e.made.outputs += e.values_of(out)
    return e.made
