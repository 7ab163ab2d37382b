"""Slices between numbers of the run whose size is known all the same: ``data[j:j + 64]`` for ``j = torch.randint(0, len(data) - 64, ())``.

Python cuts a slice to what there is. Where ``proofs`` shows that nothing is cut, and that its ends are a known number apart, the size is that number,
for the code as well as for the graph. Where a proof rests on a condition or the test of a loop, the node counts as one that may fail, so that it stays where
that holds; ``guarded`` says so.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ..inference.infer import infer
from ..inference.shapes import SYMBOLS, Meta
from ..symbols.affine import ZERO, Affine
from ..symbols.funcgraph import FuncGraph
from ..symbols.proofs import Numbers
from ..values import facts

_END = (1 << 63) - 1


class _Told(threading.local):
    def __init__(self) -> None:
        self.sizes: tuple[Any, bool] = (), False


_told = _Told()


@contextmanager
def sized_as(shape: Sequence[int | None], guarded: bool) -> Iterator[None]:
    """Inside, a slice is one that was recorded before, with this shape."""
    before, _told.sizes = _told.sizes, (shape, guarded)
    try:
        yield
    finally:
        _told.sizes = before


def inferred(func: Any, given: tuple, named: dict, graph: FuncGraph) -> tuple[Any, Meta | None, bool]:  # fmt: skip
    """The metas of what an op gives; of a slice whose size is proved, that and whether the proof is guarded."""
    found = infer(func, given, named)
    if func is not torch.ops.aten.slice.Tensor or None not in found.size:
        return found, None, False
    proved, guarded = _sized(given[0], given, graph)
    return proved or found, proved, guarded


def _sized(x: Meta, args: tuple, graph: FuncGraph) -> tuple[Meta | None, bool]:
    """The meta of a slice, where its size can be proved, and whether it is ``guarded``."""
    dim, *bounds = [*args[1:], *(0, None, None, 1)[len(args) - 1 :]]
    dim %= x.rank
    rest = (*x.size[:dim], *x.size[dim + 1 :], *x.stride)
    if type(bounds[2]) is not int or not all(type(n) is int for n in rest):
        return None, False
    length, guarded = _length(x.size[dim], bounds, dim, graph)
    if length is None:
        return None, False
    size, stride = list(x.size), list(x.stride)
    size[dim] = length
    stride[dim] *= bounds[2]
    return x._replace(size=tuple(size), stride=tuple(stride)), guarded


def _length(size: Any, bounds: Sequence[Any], dim: int, graph: FuncGraph) -> tuple[int | None, bool]:  # fmt: skip
    told, guarded = _told.sizes
    if dim < len(told) and told[dim] is not None:
        return told[dim], guarded
    n, start, stop, step = (number(v) for v in (size, *bounds))
    numbers = Numbers(graph, facts.conditions())
    key = tuple(map(numbers.canonical, (n, start, stop, step)))
    if torch._C._current_autograd_node() is not None:
        # What a formula cuts out of a cotangent was put there by a slice between the same ends.
        return graph.root.parts.get(key, (None, False))
    length = _proved(numbers, n, start, stop, step)
    if length is None:
        numbers.want([a for a in (start, stop) if a is not None])
        return None, False
    guarded = depends(numbers)
    graph.root.parts[key] = length, guarded
    return length, guarded


def depends(numbers: Numbers) -> bool:
    """Note what the proofs that were made suppose of loops; whether one rests on a condition."""
    for reason in numbers.used:
        if reason.grows is not None and reason.loop is not None:
            reason.loop.loop.supposed.add(reason.grows)
    return any(r.loop is None for r in numbers.used)


def number(a: Any) -> Any:
    """The value or the number behind a bound."""
    if not isinstance(a, SYMBOLS):
        return a
    return a.node.constant_ if a.node.ref is None else a.node.ref.value


def _proved(x: Numbers, n: Any, start: Any, stop: Any, step: int) -> int | None:
    whole, start = x.sum(n), 0 if start is None else start
    first = _place(x, start, whole)
    last = whole if stop is None or (type(stop) is int and stop == _END) else _place(x, stop, whole)
    if first is None or last is None:
        return None
    apart = last - first
    if apart.terms:
        return None
    if apart.constant <= 0 or x.proves(first - whole):
        return 0
    return -(-apart.constant // step) if x.proves(whole - last) else None


def _place(x: Numbers, at: Any, whole: Affine) -> Affine | None:
    """How far from the beginning a bound is, before it is cut to the size."""
    place = x.sum(at)
    if x.proves(place):
        return place
    if x.proves(place.times(-1).plus(-1)):
        place = place + whole
        return place if x.proves(place) else ZERO if x.proves(place.times(-1)) else None
    return None
