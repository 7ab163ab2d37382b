"""Views at places that only a region knows: a chain of views with **holes**, and the numbers for them.

``row = x[k]`` in an iteration is a view of ``x`` whose index ``k`` is a value of the body. Outside of the body the view is the same
chain of view ops with a hole in the place of ``k``; the number goes out as one more output of the node. Only views of static sizes
have holes: what a view shows may move, its shape may not.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..inference.shapes import SYMBOLS
from ..symbols.funcgraph import FuncGraph
from ..symbols.symbolic import SymTensor, View
from ..values import flattening

DETACH = torch.ops.aten.detach.default


@dataclass(frozen=True)
class Hole:
    """The place of the ``number``-th number of a chain."""

    number: int


@dataclass(frozen=True, eq=False)
class Dug:
    """A chain of views with holes, the numbers that they have in the region, and what tells it from other views of the storage."""

    chain: tuple[View, ...]
    numbers: tuple[Any, ...]
    layout: Hashable


def dig(x: SymTensor, outer: FuncGraph) -> Dug | None:
    """The views of ``x`` as ``outer`` may know them; None where it cannot."""
    if not x.chain:
        return Dug((), (), ()) if _seen(x.meta.size, outer) else None
    if not any(map(_staged, _parts(x.chain))):
        return Dug(x.chain, (), layout(x)) if _seen(x.meta.size, outer) else None
    numbers: list[Any] = []
    chain = tuple(_dug(view, outer, numbers) for view in x.chain)
    if any(isinstance(p, torch.Tensor) for p in _parts(x.chain)):
        return None
    if numbers and not all(v.base.static and 0 not in v.base.size for v in x.chain):
        return None
    if not x.meta.static or any(n.node.kind is not int for n in numbers):
        return None if numbers or not _seen(x.meta.size, outer) else Dug(chain, (), layout(x))
    return Dug(chain, tuple(numbers), _layout(x, chain))


def layout(x: SymTensor) -> Hashable:
    """What tells two views of one storage apart: the same for two chains that show the same elements, and both with or both without the history of these."""
    if not x.chain:
        return ()
    if not x.meta.static:
        return tuple(map(id, x.chain))
    return _layout(x, x.chain)


def _layout(x: SymTensor, chain: Sequence[View]) -> Hashable:
    meta = x.meta  # a size of 1 may have a stride that only the run knows
    apart = any(view.func is DETACH for view in chain)
    place = tuple(map(_name, (*meta.size, "by", *meta.stride, "at", meta.offset, meta.dtype, apart)))  # fmt: skip
    parts = list(_parts(chain))
    if not any(_staged(p) or isinstance(p, Hole) for p in parts):
        return place
    # The offset says nothing where an index is staged: the ops and their arguments do.
    return (place, tuple(str(v.func) for v in chain), tuple(map(_name, parts)))


def _name(part: Any) -> Hashable:
    if _staged(part):
        return ("value", part.node.ref.value)
    if isinstance(part, SYMBOLS):
        return ("number", id(part.node))
    return part if isinstance(part, (int, float, str, Hole, torch.dtype)) else str(part)


def _parts(chain: Sequence[View]) -> Iterator[Any]:
    """The arguments of view ops, one by one."""
    for view in chain:
        for x in (*view.args, *view.kwargs.values(), view.index):
            yield from x if isinstance(x, (list, tuple)) else [x]


def _staged(part: Any) -> bool:
    return isinstance(part, SYMBOLS) and part.node.ref is not None


def _seen(parts: Sequence[Any], outer: FuncGraph) -> bool:
    return all(not _staged(p) or outer.within(p.node.ref.graph) for p in parts)


def _dug(view: View, outer: FuncGraph, numbers: list[Any]) -> View:
    def part(x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return type(x)(map(part, x))
        if not _staged(x) or outer.within(x.node.ref.graph):
            return x
        numbers.append(x)
        return Hole(len(numbers) - 1)

    return replace(view, args=part(view.args), kwargs={k: part(x) for k, x in view.kwargs.items()})


def fill(chain: Sequence[View], numbers: Sequence[Any]) -> tuple[View, ...]:
    """The chain with numbers in its holes."""

    def part(x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return type(x)(map(part, x))
        return numbers[x.number] if isinstance(x, Hole) else x

    return tuple(
        replace(v, args=part(v.args), kwargs={k: part(x) for k, x in v.kwargs.items()}) for v in chain
    )  # fmt: skip


def number(value: Any, graph: FuncGraph) -> Any:
    """The staged number of a value."""
    return flattening.symbolic(value, graph)
