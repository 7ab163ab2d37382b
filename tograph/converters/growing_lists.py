"""What Python's lists can do and a list of the graph has no op for, as staged loops over its items.

``xs.index(v)``, ``count``, ``remove``, ``reverse``, ``sort``, ``sorted(xs)``, ``v in xs``, ``xs == ys``, ``xs * 2``,
``torch.tensor(xs)``, for a list whose length is known only when the graph runs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.graph.types import ListType, ScalarType, TensorType
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import Ref, current_graph, user_location
from ..runtime.symbols.required import require
from ..runtime.values import locations
from ..runtime.values.flattening import flatten
from ..runtime.values.growing import StagedList, as_staged
from ..runtime.values.records import Columns
from ..runtime.values.staged_tuples import StagedTuple
from ..runtime.values.structure import (
    STAGED,
    Choice,
    Const,
    Handle,
    Leaf,
    Spec,
    Tree,
    is_growing,
    is_union,
    leaf_types,
)
from . import union
from .call_rules import DECIDING
from .calls import call
from .for_stmt import for_stmt
from .if_stmt import if_stmt
from .iterables import StagedRange
from .registry import GROWING
from .staging import is_staged
from .strings import fstring
from .tensor_index import as_place
from .user_operators import BY_NAME, GROWING_EQUAL, GROWING_ORDERED, as_bool, eq


def empty() -> StagedList:
    """A list of the graph without items."""
    return as_staged(StagedList())


def add_each(made: StagedList, items: Any, form: Callable[[Any], Any]) -> None:
    """Append ``form(item)`` for every item."""
    for_stmt(items, lambda item: call(made.append, form(item)), ())


def _refilled(columns: Sequence[Any], have: Spec, want: Spec) -> list[Any]:
    """The columns of a list of items ``have`` as those of items ``want``, which may be of more kinds: item by item."""
    graph = current_graph()
    items = StagedList()._hold(columns, None if isinstance(have, Leaf) else Columns(have))
    none = [graph.emit("tg.list_new", type=ListType(kind)) for kind in leaf_types(want)]
    made = StagedList()._hold([Handle(Ref(v, graph)) for v in none], Columns(want))

    def body(i):
        journal.record(locations.contents(made))
        values = flatten(items.item(i, homes=False), want, current_graph())
        made._update("list_push", items=values)

    for_stmt(StagedRange(0, items.length(), 1), body, ())
    return list(made.columns)


STAGED.refilled = _refilled


def position(items: StagedList, value: Any) -> Any:
    """The index of the first item that equals ``value``, -1 without one."""
    at, i = -1, 0

    def body(item):
        nonlocal at, i

        def found():
            nonlocal at
            at = i

        if_stmt(as_bool(eq(item, value)), found, None, ("at",))
        i = i + 1

    for_stmt(items, body, ("at", "i"), test=lambda: at < 0)
    return at


def contains(items: StagedList, value: Any) -> Any:
    return position(items, value) >= 0


def equal(a: Any, b: Any) -> Any:
    """Whether two lists or two tuples, one of them of the graph, hold equal items."""
    if _is_tuple(a) is not _is_tuple(b) or isinstance(a, dict) or isinstance(b, dict):
        return False
    a, b = as_staged(StagedList(a)), as_staged(StagedList(b))
    same: Any = a.length() == b.length()
    if a.item_spec is None or b.item_spec is None:
        return same
    i = 0

    def body(item):
        nonlocal same, i
        same = as_bool(eq(item, b[i]))
        i = i + 1

    def compare():
        for_stmt(a, body, ("same", "i"), test=lambda: same)

    if_stmt(same, compare, None, ("same", "i"))
    return same


def ordered(name: str, a: Any, b: Any) -> Any:
    """``a < b`` and its kind of two lists or two tuples, one of them of the graph."""
    a, b = as_staged(StagedList(a)), as_staged(StagedList(b))
    order = BY_NAME[name]
    if a.item_spec is None or b.item_spec is None:
        return order(a.length(), b.length())
    return call(_by_first_difference, order, a, b)


def _by_first_difference(order, a, b):
    for x, y in zip(a, b):
        if not x == y:  # noqa: SIM201  sequences ask ``==`` of their items
            return order(x, y)
    return order(len(a), len(b))


def _is_tuple(x: Any) -> bool:
    return isinstance(x, StagedTuple) or not isinstance(x, list)


def index(items: StagedList, value: Any, *bounds: Any) -> Any:
    first = _first(items, bounds[0]) if bounds else 0
    at = position(items[slice(first, *(bounds[1:] or (None,)))] if bounds else items, value)

    def missing():
        raise ValueError(fstring((value, "r", ""), " is not in list"))

    if_stmt(at < 0, missing, None, ())
    return at + first


def _first(items: StagedList, bound: Any) -> Any:
    """Where ``index`` begins: a negative bound counts from the end."""
    bound, count = as_place(bound), items.length()
    if not is_staged(bound):
        return bound if bound >= 0 else call(max, bound + count, 0)
    return control_flow.staged_if(bound < 0, lambda: call(max, bound + count, 0), lambda: bound)


def count(items: StagedList, value: Any) -> Any:
    total: Any = 0

    def body(item):
        nonlocal total

        def more():
            nonlocal total
            total = total + 1

        if_stmt(as_bool(eq(item, value)), more, None, ("total",))

    for_stmt(items, body, ("total",))
    return total


def tensor_of(items: StagedList, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A tensor of the items, which are numbers, tensors of one size, or tuples of these."""
    spec, dtype = items.item_spec, dtype or _dtype_of(items)
    if isinstance(spec, Leaf) and not isinstance(spec.type, ScalarType):
        return _numbers(items.stack(), items).to(dtype)
    tuples = isinstance(spec, Tree) and issubclass(spec.cls, tuple)
    if tuples or isinstance(spec, (Leaf, Choice)):
        made = empty()
        add_each(made, items, lambda item: nested_tensor(item, dtype))
        return made.stack()
    return items.stack().to(dtype)


