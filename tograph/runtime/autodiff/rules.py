"""Gradients of the ops of lists, optionals and choices, as ops of the same table: closed under differentiation.

A rule gets the op's arguments as objects, a function that gives its outputs, and the cotangents of its outputs (None where
there is none). It returns a cotangent, or None, for each argument. What a list op reads from a place, its gradient
writes to that place of the cotangent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..gradients import optional_grads
from ..graph.ir import Value
from ..graph.types import BOOL, INT, ListType, TensorType, is_static
from ..recording import ways
from ..symbols.funcgraph import current_graph
from ..symbols.symbolic import argument
from ..writes.freed import MESSAGE
from .objects import emit, emit_many, type_of, zeros_like

Rule = Callable[[tuple, Callable[[int], Any], list[Any]], tuple]


def _like(g: Any, x: Any) -> Any:
    return zeros_like(x) if g is None else g


def _get(items: Any, i: Any, like: Any) -> Any:
    return emit("tg.list_get", items, i, type=type_of(like))


def _list_of(args, out, gs):
    return tuple(_get(gs[0], i, v) for i, v in enumerate(args))


def _push(args, out, gs):
    rest, last = _popped(gs[0], -1, args[0], args[1])
    return rest, last


def _popped(items: Any, at: Any, rest: Any, item: Any) -> tuple[Any, Any]:
    """(the cotangent list without the cell ``at``, that cell)"""
    kind = type_of(rest)
    if kind == ListType(None):
        kind = ListType(type_of(item))
    left, cell = emit_many("tg.list_pop", (items, at), {}, [kind, type_of(item)])
    return left, cell


def _inserted(items: Any, at: Any, item: Any, full: Any) -> Any:
    """The cotangent list with a cell put in before ``at``."""
    kind = type_of(full)
    if type(at) is int and at == -1:
        return emit("tg.list_push", items, item, type=kind)
    return emit("tg.list_insert", items, at, item, type=kind)


def _pop(args, out, gs):
    rest, item = _like(gs[0], out(0)), _like(gs[1], out(1))
    at = _position(args[0], args[1])
    return _inserted(rest, at, item, args[0]), None


def _position(items: Any, i: Any) -> Any:
    """An index, counted from the front (or -1, the last)."""
    return (
        i
        if type(i) is int and (i == -1 or i >= 0)
        else emit("py.mod", i, emit("tg.list_size", items, type=INT), type=INT)
    )


def _insert(args, out, gs):
    # Python's insert takes any index: one below the front is the front, one behind the end is the end.
    size = emit("tg.list_size", args[0], type=INT)
    i = args[1]
    from_end = emit("py.max", emit("py.add", i, size, type=INT), 0, type=INT)
    if type(i) is int:
        at: Any = emit("py.min", i, size, type=INT) if i >= 0 else from_end
    else:
        negative = emit("py.lt", i, 0, type=BOOL)
        at = emit("py.select", negative, from_end, emit("py.min", i, size, type=INT), type=INT)
    rest, cell = _popped(gs[0], at, args[0], args[2])
    return rest, None, cell


def _list_get(args, out, gs):
    return emit("tg.list_set", zeros_like(args[0]), args[1], gs[0], type=type_of(args[0])), None


def _same_everywhere(items: Any, item: Any) -> bool:
    """Whether all items of a list are known to have the sizes of this one."""
    element = type_of(items).element
    if element is None:
        return True
    return is_static(element) and element == type_of(item)  # fmt: skip


def _list_set(args, out, gs):
    items, at, item = args
    cell = _get(gs[0], at, item)
    old = item
    if not _same_everywhere(items, item):
        old = emit("tg.list_get", items, at, type=type_of(items).element)
    return emit("tg.list_set", gs[0], at, zeros_like(old), type=type_of(items)), None, cell


def _slice(args, out, gs):
    items, start, stop, step = args
    kind = type_of(items)
    return (
        emit("tg.list_spread", zeros_like(items), start, stop, step, gs[0], type=kind),
        None,
        None,
        None,
    )


def _spread(args, out, gs):
    items, start, stop, step, values = args
    inner = emit("tg.list_slice", gs[0], start, stop, step, type=type_of(values))
    rest = emit("tg.list_spread", gs[0], start, stop, step, zeros_like(values), type=type_of(items))
    return rest, None, None, None, inner


def _extend(args, out, gs):
    a, b = args
    size = emit("tg.list_size", a, type=INT)
    first = emit("tg.list_slice", gs[0], None, size, None, type=type_of(a))
    return first, emit("tg.list_slice", gs[0], size, None, None, type=type_of(b))


def _stack(args, out, gs):
    return emit("tg.list_from_tensor", gs[0], type=type_of(args[0])), *[None] * (len(args) - 1)


def _concat(args, out, gs):
    return emit("tg.list_split_like", gs[0], args[0], type=type_of(args[0])), *[None] * (
        len(args) - 1
    )


def _split(args, out, gs):
    return _joined("tg.list_concat", gs[0], args[0]), None


def _split_like(args, out, gs):
    return _joined("tg.list_concat", gs[0], args[0]), None


def _from_tensor(args, out, gs):
    return (_joined("tg.list_stack", gs[0], args[0]),)


def _joined(op: str, items: Any, like: Any) -> Any:
    kind = type_of(like)
    assert isinstance(kind, TensorType)
    shape = tuple(n or 0 for n in kind.shape[1:])
    return emit(op, items, kind.dtype, shape, torch.device(kind.device), type=kind)


def _array_write(args, out, gs):
    items, at, item, limit = args
    kind = type_of(item)
    cell = emit(
        "tg.array_read",
        gs[0],
        at,
        kind.dtype,
        _sizes(item, kind),
        torch.device(kind.device),
        type=kind,
    )
    array = type_of(items)
    zeros = zeros_like(_overwritten(items, at, item))
    rest = emit("tg.array_write", gs[0], at, zeros, limit, type=array)
    if limit is None:  # the write may have made the array longer
        size = emit("tg.list_size", items, type=INT)
        rest = emit("tg.list_slice", rest, None, size, None, type=array)
    return rest, None, cell, None


def _overwritten(items: Any, at: Any, item: Any) -> Any:
    """A tensor of the sizes that a cell had before ``item`` was written; any where there was none."""
    if _same_everywhere(items, item):
        return item
    kind = type_of(items).element
    place = emit("py.min", at, emit("tg.list_size", items, type=INT), type=INT)
    cells = emit("tg.list_push", items, item, type=type_of(items))
    device = torch.device(kind.device)
    return emit("tg.array_read", cells, place, kind.dtype, kind.shape, device, type=kind)


def _sizes(x: Any, kind: TensorType) -> tuple:
    return tuple(kind.shape) if None not in kind.shape else tuple(x.shape)


def _array_read(args, out, gs):
    zeros = zeros_like(args[0])
    return emit("tg.array_write", zeros, args[1], gs[0], None, type=type_of(args[0])), *[None] * (
        len(args) - 1
    )


def _some(args, out, gs):
    return (emit("tg.optional_get", gs[0], type=type_of(args[0])),)


def _optional_get(args, out, gs):
    return (emit("tg.optional_some", gs[0], type=type_of(args[0])),)


def _choose(args, out, gs):
    tag, options = args
    n = len(options)
    out_kinds = [type_of(x) for x in options]
    zeros = [zeros_like(x) for x in options]
    cells = [
        emit("tg.choose", tag, [gs[0] if j == i else zeros[i] for j in range(n)], type=out_kinds[i])
        for i in range(n)
    ]
    graph = current_graph()
    which = argument(graph, tag)
    for i, cell in enumerate(cells if isinstance(which, Value) else ()):
        ways.tell(cell, graph.emit("py.eq", which, i, type=BOOL))
    return None, cells


def _identity(args, out, gs):
    if len(args) == 1:
        return (gs[0],)
    if args[1] is True:
        return None, None
    if args[1] is not False:
        graph = current_graph()
        way = graph.emit("py.not", argument(graph, args[1]), type=BOOL)
        optional_grads.check(way, "RuntimeError", MESSAGE)
    return gs[0], None


def _written(args, out, gs):
    return gs[0], None


def _sum_of_two(args, out, gs):
    return gs[0], gs[0]


def _earlier(args, out, gs):
    """The gradient of an order is the next one."""
    past, given, outside = args
    cotangents = [_like(g, out(i)) for i, g in enumerate(gs)]
    kinds = [type_of(x) for x in (*given, *outside)]
    args = (past.next, [*given, *cotangents], list(outside))
    made = emit_many("tg.earlier", args, {"leaves": ()}, kinds)
    return None, made[: len(given)], made[len(given) :]


# Ops that depend on their arguments in a way that the graph does not know.
UNKNOWN = dict.fromkeys(
    ("tg.py_call", "tg.py_item", "tg.recursion"),
    "a gradient that is taken inside of the function goes through tg.py_function, whose Python code has no gradient in the graph, or through a function "
    "that calls itself until a staged condition holds. Say it with tg.custom_gradient, pass x.detach(), or take the gradient outside of the function.",
)

RULES: dict[str, Rule] = {
    "tg.earlier": _earlier,
    "tg.handle_add": _sum_of_two,
    "tg.list_spread": _spread,
    "tg.list_split_like": _split_like,
    "tg.list_of": _list_of,
    "tg.list_push": _push,
    "tg.list_pop": _pop,
    "tg.list_insert": _insert,
    "tg.list_get": _list_get,
    "tg.list_set": _list_set,
    "tg.list_slice": _slice,
    "tg.list_extend": _extend,
    "tg.list_stack": _stack,
    "tg.list_concat": _concat,
    "tg.list_split": _split,
    "tg.list_from_tensor": _from_tensor,
    "tg.array_write": _array_write,
    "tg.array_read": _array_read,
    "tg.array_stack": _stack,
    "tg.array_concat": _concat,
    "tg.optional_some": _some,
    "tg.optional_get": _optional_get,
    "tg.choose": _choose,
    "tg.identity": _identity,
    "tg.read": _identity,
    "tg.written": _written,
}
