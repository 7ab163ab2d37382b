"""Calls that make dicts and sets: ``dict``, ``OrderedDict``, ``defaultdict``, ``Counter``, ``set``, ``dict.fromkeys``.

One whose keys are staged, or a number of them that only the run knows, is a table of the graph.
"""

from __future__ import annotations

import types
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import torch

from ...runtime.guarding import unconverted
from ...runtime.guarding.unconverted import check_keys
from ...runtime.symbols.funcgraph import is_tracing
from ...runtime.values import tables
from ...runtime.values.structure import is_growing, is_union
from ...runtime.values.tables import StagedTable, is_table, kind_of
from .. import members, tensor_keys, union
from ..calls import call
from ..construction import instance, noted
from ..consumers import gathered
from ..iterables import staged_source
from ..left_alone import leave_alone
from ..new_keys import need_table
from ..registry import handles
from ..staging import is_staged_key


def _items(x: Any) -> Any:
    """What an iterable gives, in a list; a table or mapping, and what is no iterable of keys known by more than themselves, as it is."""
    if any(map(_as_it_is, x.options_ if is_union(x) else [x])):
        return x
    return call(list, x) if hasattr(type(x), "__iter__") or staged_source(x) is not None else x


def _as_it_is(x: Any) -> bool:
    return is_table(x) or hasattr(x, "keys") or isinstance(x, (torch.Tensor, str, set, frozenset))


def _staged(items: Any, pairs: bool) -> bool:
    """Whether keys among the items, or which there are, are known only when the graph runs."""
    if is_table(items) or (isinstance(items, list) and is_growing(items)):
        return True
    if not isinstance(items, list):
        return False
    if not pairs:
        return any(is_union(i) or is_staged_key(i) for i in items)
    return any(
        isinstance(i, (list, tuple)) and len(i) == 2 and (is_union(i[0]) or is_staged_key(i[0]))
        for i in items
    )


def _filled(made: Any, items: Any, named: dict[str, Any]) -> StagedTable:
    """A table of the items, which it gets as by ``update``."""
    call(made.update, items, **named)
    return made


def _form(python: type) -> Callable[..., Any]:
    def form(*args: Any, **kwargs: Any) -> Any:
        if any(map(is_union, args)):
            return union.apply(form, *args, **kwargs)
        first = 1 if python is defaultdict else 0
        if not is_tracing() or len(args) != first + 1:
            return tables.made(instance(call, python, args, kwargs))
        items = _items(args[first])
        if _staged(items, pairs=python is not Counter):
            factory = args[0] if python is defaultdict else None
            return _filled(kind_of(python, factory)(), items, kwargs)
        return tables.made(instance(call, python, (*args[:first], items), kwargs))

    return form


for _kind in (dict, OrderedDict, defaultdict, Counter):
    handles(_kind)(_form(_kind))


@handles(set)
def set_(items: Any = ()) -> Any:
    if members.is_conditional(items) and type(items) is set:
        return members.copied(items)
    return _of_items(set, items)


@handles(frozenset)
def frozenset_(items: Any = ()) -> Any:
    return _of_items(frozenset, items)


def _of_items(kind: type, items: Any) -> Any:
    check_keys(items)
    items = gathered(items) if not is_table(items) else items
    if kind is set and is_tracing():
        items = _items(items)
        if _staged(items, pairs=False) and not _tensors(items):
            made: Any = _filled(kind_of(set)(), items, {})
            made.only_added = not isinstance(items, (set, dict))
            return made
    if isinstance(items, (list, tuple)):
        tensor_keys.apart(items)
    return tables.made(noted(unconverted.run(kind, (items,), {})))


def _tensors(items: Any) -> bool:
    """Whether a list of the graph holds tensors, which are items by identity."""
    return not is_growing(items) and any(isinstance(i, torch.Tensor) for i in items)  # fmt: skip


@handles(dict.fromkeys)
def fromkeys(keys: Any, value: Any = None) -> Any:
    items = _items(keys) if is_tracing() else keys
    if not (is_tracing() and _staged(items, pairs=False)):
        return tables.made(dict.fromkeys(items, value))
    pairs = call(list, call(map, lambda key: (key, value), items))
    return _filled(kind_of(dict)(), pairs, {})


def _counting(method: Callable[..., None]) -> Callable[..., None]:
    """``Counter.update`` and ``subtract``: items that are staged need a table."""

    def form(x: Any, /, *others: Any, **named: Any) -> None:
        if is_tracing():
            others = tuple(map(_items, others))
            if any(_staged(items, pairs=False) for items in others):
                need_table(x)
        leave_alone(types.MethodType(method, x), others, named)

    return form


for _method in (Counter.update, Counter.subtract):
    handles(_method)(_counting(_method))
