"""Lists as ONNX sequences: one entry for each op of lists, as in ``onnx_ops``.

What ONNX has no op for is a ``Loop`` whose state is a sequence. An index out of range is an error of the runtime, as it
is one in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..graph.ir import Node, Value
from ..graph.types import ListType, TensorType
from .onnx_ops import Entry

TABLE: dict[str, Entry] = {}


def entry(*names: str) -> Callable[[Entry], Entry]:
    def add(function: Entry) -> Entry:
        TABLE.update(dict.fromkeys((f"tg.{name}" for name in names), function))
        return function

    return add


def _dtype(node: Node) -> torch.dtype:
    """The dtype of the items of the list that a node gives or takes."""
    kinds = [v.type for v in (*node.outputs, *node.inputs) if isinstance(v.type, ListType)]
    found = [k.element.dtype for k in kinds if k.element is not None]
    return found[0] if found else torch.float32


def _shape(w: Any, kind: Any) -> list[int]:
    """The shape of an item, for one that nobody wrote."""
    shape = kind.element.shape if isinstance(kind.element, TensorType) else ()
    if None in shape:
        raise w.error("an unwritten cell of a size that only the run knows")
    return list(shape)


def _empty(w: Any, dtype: torch.dtype) -> str:
    name = w.fresh("list")
    w.nodes.append(w.onnx.helper.make_node("SequenceEmpty", [], [name], dtype=w.element(dtype)))
    w.dtypes[name] = dtype
    return name


def _length(w: Any, items: str) -> str:
    return w.emit("SequenceLength", items, dtype=torch.int64)


def _at(w: Any, items: str, i: str) -> str:
    return w.emit("SequenceAt", items, i)


def _index(w: Any, i: Any) -> str:
    name = w.value(i, torch.int64)
    return w.emit("Reshape", name, w.constant([])) if isinstance(i, Value) else name


def _place(w: Any, items: str, i: Any) -> str:
    """An index from either end, counted from the front."""
    at = _index(w, i)
    if isinstance(i, int) and i >= 0:
        return at
    back = w.emit("Add", at, _length(w, items))
    return w.emit("Where", w.emit("Less", at, w.constant(0), dtype=torch.bool), back, at, dtype=torch.int64)  # fmt: skip


def built(w: Any, kind: Any, start: str, trips: str, step: Callable[[Any, str, str], str]) -> str:
    """A sequence that begins as ``start`` and becomes ``step(writer, i, sequence)``, ``trips`` times."""
    inner = type(w)(w.onnx, w)
    inner.at = w.at
    trip, going, state = (inner.fresh(n) for n in ("trip", "going", "list"))
    dtype = w.dtypes[start]
    inner.dtypes.update({trip: torch.int64, going: torch.bool, state: dtype})
    made = inner.emit("Identity", step(inner, trip, state))
    again = inner.emit("Identity", going)
    declare = w.onnx.helper.make_tensor_value_info
    given = [declare(trip, w.element(torch.int64), []), declare(going, w.element(torch.bool), []), inner.info(state, kind)]  # fmt: skip
    outs = [declare(again, w.element(torch.bool), []), inner.info(made, kind)]
    body = w.onnx.helper.make_graph(inner.nodes, w.fresh("items"), given, outs)
    out = w.fresh("list")
    w.nodes.append(w.onnx.helper.make_node("Loop", [trips, "", start], [out], body=body))
    w.dtypes[out] = dtype
    return out


@entry("list_new")
def _new(w, node):
    return _empty(w, _dtype(node))


@entry("list_of")
def _of(w, node, *items):
    dtype = _dtype(node)
    return w.emit("SequenceConstruct", *(w.value(v, dtype) for v in items), dtype=dtype) if items else _empty(w, dtype)  # fmt: skip


@entry("list_push")
def _push(w, node, items, v):
    return w.emit("SequenceInsert", w.value(items), w.value(v, _dtype(node)))


@entry("list_insert")
def _insert(w, node, items, i, v):
    """An index beyond an end is that end."""
    name = w.value(items)
    n = _length(w, name)
    at = w.emit("Max", w.emit("Min", _index(w, i), n), w.emit("Neg", n))
    return w.emit("SequenceInsert", name, w.value(v, _dtype(node)), at)


@entry("list_get", "array_read")
def _get(w, node, items, i, *_):
    return _at(w, w.value(items), _index(w, i))


@entry("list_set", "array_write")
def _set(w, node, items, i, v, limit=0):
    name = w.value(items)
    at = _place(w, name, i) if node.op == "tg.list_set" else _index(w, i)
    if limit is None:  # cells up to this one
        more = w.emit("Sub", w.emit("Add", at, w.constant(1)), _length(w, name))
        zero = w.constant(torch.zeros(_shape(w, node.outputs[0].type)).tolist(), _dtype(node))
        grown = w.emit("Max", more, w.constant(0))
        name = built(w, node.outputs[0].type, name, grown, lambda inner, k, s: inner.emit("SequenceInsert", s, zero))  # fmt: skip
    return w.emit("SequenceInsert", w.emit("SequenceErase", name, at), w.value(v, _dtype(node)), at)  # fmt: skip


@entry("list_pop")
def _pop(w, node, items, i):
    name, at = w.value(items), _index(w, i)
    return [w.emit("SequenceErase", name, at), _at(w, name, at)]


@entry("list_size")
def _size(w, node, items):
    return _length(w, w.value(items))


@entry("list_extend")
def _extend(w, node, a, b):
    more = w.value(b)
    return built(w, node.outputs[0].type, w.value(a), _length(w, more), lambda inner, i, s: inner.emit("SequenceInsert", s, _at(inner, more, i)))  # fmt: skip


@entry("list_slice")
def _slice(w, node, items, start, stop, step):
    """The items at the places that a slice of the places 0, 1, ... gives."""
    name = w.value(items)
    step = 1 if step is None else step
    if not isinstance(step, int):
        raise w.error("a slice of a list with a step that only the run knows")
    line = w.emit("Range", w.constant(0), _length(w, name), w.constant(1))
    far = torch.iinfo(torch.int64)
    ends = (0, far.max) if step > 0 else (far.max, far.min)
    ends = [e if given is None else given for given, e in zip((start, stop), ends)]
    bounds = [w.emit("Reshape", w.value(e, torch.int64), w.constant([1])) for e in ends]
    places = w.emit("Slice", line, *bounds, w.constant([0]), w.constant([step]))
    count = w.emit("Squeeze", w.emit("Shape", places, dtype=torch.int64), w.constant([0]))
    empty = _empty(w, _dtype(node))
    return built(w, node.outputs[0].type, empty, count,
                 lambda inner, i, s: inner.emit("SequenceInsert", s, _at(inner, name, inner.emit("Gather", places, i, axis=0))))  # fmt: skip


@entry("list_stack", "array_stack", "list_concat", "array_concat")
def _joined(w, node, items, dtype, shape, device):
    """One tensor of the items; of no items, one without rows: ONNX does not join nothing."""
    name, new = w.value(items), node.op.endswith("stack")
    rest = [n or 0 for n in node.outputs[0].type.shape[1:]]
    none, some = (type(w)(w.onnx, w) for _ in range(2))
    outs = [none.emit("Identity", none.constant(torch.zeros([0, *rest]).tolist(), dtype) if not rest else
                      none.emit("Expand", none.constant(0, dtype), none.constant([0, *rest]))),
            some.emit("ConcatFromSequence", name, axis=0, new_axis=int(new))]  # fmt: skip
    info = [w.onnx.helper.make_tensor_value_info(o, w.element(dtype), [None] * (len(rest) + 1)) for o in outs]  # fmt: skip
    graphs = [w.onnx.helper.make_graph(x.nodes, w.fresh("joined"), [], [i]) for x, i in zip((none, some), info)]  # fmt: skip
    nothing = w.emit("Equal", _length(w, name), w.constant(0), dtype=torch.bool)
    out = w.fresh()
    w.nodes.append(w.onnx.helper.make_node("If", [nothing], [out], then_branch=graphs[0], else_branch=graphs[1]))  # fmt: skip
    w.dtypes[out] = dtype
    return out


@entry("list_from_tensor")
def _from_tensor(w, node, x):
    return w.emit("SplitToSequence", w.value(x, _dtype(node)), axis=0, keepdims=0)


@entry("list_split")
def _split(w, node, x, lengths):
    if not isinstance(lengths, Value):
        lengths = w.constant([int(n) for n in lengths])
    else:
        lengths = w.value(lengths, torch.int64)
    return w.emit("SplitToSequence", w.value(x), lengths, axis=0)


@entry("list_reserve")
def _reserve(w, node, n):
    kind = node.outputs[0].type
    dtype, shape = _dtype(node), _shape(w, kind)
    if isinstance(n, int):
        zero = w.emit("Expand", w.constant(0, dtype), w.constant(shape)) if shape else w.constant(0, dtype)  # fmt: skip
        return w.emit("SequenceConstruct", *[zero] * n, dtype=dtype) if n else _empty(w, dtype)
    zero = w.emit("Expand", w.constant(0, dtype), w.constant(shape)) if shape else w.constant(0, dtype)  # fmt: skip
    return built(w, kind, _empty(w, dtype), _index(w, n), lambda inner, i, s: inner.emit("SequenceInsert", s, zero))  # fmt: skip


@entry("handle_add")
def _add(w, node, a, b):
    """Item by item."""
    kind = node.outputs[0].type
    if not isinstance(kind, ListType):
        return w.emit("Add", w.value(a), w.value(b))
    x, y = w.value(a), w.value(b)
    empty = _empty(w, _dtype(node))
    return built(w, kind, empty, _length(w, x),
                 lambda inner, i, s: inner.emit("SequenceInsert", s, inner.emit("Add", _at(inner, x, i), _at(inner, y, i))))  # fmt: skip


@entry("handle_zeros")
def _zeros(w, node, a):
    x = w.value(a)
    kind, zero = node.outputs[0].type, w.constant(0, w.dtypes[x])
    if not isinstance(kind, ListType):
        return w.emit("Mul", x, zero)
    shape = lambda inner, i: inner.emit("Shape", _at(inner, x, i), dtype=torch.int64)  # noqa: E731
    return built(w, kind, _empty(w, _dtype(node)), _length(w, x),
                 lambda inner, i, s: inner.emit("SequenceInsert", s, inner.emit("Expand", zero, shape(inner, i))))  # fmt: skip