_NO_NUMBER = "only one element tensors can be converted to Python scalars"


def _numbers(rows: torch.Tensor, items: StagedList) -> torch.Tensor:
    """The elements of tensors of one element each, which are the items of a list."""
    if rows.dim() == 1:
        return rows
    single = math.prod(rows.shape[1:]) == 1
    require(single if single is True else items.length() == 0, ValueError(_NO_NUMBER))
    return rows.reshape(-1)


def nested_tensor(data: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    """What ``torch.tensor`` makes of lists and tuples with staged parts: numbers become what the whole is, without a stop at float32."""
    dtype = dtype or _dtype_of(data)
    if is_union(data):
        return union.apply(lambda v: nested_tensor(v, dtype), data)
    if is_growing(data):
        return tensor_of(data, dtype)
    if isinstance(data, (list, tuple)):
        return torch.stack([nested_tensor(d, dtype) for d in data]) if data else torch.empty(0, dtype=dtype)  # fmt: skip
    if isinstance(data, torch.Tensor):
        require(data.numel() == 1, ValueError(_NO_NUMBER))
        return data.reshape(()).to(dtype)
    return torch.scalar_tensor(data, dtype=dtype)


def _dtype_of(data: Any) -> torch.dtype:
    if is_growing(data):
        return _dtype_of(data.item_spec)
    if isinstance(data, (Tree, Choice)):
        data = data.parts if isinstance(data, Tree) else data.options
    elif is_union(data):
        data = data.options_
    if isinstance(data, (list, tuple)):
        kinds = [_dtype_of(d) for d in data]
        return functools.reduce(torch.promote_types, kinds) if kinds else torch.get_default_dtype()
    if isinstance(data, Leaf):
        data = data.type
    if isinstance(data, (torch.Tensor, TensorType)):
        return data.dtype
    if isinstance(data, ScalarType):
        return _default_dtype(data.kind)
    data = data.value if isinstance(data, Const) else data
    return _default_dtype(data.node.kind if isinstance(data, SYMBOLS) else type(data))


def _default_dtype(kind: type) -> torch.dtype:
    """The dtype that ``torch.tensor`` gives a Python number."""
    if kind is complex:
        return torch.promote_types(torch.get_default_dtype(), torch.complex32)
    return {bool: torch.bool, int: torch.int64}.get(kind, torch.get_default_dtype())


def in_order(items: StagedList, key: Callable | None, reverse: bool) -> StagedList:
    """The items sorted by ``key``, equal ones in their order."""
    keys = items
    if key is not None:
        keys = empty()
        add_each(keys, items, lambda item: call(key, item))
    if not _by_numbers(keys.item_spec):
        return call(_inserted, items, keys, bool(reverse))
    places = _order(_columns(keys), bool(reverse))
    made = empty()
    add_each(made, places, lambda i: items[i])
    return made


def _by_numbers(spec: Any) -> bool:
    """Whether keys are numbers, or tuples of them."""
    if isinstance(spec, (Leaf, Choice)):
        return True
    return isinstance(spec, Tree) and issubclass(spec.cls, tuple) and all(map(_by_numbers, spec.parts))  # fmt: skip


def _inserted(items, keys, reverse):
    """The items in the order of keys that are compared, such as strings: each goes in front of the first one that is behind it."""
    made, known = items[:0], keys[:0]
    for key, item in zip(keys, items):
        at = 0
        while at < len(known) and not (known[at] < key if reverse else key < known[at]):
            at += 1
        known.insert(at, key)
        made.insert(at, item)
    return made


DECIDING.update((_inserted, _by_first_difference))


def _columns(keys: StagedList) -> list[torch.Tensor]:
    """The keys as numbers, most significant first: one column, or one for each part of tuples."""
    spec = keys.item_spec
    if isinstance(spec, Choice):
        return [tensor_of(keys, torch.float64).reshape(-1)]
    if isinstance(spec, Leaf):
        exact = spec.type == ScalarType(float)
        return [tensor_of(keys, torch.float64 if exact else None).reshape(-1)]
    if not (isinstance(spec, Tree) and issubclass(spec.cls, tuple)):
        raise StagingError(
            "a list of objects whose length depends on data is sorted by numbers: give a key",
            user_location(),
        )
    found = []
    for i in range(len(spec.parts)):
        column = empty()
        add_each(column, keys, lambda item, i=i: item[i])
        found += _columns(column)
    return found


def _order(columns: list[torch.Tensor], reverse: bool) -> torch.Tensor:
    """The places of the rows in order: stable, from the least significant column on."""
    places = torch.arange(columns[0].shape[0])
    for column in reversed(columns):
        places = places[torch.sort(column[places], stable=True, descending=reverse).indices]
    return places


GROWING_EQUAL.append(equal)
GROWING_ORDERED.append(ordered)


# ---- methods


def method(name: str) -> Callable:
    """Registers the form of a list method for lists of the graph."""

    def register(form: Callable) -> Callable:
        GROWING[name] = form
        return form

    return register


method("index")(index)
method("count")(count)


@method("remove")
def _remove(items, value):
    at = position(items, value)

    def missing():
        raise ValueError("list.remove(x): x not in list")

    if_stmt(at < 0, missing, None, ())
    items.take(at)


@method("reverse")
def _reverse(items):
    items.replace(items.sliced(slice(None, None, -1)))


@method("sort")
def _sort(items, *, key=None, reverse=False):
    items.replace(call(sorted, items, key=key, reverse=reverse))
