"""``torch.stack``, ``torch.cat`` and their kind of a list whose length is known only when the graph runs, along any dimension."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ..runtime.graph.types import TensorType
from ..runtime.symbols.funcgraph import current_graph
from ..runtime.symbols.required import require
from ..runtime.values.growing import StagedList
from ..runtime.values.list_lengths import least_length
from ..runtime.values.structure import Choice, Leaf, TaggedUnion
from . import union
from .call_rules import DECIDING
from .calls import call
from .growing_lists import add_each, empty


def _checked(items: StagedList, join: Callable[..., Any]) -> StagedList:
    """A list of tensors; where it turns out empty, what torch raises when the graph runs."""
    tensors = _of_tensors(items)
    values = tensors.values(current_graph())
    if tensors.item_spec is not None and not least_length(values[0]):
        require(tensors.length() > 0, _OF_NONE[join])
    return tensors


def _of_none(join: Callable[..., Any]) -> Exception:
    """What torch raises for no tensors: versions differ in the class and the words."""
    try:
        join([])
    except (RuntimeError, ValueError) as error:
        return type(error)(str(error))
    return RuntimeError(f"{join.__name__} expects a non-empty list of Tensors")


_OF_NONE = {join: _of_none(join) for join in (torch.cat, torch.stack, torch.hstack, torch.vstack, torch.dstack, torch.column_stack)}  # fmt: skip


def _of_tensors(items: StagedList) -> StagedList:
    """A list of items of different kinds as one of tensors; TypeError of torch where an item is none."""
    spec = items.item_spec
    if not isinstance(spec, Choice):
        return items
    call(_check_tensors, items)
    kinds = [o.type for o in spec.options if isinstance(o, Leaf) and isinstance(o.type, TensorType)]
    if not kinds:
        return items
    dtype = functools.reduce(torch.promote_types, [k.dtype for k in kinds])
    if any(k.dtype != dtype for k in kinds):
        require(call(_has, items, dtype), RuntimeError(_NARROWER.format(dtype)))
    made = empty()
    add_each(made, items, lambda item: _as_tensor(item, dtype))
    return made


_NARROWER = "tensors of different types are joined, none of which is {}, which they would become in the graph: convert them where they are appended"


def _as_tensor(item: TaggedUnion, dtype: torch.dtype) -> torch.Tensor:
    """The tensor that an item is, as what torch promotes all to."""
    tensors = [isinstance(o, torch.Tensor) for o in item.options_]
    if tensors.count(True) == 1:
        return item.options_[tensors.index(True)].to(dtype)
    return union.apply(lambda v: v.to(dtype) if isinstance(v, torch.Tensor) else torch.empty((), dtype=dtype), item)  # fmt: skip


def _check_tensors(items):
    for i, item in enumerate(items):
        if not isinstance(item, torch.Tensor):
            raise TypeError(
                f"expected Tensor as element {i} in argument 0, but got {type(item).__name__}"
            )


def _has(items, dtype):
    found = False
    for item in items:
        if item.dtype == dtype:
            found = True
            break
    return found


DECIDING.update((_check_tensors, _has))


def stack(tensors: StagedList, dim: int = 0) -> torch.Tensor:
    """``torch.stack``: along the first dimension, then moved."""
    return _stack(_checked(tensors, torch.stack), dim)


def _stack(tensors: StagedList, dim: int = 0) -> torch.Tensor:
    rank = tensors.rank + 1
    return _placed(tensors.stack(), _dimension(dim, rank))


def cat(tensors: StagedList, dim: int = 0) -> torch.Tensor:
    """``torch.cat``: the items are turned so that their first dimension is the one that grows."""
    return _cat(_checked(tensors, torch.cat), dim)


def _cat(tensors: StagedList, dim: int = 0) -> torch.Tensor:
    dim = _dimension(dim, tensors.rank)
    if dim == 0:
        return tensors.cat()
    turned = empty()
    add_each(turned, tensors, lambda item: torch.movedim(item, dim, 0))
    return _placed(turned.cat(), dim)


def _placed(joined: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.movedim(joined, 0, dim).contiguous() if dim else joined


def _dimension(dim: int, rank: int) -> int:
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
        )
    return dim % rank


def hstack(tensors: StagedList) -> torch.Tensor:
    tensors = _checked(tensors, torch.hstack)
    return _stack(tensors) if tensors.rank == 0 else _cat(tensors, min(tensors.rank - 1, 1))


def vstack(tensors: StagedList) -> torch.Tensor:
    tensors = _checked(tensors, torch.vstack)
    if tensors.rank == 0:
        return _stack(tensors).unsqueeze(1)
    return _stack(tensors) if tensors.rank == 1 else _cat(tensors)


def dstack(tensors: StagedList) -> torch.Tensor:
    tensors = _checked(tensors, torch.dstack)
    if tensors.rank > 2:
        return _cat(tensors, 2)
    joined = _stack(tensors, -1)
    return joined.reshape((1,) * (3 - joined.dim()) + tuple(joined.shape))


def column_stack(tensors: StagedList) -> torch.Tensor:
    tensors = _checked(tensors, torch.column_stack)
    if tensors.rank > 1:
        return _cat(tensors, 1)
    return _stack(tensors, -1) if tensors.rank else _stack(tensors).unsqueeze(0)


JOINS: dict[Callable, Callable] = {
    torch.stack: stack,
    torch.cat: cat,
    torch.concat: cat,
    torch.concatenate: cat,
    torch.hstack: hstack,
    torch.vstack: vstack,
    torch.row_stack: vstack,
    torch.dstack: dstack,
    torch.column_stack: column_stack,
}
