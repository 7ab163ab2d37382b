"""Views of tensors of open size, items of these, and writes to them.

A view keeps a dim of open size where the elements before it and after it stay the same number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..graph.ir import Node, Value
from ..graph.types import BOOL, INT
from ..kernels.loop_ir import Unsupported
from .bounded_sizes import emit, is_open, open_sizes
from .bounding import Bounding, Handler, Rep, adder
from .forms import Padded, Plain

HANDLERS: dict[str, Handler] = {}
handler = adder(HANDLERS)


def _view_of(order: Callable[[Node, int], Sequence[int | None]]) -> Handler:
    """A view whose dims are those of the source in another order; None for a new dim of 1."""

    def run(b: Bounding, node: Node) -> list[Rep]:
        if not is_open(b, node):
            return b.closed(node)
        rep = b.of(node.args[0])
        shape = rep.form.type.shape
        places = order(node, len(shape))
        sizes = [1 if d is None else rep.sizes[d] for d in places]
        return emit(b, node, [sizes], [[1 if d is None else shape[d] for d in places]])

    return run


def _transposed(node: Node, rank: int) -> list[int]:
    order = list(range(rank))
    i, j = (d % rank for d in node.args[1:3])
    order[i], order[j] = order[j], order[i]
    return order


def _unsqueezed(node: Node, rank: int) -> list[int | None]:
    order: list[int | None] = list(range(rank))
    order.insert(node.args[1] % (rank + 1), None)
    return order


def _squeezed(node: Node, rank: int) -> list[int]:
    """A dim of open size never goes: where its size is 1, eager PyTorch would drop it."""
    dims = node.args[1] if isinstance(node.args[1], (list, tuple)) else [node.args[1]]
    shape = node.args[0].type.shape
    if any(shape[d] is None for d in dims):
        raise Unsupported("a squeeze of a size that is known only at run time")
    gone = {d % rank for d in dims if shape[d] == 1}
    return [d for d in range(rank) if d not in gone]


HANDLERS["aten.permute.default"] = _view_of(lambda node, rank: [d % rank for d in node.args[1]])
HANDLERS["aten.t.default"] = _view_of(lambda node, rank: list(range(rank))[::-1])
HANDLERS["aten.transpose.int"] = _view_of(_transposed)
HANDLERS["aten.unsqueeze.default"] = _view_of(_unsqueezed)
HANDLERS["aten.squeeze.dim"] = HANDLERS["aten.squeeze.dims"] = _view_of(_squeezed)


@handler("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default")
def _view(b: Bounding, node: Node) -> list[Rep]:
    if not is_open(b, node) and not any(isinstance(n, Value) and isinstance(b.of(n).value, Value) for n in node.args[1]):  # fmt: skip
        return b.closed(node)
    rep = b.of(node.args[0])
    wanted = [b.of(n).value if isinstance(n, Value) else n for n in node.args[1]]
    sizes, shape = _matched(b, rep, wanted)
    return emit(b, node, [sizes], [shape], (node.args[0], shape))


def _matched(b: Bounding, rep: Rep, wanted: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """(sizes, largest sizes) of a view with the sizes ``wanted``, one of which may be -1.

    Dims are taken in groups of the same number of elements. In a group the first size of the source may be open: then its
    elements are a prefix of the group's memory, and the first size of the result is open too.
    """
    source, most = rep.sizes, list(rep.form.type.shape)
    opens = [d for d, n in enumerate(source) if isinstance(n, Value)]
    sizes, shape = list(wanted), list(wanted)
    if len(opens) != 1:
        raise Unsupported("a view of several sizes that are known only at run time")
    d = opens[0]
    before, after = math.prod(most[:d]), math.prod(most[d + 1 :])
    at, count = 0, 1
    while at < len(wanted) and type(wanted[at]) is int and wanted[at] != -1 and count * wanted[at] <= before:  # fmt: skip
        count *= wanted[at]
        at += 1
    if count != before or at == len(wanted):
        raise Unsupported("a view that mixes a size that is known only at run time with others")
    rest = wanted[at + 1 :]
    if any(isinstance(n, Value) or n == -1 for n in rest):
        raise Unsupported("a view that mixes a size that is known only at run time with others")
    inner = math.prod(rest)
    if after % max(inner, 1):
        raise Unsupported("a view that mixes a size that is known only at run time with others")
    factor = after // max(inner, 1)
    if wanted[at] != -1 and not (wanted[at] is source[d] and factor == 1):
        raise Unsupported("a view to a size that is known only at run time")
    sizes[at], shape[at] = (
        b.number("py.mul", source[d], factor) if factor != 1 else source[d],
        most[d] * factor,
    )
    return sizes, shape


@handler("aten.expand.default")
def _expand(b: Bounding, node: Node) -> list[Rep]:
    wanted = [b.of(n).value if isinstance(n, Value) else n for n in node.args[1]]
    if not is_open(b, node) and not any(isinstance(n, Value) for n in wanted):
        return b.closed(node)
    rep = b.of(node.args[0])
    lead = len(wanted) - len(rep.sizes)
    source = [1] * lead + rep.sizes
    most = [1] * lead + list(rep.form.type.shape)
    sizes, shape = [], []
    for n, have, top in zip(wanted, source, most):
        if have == 1 and isinstance(n, Value):
            sizes.append(n)
            shape.append(b.most(n))
            continue
        if n is not have and n not in (have, -1) and (have != 1 or isinstance(n, Value)):
            raise Unsupported("an expansion to a size that is known only at run time")
        sizes.append(have if n == -1 or n is have else n)
        shape.append(top if n == -1 or n is have else n)
    return emit(b, node, [sizes], [shape], (node.args[0], shape))


@handler("aten.slice.Tensor")
def _slice(b: Bounding, node: Node) -> list[Rep]:
    """``x[:n]`` is the whole memory, and a size; other slices of known dims are what they are, and of known sizes are looked up."""
    x, d, start, stop, step = (*node.args, *(0, None, None, 1)[len(node.args) - 1 :])
    rep = b.of(x)
    rank = len(rep.sizes)
    d %= rank
    start, stop, step = (b.plain(n) for n in (0 if start is None else start, stop, step))
    size = rep.size(d)
    known = all(n is None or type(n) is int for n in (start, stop, step))
    if known and type(size) is int:
        if not is_open(b, node):
            return b.closed(node)
        shape = list(rep.form.type.shape)
        shape[d] = len(range(*slice(start, stop, step).indices(size)))
        return emit(
            b, node, [[shape[d] if i == d else n for i, n in enumerate(rep.sizes)]], [shape]
        )
    known = node.outputs[0].type.shape[d] is not None and step == 1 and type(step) is int
    # What is given to the caller shares memory with ``x``.
    if known and b.graph is not None and node.outputs[0] not in b.graph.outputs:
        return _looked_up(b, node, rep, d, start)
    if step != 1 or type(start) is not int or start < 0:
        raise Unsupported("a slice that starts at a place that is known only at run time")
    if start:
        return [_from(b, rep, d, start, stop)]
    whole = stop is None or (type(stop) is int and stop >= (1 << 62))
    n = size if whole else b.emit("py.slice_stop", (stop, size), INT)
    return [
        b.sized(rep.parts[0], open_sizes([n if i == d else m for i, m in enumerate(rep.sizes)]))
    ]


def _from(b: Bounding, rep: Rep, d: int, start: int, stop: Any) -> Rep:
    """``x[start:stop]``: the memory behind ``start``, and what is left of the size."""
    shape, size = list(rep.form.type.shape), rep.size(d)
    if stop is not None and not (type(stop) is int and stop >= (1 << 62)):
        size = b.emit("py.slice_stop", (stop, size), INT)
    start = min(start, shape[d])
    x, shape[d] = rep.parts[0], shape[d] - start
    if start:
        x = b.emit("aten.slice.Tensor", (x, d, start, start + shape[d]), b.tensor(x.type.dtype, *shape))  # fmt: skip
    left = b.number("py.sub", size, start)
    left = b.emit("py.max", (left, 0), INT) if isinstance(left, Value) else max(left, 0)
    return b.sized(x, open_sizes([left if i == d else n for i, n in enumerate(rep.sizes)]))


def _looked_up(b: Bounding, node: Node, rep: Rep, d: int, start: Any) -> list[Rep]:
    """A slice of a known size from a place that the run tells: its elements are looked up by their positions, as kernels do."""
    shape = list(rep.form.type.shape)
    most, shape[d] = shape[d], node.outputs[0].type.shape[d]
    places = b.tensor(torch.int64, shape[d])
    at = b.emit("aten.arange.default", (shape[d],), places, device=torch.device(b.device))
    negative = b.emit("py.int", (b.emit("py.lt", (start, 0), BOOL),), INT)
    first = b.number("py.add", start, b.number("py.mul", negative, rep.size(d)))
    at = b.emit("aten.add.Tensor", (at, first), places)
    at = b.emit("aten.clamp.default", (at, 0, max(most - 1, 0)), places)
    kind = b.tensor(rep.form.type.dtype, *shape)
    whole = b.emit("aten.index_select.default", (rep.value, d, at), kind)
    return [
        b.sized(whole, open_sizes([shape[d] if i == d else n for i, n in enumerate(rep.sizes)]))
    ]


@handler("aten.select.int")
def _select(b: Bounding, node: Node) -> list[Rep]:
    rep = b.of(node.args[0])
    if not isinstance(rep.form, Padded):
        return b.closed(node)
    d, i = node.args[1] % len(rep.sizes), b.plain(node.args[2])
    shape = list(rep.form.type.shape)
    place = b.position(i, rep.size(d)) if isinstance(rep.size(d), Value) else i
    left = [n for k, n in enumerate(rep.sizes) if k != d]
    return emit(b, node, [left], [shape[:d] + shape[d + 1 :]], (node.args[0], d, place))


@handler("aten.unbind.int")
def _unbind(b: Bounding, node: Node) -> list[Rep]:
    """Items of a dim whose size is known."""
    rep = b.of(node.args[0])
    d = (node.args[1] if len(node.args) > 1 else 0) % len(rep.sizes)
    if not isinstance(rep.form, Padded) or isinstance(rep.sizes[d], Value):
        return b.closed(node)
    left = [n for k, n in enumerate(rep.sizes) if k != d]
    shape = [n for k, n in enumerate(rep.form.type.shape) if k != d]
    kind = b.tensor(rep.form.type.dtype, *shape)
    parts = (b.emit("aten.select.int", (rep.parts[0], d, i), kind) for i in range(rep.sizes[d]))
    return [b.sized(part, open_sizes(left)) for part in parts]


@handler("aten.select_scatter.default")
def _select_scatter(b: Bounding, node: Node) -> list[Rep]:
    rep = b.of(node.args[0])
    if not is_open(b, node):
        return b.closed(node)
    d, i = node.args[2] % len(rep.sizes), b.plain(node.args[3])
    left = [n for k, n in enumerate(rep.sizes) if k != d]
    if b.of(node.args[1]).sizes != left:
        raise Unsupported("sizes that are equal only at run time")
    place = b.position(i, rep.size(d)) if isinstance(rep.size(d), Value) else i
    return emit(b, node, [rep.sizes], [rep.form.type.shape], (*node.args[:2], d, place))


@handler("aten.select_backward.default")
def _select_backward(b: Bounding, node: Node) -> list[Rep]:
    """A gradient in zeros, at a place that only the run knows."""
    g, _, d, at = node.args
    i, out = b.plain(at), node.outputs[0].type
    if not isinstance(i, Value) or None in out.shape:
        return b.closed(node)
    d %= len(out.shape)
    args = (b.zeros(out), b.plain(g), d, b.position(i, out.shape[d]))
    return [Rep(Plain(out), [b.emit("aten.select_scatter.default", args, out)])]


@handler("aten.cat.default")
def _cat(b: Bounding, node: Node) -> list[Rep]:
    if not is_open(b, node):
        return _known(b, node)
    first, *rest = map(b.of, node.args[0])
    d = (node.args[1] if len(node.args) > 1 else 0) % len(first.sizes)
    for other in rest:
        shapes = [r.form.type.shape for r in (first, other)]
        sizes = [r.sizes for r in (first, other)]
        if any(s[:d] != t[:d] or s[d + 1 :] != t[d + 1 :] for s, t in (shapes, sizes)):
            raise Unsupported("tensors joined along a size that is known only at run time")
        first = _behind(b, first, other, d)
    return [first]


def _known(b: Bounding, node: Node) -> list[Rep]:
    """Tensors of known sizes, in a trace that did not know them."""
    shapes = [b.of(v).form.type.shape for v in node.args[0]]
    d = (node.args[1] if len(node.args) > 1 else 0) % len(shapes[0])
    shape = [sum(s[d] for s in shapes) if i == d else n for i, n in enumerate(shapes[0])]
    return emit(b, node, [shape], [shape])


def _behind(b: Bounding, x: Rep, y: Rep, d: int) -> Rep:
    """``y`` behind the size of ``x`` in a dim."""
    n, shape = x.size(d), list(x.form.type.shape)
    both = b.tensor(x.form.type.dtype, *shape[:d], shape[d] + y.form.type.shape[d], *shape[d + 1 :])
    whole = b.emit("aten.cat.default", ([x.value, y.value], d), both)
    if isinstance(
        n, Value
    ):  # the element at i is that of x, or of y at i - n, which lies behind the largest size of x
        places = b.tensor(torch.int64, both.shape[d])
        i = b.emit("aten.arange.default", (both.shape[d],), places, device=torch.device(b.device))
        moved = b.emit("aten.add.Tensor", (i, b.number("py.sub", shape[d], n)), places)
        moved = b.emit("aten.clamp.default", (moved, 0, both.shape[d] - 1), places)
        inside = b.emit("aten.lt.Scalar", (i, n), b.tensor(torch.bool, both.shape[d]))
        order = b.emit("aten.where.self", (inside, i, moved), places)
        whole = b.emit("aten.index_select.default", (whole, d, order), both)
    total = b.number("py.add", n, y.size(d))
    return b.sized(whole, open_sizes([total if k == d else m for k, m in enumerate(x.sizes)]))
