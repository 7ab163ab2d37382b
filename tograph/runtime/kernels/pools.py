"""Pooling over windows of images and volumes: rows of ``gathers.GATHERS``, one expression for all elements of a small window.

Element ``o`` of a dim is made of the ``kernel`` elements from ``o * stride - padding`` on. A window that hangs over an edge still holds the element at that edge.
So a maximum reads the nearest element that exists in the place of one that does not: neither the maximum nor where it is first found changes. A mean leaves out what does
not exist. Gradients go the other way: an element adds up what comes to the windows that it is in, of which there are ``kernel / stride`` in a dim at most.
Large windows, and those with gaps at an edge, are left to torch. The formulas are those of torch's kernels for a CPU, divisors of windows at an edge included.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..graph.ir import Node, Value
from .elements import Elements, argument
from .exprs import Maker, Term
from .gathers import located, row
from .loop_ir import INTEGERS, Affine, Unsupported
from .views import Index

MOST = 36  # elements of a window
# Their results lie in memory as their operands do.
POOLS = frozenset(f"aten.{n}{rank}d{end}.default" for n, first in (("max_pool", "_with_indices"), ("avg_pool", "")) for rank in (2, 3) for end in (first, f"{first}_backward"))  # fmt: skip


@dataclass(frozen=True)
class Dim:
    """The windows of one dim: ``size`` elements give ``count`` windows."""

    size: int
    count: int
    kernel: int
    stride: int
    padding: int
    gap: int

    def inside(self) -> bool:
        """Whether each window lies in the tensor."""
        last = (self.count - 1) * self.stride + (self.kernel - 1) * self.gap
        return not self.padding and last < self.size

    def elements(self, b: Elements, at: Affine) -> list[tuple[Affine, Term, Term | None]]:
        """(its place, that as a term, whether it exists) of each element of the window ``at``; where it does not, the place of the nearest one."""
        found: list[tuple[Affine, Term, Term | None]] = []
        for k in range(self.kernel):
            place = at.scaled(self.stride).shifted(k * self.gap - self.padding)
            here = b.maker.index(place)
            if self.inside():
                found.append((place, here, None))
                continue
            exists = (here >= 0) & (here < self.size)
            near = (here < 0).where(0, (here < self.size).where(here, self.size - 1))
            found.append((located(near), near, exists))
        return found

    def windows(self, b: Elements, at: Affine) -> list[tuple[Term, Term]]:
        """(its place, whether it exists and holds the element ``at``) of each window that may."""
        here = b.maker.index(at.shifted(self.padding))
        last = here if self.stride == 1 else here.op("floordiv", b.maker.const(self.stride, "i64"))
        found = []
        for j in range(math.ceil(self.kernel / self.stride)):
            window = last - j if j else last
            exists = (window >= 0) & (window < self.count)
            if (j + 1) * self.stride > self.kernel:
                exists = exists & (here - window * self.stride < self.kernel)
            found.append((exists.where(window, 0), exists))
        return found

    def length(self, maker: Maker, window: Term, padded: bool) -> Term:
        """How many elements the window has: those that exist, or with the padding."""
        begin = window * self.stride - self.padding
        end = begin + self.kernel
        if padded:
            return (end < self.size + self.padding).where(end, self.size + self.padding) - begin
        end = (end < self.size).where(end, self.size)
        return end - (begin < 0).where(0, begin)


def _pair(x: Any, rank: int) -> list[int]:
    values = list(x) if isinstance(x, (list, tuple)) else [x]
    if not all(type(n) is int for n in values):
        raise Unsupported("a window that only the run knows")
    return values * rank if len(values) == 1 else values


def _dims(b: Elements, node: Node, x: Value, out: Value, kernel: Any, stride: Any, padding: Any, gap: Any = 1) -> list[Dim]:  # fmt: skip
    """The dims of ``x`` that windows lie in. ``out``: what has an element for each window."""
    rank, size, counts = 3 if "3d" in node.op else 2, b.size(x), b.size(out)
    if not all(type(n) is int for n in (*size[-rank:], *counts[-rank:])):
        raise Unsupported("windows in a size that only the run knows")
    given = [_pair(v, rank) for v in (kernel, stride or kernel, padding, gap)]
    dims = [Dim(*parts) for parts in zip(size[-rank:], counts[-rank:], *given, strict=True)]
    if math.prod(d.kernel for d in dims) > MOST:
        raise Unsupported("a large window")
    if any(d.gap > 1 and not d.inside() for d in dims):
        raise Unsupported("a window with gaps at an edge")
    return dims


def _each(parts: Sequence[list]) -> Iterator[tuple]:
    """All combinations of the elements, or windows, of each dim, the last one's next to each other."""
    return itertools.product(*parts)


def _flat(dims: Sequence[Dim], places: Sequence[Term]) -> Term:
    """The position of an element among all of its image."""
    at = places[0]
    for d, place in zip(dims[1:], places[1:]):
        at = at * d.size + place
    return at


def _together(conditions: Sequence[Term | None]) -> Term | None:
    found = None
    for c in conditions:
        if c is not None:
            found = c if found is None else found & c
    return found


