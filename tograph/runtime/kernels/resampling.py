"""Images and sequences in another size (``interpolate``): rows of ``gathers.GATHERS``, which read the nearest element or mix the two around a place.

Each dim is resampled apart from the others. An element of a result lies at ``(o + 1/2) * ratio - 1/2`` in the operand, at ``o * ratio`` with ``align_corners``. The
nearest element is ``floor((o + shift) * ratio)``: in integers where that is what torch's kernels find, which compute it in f32, for every element. A gradient goes the other way: an element adds up what comes to the elements that are made of it, of which there are a few beside
``i / ratio``. Sizes that only the run knows, and volumes in which there are more than ``MOST``, are left to torch. The formulas are those of torch's kernels for a CPU.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch

from ..graph.ir import Node
from .elements import Elements
from .exprs import Term
from .gathers import located, row
from .loop_ir import INTEGERS, Affine, Unsupported, rounded
from .views import Index

MOST = 36  # elements that one of the gradient is the sum of
FINEST = 1 << 12  # of the denominators of ratios
_NEAREST = {f"{n}{rank}d": (rank, shift) for rank in (1, 2, 3) for n, shift in (("upsample_nearest", Fraction(0)), ("_upsample_nearest_exact", Fraction(1, 2)))}  # fmt: skip
_LINEAR = {"upsample_linear1d": 1, "upsample_bilinear2d": 2, "upsample_trilinear3d": 3}
# Their results lie in memory as their operands do.
RESAMPLED = frozenset(f"aten.{n}{end}.default" for n in (*_NEAREST, *_LINEAR) for end in ("", "_backward"))  # fmt: skip


def _ratio(given: Any, size: int, count: int) -> float:
    """How far two elements of the result are apart in the operand."""
    return 1.0 / given if given is not None and given > 0 else size / count


@dataclass(frozen=True)
class Nearest:
    """A dim of ``size`` elements that becomes one of ``count``."""

    size: int
    count: int
    shift: Fraction
    scale: float | None

    @functools.cached_property
    def table(self) -> list[int]:
        """Which element of the operand torch's kernels take for each of the result."""
        at = torch.arange(self.count)
        if not self.shift and self.count in (self.size, 2 * self.size):
            return (at // (self.count // self.size)).tolist()
        ratio = torch.tensor(_ratio(self.scale, self.size, self.count), dtype=torch.float32)
        place = (at + 0.5).double() * ratio.double() if self.shift else at.float() * ratio
        return place.float().floor().long().clamp(max=self.size - 1).tolist()

    @functools.cached_property
    def ratio(self) -> Fraction | None:
        """The ratio as one of integers; None where f32 finds other elements by it."""
        for ratio in (
            Fraction(self.size, self.count),
            Fraction(_ratio(self.scale, self.size, self.count)).limit_denominator(FINEST),
        ):
            found = [min(math.floor((o + self.shift) * ratio), self.size - 1) for o in range(self.count)]  # fmt: skip
            if found == self.table:
                return ratio
        return None

    def sources(self, b: Elements, at: Affine) -> list[tuple[Term, Term | None]]:
        """(the place, its weight) of what the element ``at`` of the result is made of."""
        ratio, shift = self.ratio, self.shift
        if ratio is None:
            return [(self._rounded(b.maker.index(at)), None)]
        by = (ratio * shift).denominator * ratio.denominator
        place = b.maker.index(at.scaled(int(ratio * by)).shifted(int(ratio * shift * by)))
        if by > 1:
            place = place.op("floordiv", b.maker.const(by, "i64"))
        if math.floor((self.count - 1 + shift) * ratio) >= self.size:
            place = (place < self.size).where(place, self.size - 1)
        return [(place, None)]

    def _rounded(self, here: Term) -> Term:
        """The place as torch's kernels compute it."""
        ratio = rounded(_ratio(self.scale, self.size, self.count), "f32")
        if self.shift:
            place = ((here.cast("f64") + 0.5) * ratio).cast("f32")
        else:
            place = here.cast("f32") * ratio
        place = place.op("floor").cast("i64")
        return (place < self.size).where(place, self.size - 1)

    def users(self, o: int) -> list[int]:
        """The elements of the operand that number ``o`` of the result is made of."""
        return [self.table[o]]


@dataclass(frozen=True)
class Linear:
    """The same where the two elements around a place are mixed. ``dtype``: what places and weights are computed in."""

    size: int
    count: int
    aligned: bool
    scale: float | None
    dtype: str

    @property
    def ratio(self) -> float:
        if self.aligned:
            return (self.size - 1) / (self.count - 1) if self.count > 1 else 0.0
        return _ratio(self.scale, self.size, self.count)

    def sources(self, b: Elements, at: Affine) -> list[tuple[Term, Term | None]]:
        here = b.maker.index(at)
        if self.size == self.count:
            return [(here, None)]
        real = here.cast(self.dtype)
        if self.aligned:
            real = real * self.ratio
        else:
            real = (real + 0.5) * self.ratio - 0.5
            real = (real < 0).where(0.0, real)
        first = real.cast("i64")
        first = (first < self.size - 1).where(first, self.size - 1)
        second = (first < self.size - 1).where(first + 1, first)
        share = real - first.cast(self.dtype)
        share = (share > 1).where(1.0, share)
        return [(first, 1.0 - share), (second, share)]

    def users(self, o: int) -> list[int]:
        if self.size == self.count:
            return [o]
        real = o * self.ratio if self.aligned else max((o + 0.5) * self.ratio - 0.5, 0.0)
        first = min(int(real), self.size - 1)
        return [first, min(first + 1, self.size - 1)]


Dim = Nearest | Linear


def _dims(b: Elements, node: Node, kind: str, size: Sequence[Any], counts: Sequence[Any], settings: Sequence[Any]) -> list[Dim]:  # fmt: skip
    """``settings``: what follows the sizes among an op's arguments."""
    known = [*size, *counts, *(s for s in settings if s is not None)]
    if node.kwargs or not all(isinstance(n, (int, float)) for n in known) or 0 in known[: 2 * len(size)]:  # fmt: skip
        raise Unsupported("a size or ratio that only the run knows")
    rank = len(size)
    if kind in _NEAREST:
        scales = (*settings, *[None] * rank)[:rank]
        return [Nearest(n, m, _NEAREST[kind][1], s) for n, m, s in zip(size, counts, scales)]
    dtype = b.dtype(node.args[0])
    if dtype in INTEGERS:
        raise Unsupported("a mix of integers")
    scales = (*settings[1:], *[None] * rank)[:rank]
    made = "f64" if dtype == "f64" else "f32"
    return [Linear(n, m, bool(settings[0]), s, made) for n, m, s in zip(size, counts, scales)]


def _product(weights: Sequence[Term | None]) -> Term | None:
    found = None
    for w in weights:
        if w is not None:
            found = w if found is None else found * w
    return found


def _forward(b: Elements, node: Node, which: int, index: Index) -> Term:
    kind = node.op.split(".")[1]
    x, counts, *settings = node.args
    dims = _dims(b, node, kind, b.size(x)[2:], counts, settings)
    outer = index[:2]
    if kind in _NEAREST:
        places = [d.sources(b, at)[0][0] for d, at in zip(dims, index[2:])]
        return b.at(x, (*outer, *map(located, places)))
    return _mixed(b, x, outer, [d.sources(b, at) for d, at in zip(dims, index[2:])])


def _mixed(b: Elements, x: Any, at: Index, parts: list[list[tuple[Term, Term | None]]]) -> Term:
    """Mixes the elements at ``parts`` of the dims behind ``at``, the last dim first."""
    if not parts:
        return b.compute_at(x, at)
    total = None
    for place, weight in parts[0]:
        found = _mixed(b, x, (*at, located(place)), parts[1:])
        found = found if weight is None else found * weight.cast(found.dtype)
        total = found if total is None else total + found
    assert total is not None
    return total


def _window(d: Dim) -> range:
    """Where, from ``i * count // size`` on, the elements are that are made of element ``i``."""
    away = [o - i * d.count // d.size for o in range(d.count) for i in d.users(o)]
    return range(min(away), max(away) + 1)


def _made_of(b: Elements, d: Dim, at: Affine, window: range) -> list[tuple[Term, Term, Term | None]]:  # fmt: skip
    """(place, whether it exists and is made of the element ``at``, with which weight) of each element of the result that may be."""
    i = b.maker.index(at)
    by = math.gcd(d.count, d.size)
    begin = i * (d.count // by) if d.size == by else (i * (d.count // by)).op("floordiv", b.maker.const(d.size // by, "i64"))  # fmt: skip
    found = []
    for k in window:
        o = begin + k
        exists = (o >= 0) & (o < d.count)
        place = exists.where(o, 0)
        for source, weight in d.sources(b, located(place)):
            found.append((place, exists & (source == i), weight))
    return found


def _backward(b: Elements, node: Node, which: int, index: Index) -> Term:
    kind = node.op.split(".")[1].removesuffix("_backward")
    grad, counts, size, *settings = node.args
    dims = _dims(b, node, kind, size[2:], counts, settings)
    windows = [_window(d) for d in dims]
    if math.prod(len(w) for w in windows) > MOST:
        raise Unsupported("a large window")
    total = None
    for parts in itertools.product(*(_made_of(b, d, at, w) for d, at, w in zip(dims, index[2:], windows))):  # fmt: skip
        exists = functools.reduce(lambda x, y: x & y, (p[1] for p in parts))
        g = b.compute_at(grad, (*index[:2], *(located(p[0]) for p in parts)))
        weight = _product([p[2] for p in parts])
        new = exists.where(g if weight is None else g * weight.cast(g.dtype), 0)
        total = new if total is None else total + new
    assert total is not None
    return total


for _name in (*_NEAREST, *_LINEAR):
    row(f"aten.{_name}.default", 0)(_forward)
    row(f"aten.{_name}_backward.default", 0)(_backward)
