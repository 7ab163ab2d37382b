"""Views as index maps: which element of its source an element of a view is.

``VIEWS[op](node args, source size, output size, index)`` gives the index into the source for an index into the view;
an index is one ``Affine`` per dim. A view that changes how dims are grouped may need a loop to be split in two: it then
raises ``Split``, and the kernel is built again with that loop split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .loop_ir import Affine, Unsupported

Index = tuple[Affine, ...]
ITEM = "tg.item"  # ``x.select(d, n)`` for a number of the run that surely is inside: read through as a view is
ZERO = Affine()


class Split(Exception):
    """The loop ``name`` must become two, the inner one of ``inner`` points."""

    def __init__(self, name: str, inner: int):
        super().__init__(name, inner)
        self.name, self.inner = name, inner


def regroup(
    source: Sequence[int], out: Sequence[int], index: Index, sizes: dict[str, int]
) -> Index:
    """The index into ``source`` of the element with row-major position ``index`` in ``out``."""
    linear, step = ZERO, 1
    for n, at in zip(reversed(out), reversed(index), strict=True):
        linear = linear + at.scaled(step)
        step *= n
    return delinearise(linear, source, sizes)


def delinearise(linear: Affine, source: Sequence[int], sizes: dict[str, int]) -> Index:
    """Digits of a row-major position: each term belongs to one dim, or its loop is split."""
    result: list[Affine] = []
    rest, inner = linear, 1
    for n in reversed(source):
        digit, rest = _digit(rest, inner, n, sizes)
        result.append(digit)
        inner *= n
    if not rest.constant or rest.offset:
        raise Unsupported("an index that leaves its tensor")
    return tuple(reversed(result))


def _digit(linear: Affine, inner: int, n: int, sizes: dict[str, int]) -> tuple[Affine, Affine]:
    """(``linear // inner % n``, what is left for the dims outside), where that is affine."""
    if n == 1:
        return ZERO, linear
    span = inner * n
    here, outside = [], []
    for name, factor in linear.terms:
        if type(factor) is not int or factor < 0:
            raise Unsupported("a regrouped dimension with a stride that is known only at run time")
        if factor % span == 0:
            outside.append((name, factor))
        elif factor % inner or span % factor:
            raise Unsupported("a regrouped dimension with a step")
        elif factor * sizes[name] > span:
            raise Split(name, span // factor)
        else:
            here.append((name, factor // inner))
    if linear.gathers:
        raise Unsupported("a gather in a regrouped dimension")
    offset = linear.offset % span
    if sum(f * (sizes[v] - 1) for v, f in here) + offset // inner >= n:
        raise Unsupported("an offset across a regrouped dimension")
    return Affine(tuple(here), offset // inner), Affine(tuple(outside), linear.offset - offset)


def _view(args, source, out, index, sizes):
    return regroup(source, out, index, sizes)


def _permute(args, source, out, index, sizes):
    found = [ZERO] * len(source)
    for place, d in enumerate(args[1]):
        found[d % len(source)] = index[place]
    return tuple(found)


def _transpose(args, source, out, index, sizes):
    found = list(index)
    if found:
        a, b = args[1] % len(found), args[2] % len(found)
        found[a], found[b] = found[b], found[a]
    return tuple(found)


def _t(args, source, out, index, sizes):
    return tuple(reversed(index))


def _unsqueeze(args, source, out, index, sizes):
    d = args[1] % len(out)
    return index[:d] + index[d + 1 :]


def _expand(args, source, out, index, sizes):
    return broadcast(index, source)


def broadcast(index: Index, source: Sequence[int]) -> Index:
    """The index into a tensor of size ``source`` that is broadcast to the dims of ``index``."""
    own = index[len(index) - len(source) :]
    return tuple(ZERO if n == 1 else at for at, n in zip(own, source, strict=True))


def _select(args, source, out, index, sizes):
    d, at = args[1] % len(source), args[2]
    if not isinstance(at, int):
        raise Unsupported("a selection by a number that is known only at run time")
    return (*index[:d], Affine((), at % source[d]), *index[d:])


def _slice(args, source, out, index, sizes):
    d = (args[1] if len(args) > 1 else 0) % len(source)
    start = args[2] if len(args) > 2 and args[2] is not None else 0
    step = args[4] if len(args) > 4 else 1
    if not isinstance(start, int) or not isinstance(step, int):
        raise Unsupported("a slice by a number that is known only at run time")
    start = min(max(start + source[d] if start < 0 else start, 0), source[d])
    return (*index[:d], index[d].scaled(step).shifted(start), *index[d + 1 :])


def _same(args, source, out, index, sizes):
    return index


VIEWS: dict[str, Callable[[tuple, Sequence[int], Sequence[int], Index, dict[str, int]], Any]] = {
    "aten.view.default": _view,
    "aten._unsafe_view.default": _view,
    "aten.reshape.default": _view,
    "aten.squeeze.default": _view,
    "aten.squeeze.dim": _view,
    "aten.squeeze.dims": _view,
    "aten.unsqueeze.default": _unsqueeze,
    "aten.permute.default": _permute,
    "aten.transpose.int": _transpose,
    "aten.t.default": _t,
    "aten.expand.default": _expand,
    "aten.select.int": _select,
    "aten.slice.Tensor": _slice,
    "aten.alias.default": _same,
    "aten.detach.default": _same,
    "tg.identity": _same,
}