@row("aten.max_pool2d_with_indices.default", 0)
@row("aten.max_pool3d_with_indices.default", 0)
def _max_pool(b: Elements, node: Node, which: int, index: Index) -> Term:
    """The first of the largest elements, or the last NaN."""
    x, kernel = node.args[:2]
    stride, padding, gap = (argument(node, i, n, v) for i, n, v in ((2, "stride", ()), (3, "padding", 0), (4, "dilation", 1)))  # fmt: skip
    dims = _dims(b, node, x, node.outputs[0], kernel, stride, padding, gap)
    outer, inner = index[: -len(dims)], index[-len(dims) :]
    best, where = None, None
    for parts in _each([d.elements(b, at) for d, at in zip(dims, inner)]):
        value = b.at(x, (*outer, *(p[0] for p in parts)))
        place = _flat(dims, [p[1] for p in parts])
        if best is None or where is None:
            best, where = value, place
            continue
        better = value > best
        if value.dtype not in INTEGERS:
            better = better | (value != value)
        best, where = better.where(value, best), better.where(place, where)
    assert best is not None and where is not None
    return where if which else best


@row("aten.max_pool2d_with_indices_backward.default", 0, 7)
@row("aten.max_pool3d_with_indices_backward.default", 0, 7)
def _max_pool_backward(b: Elements, node: Node, which: int, index: Index) -> Term:
    grad, x, kernel, stride, padding, gap, _, chosen = node.args
    dims = _dims(b, node, x, grad, kernel, stride, padding, gap)
    if any(d.gap > 1 for d in dims):
        raise Unsupported("a window with gaps")
    outer, inner = index[: -len(dims)], index[-len(dims) :]
    own = _flat(dims, [b.maker.index(at) for at in inner])

    def part(places: Index, exists: Term) -> Term:
        here = exists & (b.at(chosen, (*outer, *places)) == own)
        return here.where(b.compute_at(grad, (*outer, *places)), 0)

    return _added(b, dims, inner, part)


def _added(b: Elements, dims: Sequence[Dim], inner: Index, part: Any) -> Term:
    """The sum of ``part`` of the windows that an element is in."""
    total = None
    for found in _each([d.windows(b, at)[::-1] for d, at in zip(dims, inner)]):
        exists = _together([e for _, e in found])
        assert exists is not None
        new = part(tuple(located(p) for p, _ in found), exists)
        total = new if total is None else total + new
    assert total is not None
    return total


def _divisor(b: Elements, dims: Sequence[Dim], windows: Sequence[Term], padded: Any, given: Any) -> Term | int:  # fmt: skip
    """What the sum over a window is divided by."""
    if given is not None:
        if type(given) is not int:
            raise Unsupported("a divisor that only the run knows")
        return given
    if all(d.inside() for d in dims):
        return math.prod(d.kernel for d in dims)
    lengths = [d.length(b.maker, w, bool(padded)) for d, w in zip(dims, windows)]
    return math.prod(lengths[1:], start=lengths[0])


def _quotient(x: Term, by: Term | int) -> Term:
    return x / (by.cast(x.dtype) if isinstance(by, Term) else by)


@row("aten.avg_pool2d.default", 0)
@row("aten.avg_pool3d.default", 0)
def _avg_pool(b: Elements, node: Node, which: int, index: Index) -> Term:
    x, kernel = node.args[:2]
    stride, padding, padded, divisor = (argument(node, i, n, v) for i, n, v in (
        (2, "stride", ()), (3, "padding", 0), (5, "count_include_pad", True), (6, "divisor_override", None)))  # fmt: skip
    dims = _dims(b, node, x, node.outputs[0], kernel, stride, padding)
    outer, inner = index[: -len(dims)], index[-len(dims) :]
    total = None
    for parts in _each([d.elements(b, at) for d, at in zip(dims, inner)]):
        value = b.compute_at(x, (*outer, *(p[0] for p in parts)))
        exists = _together([p[2] for p in parts])
        value = value if exists is None else exists.where(value, 0)
        total = value if total is None else total + value
    assert total is not None
    if total.dtype in INTEGERS:
        raise Unsupported("a mean of integers")
    return _quotient(total, _divisor(b, dims, [b.maker.index(at) for at in inner], padded, divisor))


@row("aten.avg_pool2d_backward.default", 0)
@row("aten.avg_pool3d_backward.default", 0)
def _avg_pool_backward(b: Elements, node: Node, which: int, index: Index) -> Term:
    grad, x, kernel, stride, padding, _, padded, divisor = node.args
    dims = _dims(b, node, x, grad, kernel, stride, padding)
    outer, inner = index[: -len(dims)], index[-len(dims) :]

    def part(places: Index, exists: Term) -> Term:
        windows = [b.maker.index(at) if not at.gathers else Term(b.maker, at.gathers[0][0]) for at in places]  # fmt: skip
        g = _quotient(b.compute_at(grad, (*outer, *places)), _divisor(b, dims, windows, padded, divisor))  # fmt: skip
        return exists.where(g, 0)

    return _added(b, dims, inner, part)
