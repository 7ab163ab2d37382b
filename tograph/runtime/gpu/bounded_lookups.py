"""Positions of open size: what looks them up, and what adds at them.

Positions beyond the size are any content: they become position 0, and what is looked up there lies beyond the size of the result. Where
the dim that is looked up is open itself, a position out of its size is in the memory all the same: the run fails there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from ..graph.ir import Node, Value
from ..graph.types import BOOL
from ..kernels.loop_ir import Unsupported
from .bounded_sizes import emit, is_open, masked, open_sizes
from .bounding import Bounding, Handler, adder
from .forms import Padded, Rep

HANDLERS: dict[str, Handler] = {}
handler = adder(HANDLERS)


def _positions(b: Bounding, rep: Rep, size: Any) -> Value:
    """Positions in ``size`` items: 0 for those that lie beyond."""
    if rep.form.type.dtype in (torch.bool, torch.uint8):
        raise Unsupported("a mask of a size that is known only at run time")
    if size == 0:
        raise Unsupported("positions of nothing")
    at = masked(b, rep, range(len(rep.sizes)), 0)
    if not isinstance(size, Value):
        return at
    kind, truths = at.type, b.tensor(torch.bool, *at.type.shape)
    negative = b.emit("aten.lt.Scalar", (at, 0), truths)
    from_end = b.emit("aten.add.Scalar", (at, size), kind)
    at = b.emit("aten.where.self", (negative, from_end, at), kind)
    low, high = b.emit("aten.lt.Scalar", (at, 0), truths), b.emit("aten.ge.Scalar", (at, size), truths)  # fmt: skip
    out = Rep(
        replace(rep.form, type=truths),
        [b.emit("aten.logical_or.default", (low, high), truths), *rep.parts[1:]],
    )
    wrong = masked(b, out, range(len(rep.sizes)), False)
    found = b.emit("aten.any.default", (wrong,), b.tensor(torch.bool))
    b.require(b.emit("py.not", (b.emit("py.truth", (found,), BOOL),), BOOL))
    none = b.emit("aten.zeros_like.default", (at,), kind)
    return b.emit("aten.where.self", (wrong, none, at), kind)


def _looked_up(b: Bounding, node: Node, x: Value, d: int, ids: Value) -> tuple[list[list[Any]], list[list[int]], Value]:  # fmt: skip
    """(sizes, largest sizes, positions) of the items ``ids`` of dim ``d``."""
    rep, at = b.of(x), b.of(ids)
    sizes, most = list(rep.sizes), list(rep.form.type.shape)
    made = _positions(b, at, sizes[d])
    return (
        [[*sizes[:d], *at.sizes, *sizes[d + 1 :]]],
        [[*most[:d], *at.form.type.shape, *most[d + 1 :]]],
        made,
    )


@handler("aten.embedding.default")
def _embedding(b: Bounding, node: Node) -> list[Rep]:
    if not is_open(b, node):
        return b.closed(node)
    weight, ids, *rest = node.args
    sizes, most, at = _looked_up(b, node, weight, 0, ids)
    return emit(b, node, sizes, most, (weight, at, *rest))


@handler("aten.index_select.default")
def _index_select(b: Bounding, node: Node) -> list[Rep]:
    if not is_open(b, node):
        return b.closed(node)
    x, d, ids = node.args
    d %= len(b.of(x).sizes)
    if not b.of(ids).sizes:
        raise Unsupported("an item of a size that is known only at run time")
    sizes, most, at = _looked_up(b, node, x, d, ids)
    return emit(b, node, sizes, most, (x, d, at))


def _one(indices: Sequence[Any]) -> int:
    """The dim of the only tensor of positions."""
    found = [d for d, i in enumerate(indices) if i is not None]
    if len(found) != 1:
        raise Unsupported("positions in several dims of a size that is known only at run time")
    return found[0]


@handler("aten.index.Tensor", "aten._unsafe_index.Tensor")
def _index(b: Bounding, node: Node) -> list[Rep]:
    if not is_open(b, node):
        return b.closed(node)
    x, indices = node.args
    if sum(i is not None for i in indices) > 1:
        return _together(b, node)
    d = _one(indices)
    sizes, most, at = _looked_up(b, node, x, d, indices[d])
    return emit(b, node, sizes, most, (x, [at if k == d else None for k, _ in enumerate(indices)]))


def _together(b: Bounding, node: Node) -> list[Rep]:
    """Items at rows of positions, one in each of several dims: ``log_p[mask, labels[mask]]``."""
    x, indices = node.args
    rep, dims = b.of(x), [d for d, i in enumerate(indices) if i is not None]
    at = {d: b.of(indices[d]) for d in dims}
    first, *rest = at.values()
    for other in rest:
        if len(first.sizes) != 1 or list(other.form.type.shape) != list(first.form.type.shape):
            raise Unsupported("positions in several dims of a size that is known only at run time")
        b.same(first.sizes[0], other.sizes[0])
    made = {d: _positions(b, r, rep.sizes[d]) for d, r in at.items()}
    start = dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0
    found = []
    for all_, own in ((rep.sizes, first.sizes), (rep.form.type.shape, first.form.type.shape)):
        kept = [n for d, n in enumerate(all_) if d not in dims]
        found.append([[*kept[:start], *own, *kept[start:]]])
    sizes, most = found
    return emit(b, node, sizes, most, (x, [made.get(d) for d in range(len(indices))]))


@handler("aten.embedding_dense_backward.default")
def _embedding_backward(b: Bounding, node: Node) -> list[Rep]:
    """What lies beyond adds zeros to the first item."""
    if not is_open(b, node):
        return b.closed(node)
    grad, ids, count, *rest = node.args
    at = _positions(b, b.of(ids), count)
    return emit(b, node, [node.outputs[0].type.shape], [node.outputs[0].type.shape], (_zeros_beyond(b, grad), at, count, *rest))  # fmt: skip


@handler("aten.index_put.default", "aten._unsafe_index_put.default")
def _index_put(b: Bounding, node: Node) -> list[Rep]:
    """Items that are added at positions."""
    if not is_open(b, node):
        return b.closed(node)
    x, indices, values, *rest = node.args
    d, rep = _one(indices), b.of(x)
    accumulate = rest[0] if rest else node.kwargs.get("accumulate", False)
    if not accumulate or isinstance(rep.form, Padded):
        raise Unsupported(f"{node.op} of a size that is known only at run time")
    if len(b.of(values).sizes) < len(rep.sizes) - 1 + len(b.of(indices[d]).sizes):
        raise Unsupported("one item for positions of a size that is known only at run time")
    at = _positions(b, b.of(indices[d]), rep.sizes[d])
    placed = [at if k == d else None for k, _ in enumerate(indices)]
    return emit(b, node, [rep.sizes], [rep.form.type.shape], (x, placed, _zeros_beyond(b, values), *rest))  # fmt: skip


def _zeros_beyond(b: Bounding, x: Value) -> Value:
    rep = b.of(x)
    return masked(b, rep, range(len(rep.sizes)), 0)


@handler("aten.flip.default")
def _flip(b: Bounding, node: Node) -> list[Rep]:
    """The items from the last one on; beyond the size the first one again."""
    if not is_open(b, node):
        return b.closed(node)
    x, dims = node.args
    rep = b.of(x)
    sizes, shape, made = rep.sizes, list(rep.form.type.shape), rep.parts[0]
    for d in {d % len(sizes) for d in dims}:
        if not isinstance(sizes[d], Value):
            made = b.emit("aten.flip.default", (made, [d]), made.type)
            continue
        kind = b.tensor(torch.int64, shape[d])
        items = b.emit("aten.arange.default", (shape[d],), kind, device=torch.device(b.device))
        last = b.number("py.sub", sizes[d], 1)
        at = b.emit("aten.rsub.Scalar", (items, last), kind)
        at = b.emit("aten.clamp_min.default", (at, 0), kind)
        made = b.emit("aten.index_select.default", (made, d, at), made.type)
    return [b.sized(made, open_sizes(sizes))]
