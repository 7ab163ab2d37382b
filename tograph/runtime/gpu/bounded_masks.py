"""Items where a mask holds, as many as only the run knows: ``x[mask]``, ``nonzero``, ``masked_select``, and writes there; orders of open size.

The places where a mask holds are found by counting: the running count of what holds tells the rank of each place, and a search in it the place of
each rank. So what is looked up has as much memory as all places together, and the number is the last count. A write at a mask chooses between the old
item and the new one of its rank. Ordering puts what lies beyond a size behind everything, of what compares equal too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from ..graph.ir import Node, Value
from ..graph.types import BOOL, INT
from ..kernels.loop_ir import Unsupported
from . import bounded_lookups
from .bounded_sizes import is_open, masked, open_sizes
from .bounding import Bounding, Handler, adder
from .forms import Rep

HANDLERS: dict[str, Handler] = {}
handler = adder(HANDLERS)
_MASKS = (torch.bool, torch.uint8)


class Places(NamedTuple):
    """Of a mask with ``n`` elements in a row: the place of each rank, how many hold, the rank of each place, and what holds in the mask's own shape."""

    of_rank: Value
    count: Any
    rank: Value
    truths: Value


def _places(b: Bounding, mask: Rep) -> Places:
    truths = masked(b, mask, range(len(mask.sizes)), False)
    shape = truths.type.shape
    n = math.prod(shape)
    if not shape or not n:
        raise Unsupported("the places of a mask without elements")
    if truths.type.dtype is not torch.bool:
        truths = b.emit("aten.ne.Scalar", (truths, 0), b.tensor(torch.bool, *shape))
    kind = b.tensor(torch.int64, n)
    ones = b.emit("aten._to_copy.default", (_flat(b, truths, 0, len(shape)),), kind, dtype=torch.int64)  # fmt: skip
    upto = b.emit("aten.cumsum.default", (ones, 0), kind)
    last = b.emit("aten.select.int", (upto, 0, n - 1), b.tensor(torch.int64))
    ranks = b.emit("aten.arange.start", (1, n + 1), kind, device=torch.device(b.device))
    places = b.emit("aten.searchsorted.Tensor", (upto, ranks), kind)
    at = b.emit("aten.clamp_max.default", (places, n - 1), kind)
    before = b.emit("aten.sub.Tensor", (upto, 1), kind)
    rank = b.emit("aten.clamp_min.default", (before, 0), kind)
    return Places(at, b.emit("py.int", (last,), INT), rank, truths)


def _flat(b: Bounding, x: Value, first: int, count: int) -> Value:
    """A tensor with ``count`` dims from ``first`` on as one."""
    shape = list(x.type.shape)
    if count == 1:
        return x
    row = b.emit("aten.clone.default", (x,), x.type, memory_format=torch.contiguous_format)
    return _viewed(b, row, [*shape[:first], math.prod(shape[first : first + count]), *shape[first + count :]])  # fmt: skip


def _viewed(b: Bounding, x: Value, shape: Sequence[int]) -> Value:
    if list(x.type.shape) == list(shape):
        return x
    return b.emit("aten.view.default", (x, list(shape)), replace(x.type, shape=tuple(shape)))


def _mask_among(b: Bounding, indices: Sequence[Any]) -> tuple[int, Rep] | None:
    """The only index, with its dim, where it is a mask."""
    found = [(d, b.of(i)) for d, i in enumerate(indices) if i is not None]
    if len(found) == 1 and found[0][1].form.type.dtype in _MASKS:
        return found[0]
    return None


def _fits(b: Bounding, x: Rep, d: int, mask: Rep) -> None:
    """The mask is as large as the dims that it stands for; its memory too."""
    count = len(mask.sizes)
    for size, other in zip(mask.sizes, x.sizes[d : d + count], strict=True):
        b.same(size, other)
    if list(mask.form.type.shape) != list(x.form.type.shape[d : d + count]):
        raise Unsupported("a mask with another memory than what it chooses from")


@handler("aten.index.Tensor", "aten._unsafe_index.Tensor")
def _index(b: Bounding, node: Node) -> list[Rep]:
    x, indices = node.args
    found = _mask_among(b, indices)
    if found is None:
        return bounded_lookups.HANDLERS[node.op](b, node)
    return _selected(b, b.of(x), *found)


def _selected(b: Bounding, x: Rep, d: int, mask: Rep) -> list[Rep]:
    """The items of the dims from ``d`` on for which a mask over them holds."""
    _fits(b, x, d, mask)
    count = len(mask.sizes)
    places = _places(b, mask)
    data = _flat(b, x.parts[0], d, count)
    made = b.emit("aten.index_select.default", (data, d, places.of_rank), data.type)
    sizes = [*x.sizes[:d], places.count, *x.sizes[d + count :]]
    return [b.sized(made, open_sizes(sizes))]


@handler("aten.masked_select.default")
def _masked_select(b: Bounding, node: Node) -> list[Rep]:
    x, mask = map(b.of, node.args)
    if len(x.sizes) != len(mask.sizes):
        raise Unsupported("masked_select of a mask that is spread")
    return _selected(b, x, 0, mask)


