"""``a is b`` of tensors: whether two names are one tensor, where a staged construct may have bound them to another one.

A name that a construct binds has an index of the tensors that it may be (``picking``); two names are one tensor where both indices
name the same one. A view is another tensor each time that it is made, though the memory is the same: where a name
may have been bound to a view, and another one is a view of the same places, it cannot be told whether they are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ...errors import StagingError
from ..graph.types import BOOL
from ..inference.shapes import SYMBOLS
from ..symbols.funcgraph import FuncGraph, current_graph, user_location
from ..symbols.scalars import scalar
from ..symbols.symbolic import SymTensor, View, as_symbolic
from ..values.listed import parts
from .picking import Lost, Picked, Which, flat


def same_tensor(a: torch.Tensor, b: torch.Tensor) -> Any:
    """Whether ``a is b``: a bool, plain or staged. StagingError for views that may be one or two."""
    if a is b or not (isinstance(a, SymTensor) or isinstance(b, SymTensor)):
        return a is b
    x, y = as_symbolic(a), as_symbolic(b)
    if not (_is_bound(x) or _is_bound(y)):
        if x.storage_ is not y.storage_ and x.storage_.listed and y.storage_.listed:
            raise _unknown()
        return x is y or (x.storage_ is y.storage_ and not x.chain and not y.chain)
    (one, lefts), (other, rights) = _options(x), _options(y)
    table = [[_same(p, q) for q in rights] for p in lefts]
    answers = {answer for row in table for answer in row}
    if None in answers:
        raise _unknown()
    if len(answers) == 1:
        return answers.pop()
    graph = current_graph()
    found = _item(one, [_item(other, row, graph) for row in table], graph)
    return found if isinstance(found, bool) else scalar(found, graph)


def _unknown() -> StagingError:
    return StagingError(
        "whether these names are one tensor, or one view of a tensor or two, is not known here: of views compare what they are views of, of items of a list or dict of the graph their "
        "indices or keys",
        user_location(),
    )


def _item(which: Which, row: Sequence[Any], graph: FuncGraph) -> Any:
    """The item of a row that an index picks."""
    if all(v is row[0] for v in row):
        return row[0]
    at = which(graph)
    return row[at] if isinstance(at, int) else graph.emit("tg.choose", at, list(row), type=BOOL)


def _is_bound(x: SymTensor) -> bool:
    return isinstance(x.storage_, (Picked, Lost)) and not x.chain


def _options(x: SymTensor) -> tuple[Which, list[SymTensor]]:
    """The tensors that a name may be."""
    if isinstance(x.storage_, Picked) and not x.chain:
        return flat(x.storage_.which, x.storage_.options)
    return (lambda graph: 0), [x]


def _same(a: SymTensor, b: SymTensor) -> bool | None:
    """Whether two tensors are one; None for views that may be."""
    if a is b:
        return True
    if a.storage_ is not b.storage_ and a.storage_.listed and b.storage_.listed:
        return None
    if isinstance(a.storage_, Lost) or isinstance(b.storage_, Lost):
        return None if _bases(a) & _bases(b) else False
    if a.storage_ is not b.storage_ or len(a.chain) != len(b.chain):
        return False
    return (None if all(map(_may_equal, a.chain, b.chain)) else False) if a.chain else True


def _bases(x: SymTensor) -> set[int]:
    """The memory that a tensor may be in."""
    found: set[int] = set()
    todo = list(parts(x.storage_))
    while todo:
        storage = todo.pop()
        found.add(id(storage))
        if isinstance(storage, Lost):
            todo += [p for b in storage.bases for p in parts(b)]
    return found


def _may_equal(a: View, b: View) -> bool:
    if a.func is not b.func or a.index != b.index:
        return False
    pairs = zip(tree_leaves((a.args, a.kwargs)), tree_leaves((b.args, b.kwargs)))
    staged = (*SYMBOLS, torch.Tensor)
    return all(isinstance(p, staged) or isinstance(q, staged) or p == q for p, q in pairs)