@handler("aten.nonzero.default")
def _nonzero(b: Bounding, node: Node) -> list[Rep]:
    x = b.of(node.args[0])
    kind = x.form.type
    if kind.dtype not in _MASKS:
        holds = b.emit("aten.ne.Scalar", (x.parts[0], 0), replace(kind, dtype=torch.bool))
        kind = holds.type
        x = Rep(replace(x.form, type=kind), [holds, *x.parts[1:]])
    places = _places(b, x)
    at, columns, step = places.of_rank, list[Value](), 1
    for size in reversed(kind.shape):
        place = at if step == 1 else b.emit("aten.div.Tensor_mode", (at, step), at.type, rounding_mode="floor")  # fmt: skip
        place = b.emit("aten.remainder.Scalar", (place, size), at.type)
        columns.insert(0, _viewed(b, place, [1, *at.type.shape]))
        step *= size
    (n,), count = at.type.shape, len(columns)
    made = columns[0] if count == 1 else b.emit("aten.cat.default", (columns, 0), b.tensor(torch.int64, count, n))  # fmt: skip
    by_column = b.emit("aten.t.default", (made,), b.tensor(torch.int64, n, count))
    return [b.sized(by_column, {0: places.count})]


@handler("aten.index_put.default", "aten._unsafe_index_put.default")
def _index_put(b: Bounding, node: Node) -> list[Rep]:
    """Where the mask holds the item of its rank, else the old one."""
    x, indices, values, *rest = node.args
    found = _mask_among(b, indices)
    if found is None:
        return bounded_lookups.HANDLERS[node.op](b, node)
    (d, mask), rep = found, b.of(x)
    _fits(b, rep, d, mask)
    places, old = _places(b, mask), rep.parts[0]
    behind = len(rep.sizes) - d - len(mask.sizes)
    new = _of_ranks(b, b.of(values), places, behind)
    truths = _viewed(b, places.truths, [*places.truths.type.shape, *[1] * behind])
    if rest[0] if rest else node.kwargs.get("accumulate", False):
        new = b.emit("aten.add.Tensor", (old, new), old.type)
    made = b.emit("aten.where.self", (truths, new, old), old.type)
    return [b.sized(made, open_sizes(rep.sizes))]


def _of_ranks(b: Bounding, values: Rep, places: Places, behind: int) -> Value:
    """New items for all elements of a mask: of those where it holds, in order. ``behind``: dims of an item."""
    data, d = values.parts[0], len(values.sizes) - behind - 1
    if d < 0:
        return data  # one for all
    shape, over = list(data.type.shape), list(places.truths.type.shape)
    if values.sizes[d] == 1:
        return _viewed(b, data, [*shape[:d], *[1] * len(over), *shape[d + 1 :]])
    b.same(places.count, values.sizes[d])
    if not shape[d]:
        raise Unsupported("no items for the places of a mask")
    rank = b.emit("aten.clamp_max.default", (places.rank, shape[d] - 1), places.rank.type)
    wide = [*shape[:d], math.prod(over), *shape[d + 1 :]]
    made = b.emit("aten.index_select.default", (data, d, rank), replace(data.type, shape=tuple(wide)))  # fmt: skip
    return _viewed(b, made, [*shape[:d], *over, *shape[d + 1 :]])


# ---- orders


@handler("aten.sort.default", "aten.sort.stable")
def _sort(b: Bounding, node: Node) -> list[Rep]:
    if not is_open(b, node):
        return b.closed(node)
    given = {"dim": -1, "descending": False} | dict(zip(("dim", "descending"), node.args[1:])) | node.kwargs  # fmt: skip
    return _sorted(b, node, given["dim"], given["descending"])


def _sorted(b: Bounding, node: Node, dim: int, descending: bool) -> list[Rep]:
    rep = b.of(node.args[0])
    kind, d = rep.form.type, dim % len(rep.sizes)
    last = masked(b, rep, [d], _last(kind.dtype, descending))
    values = replace(node.outputs[0].type, shape=kind.shape)
    places = replace(node.outputs[1].type, shape=kind.shape)
    made = b.emit("aten.sort.stable", (last,), values, places, stable=True, dim=d, descending=descending)  # fmt: skip
    return [b.sized(m, open_sizes(rep.sizes)) for m in made]


def _last(dtype: torch.dtype, descending: bool) -> Any:
    """What comes after all else, or compares equal to it: NaN is torch's largest."""
    if dtype is torch.bool:
        return not descending
    if dtype.is_floating_point:
        return -math.inf if descending else math.nan
    return torch.iinfo(dtype).min if descending else torch.iinfo(dtype).max


@handler("aten.topk.default")
def _topk(b: Bounding, node: Node) -> list[Rep]:
    """The first of all in order: there have to be as many."""
    if not is_open(b, node):
        return b.closed(node)
    names = "k", "dim", "largest", "sorted"
    given = {"dim": -1, "largest": True} | dict(zip(names, node.args[1:])) | node.kwargs
    rep, k = b.of(node.args[0]), given["k"]
    d = given["dim"] % len(rep.sizes)
    if type(k) is not int or k > rep.form.type.shape[d]:
        raise Unsupported("more items than there may be, or as many as only the run knows")
    if isinstance(rep.sizes[d], Value):
        b.require(b.emit("py.ge", (rep.sizes[d], k), BOOL))
    found = []
    for r in _sorted(b, node, d, given["largest"]):
        shape = [k if i == d else n for i, n in enumerate(r.form.type.shape)]
        part = b.emit("aten.slice.Tensor", (r.parts[0], d, 0, k), replace(r.form.type, shape=tuple(shape)))  # fmt: skip
        found.append(b.sized(part, open_sizes([k if i == d else n for i, n in enumerate(rep.sizes)])))  # fmt: skip
    return found
