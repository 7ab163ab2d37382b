"""ONNX entries for ops that read or write at places: masks, scatters, copies and sums at an index."""

from __future__ import annotations

from typing import Any

import torch

from ..graph.ir import Node, Value
from .onnx_ops import dim_of, entry, out_dtype, rank_of


def where_true(w: Any, mask: Value) -> str:
    """The places where a mask holds, a row of coordinates for each."""
    return w.emit("Transpose", w.emit("NonZero", w.value(mask, torch.bool), dtype=torch.int64), perm=[1, 0])  # fmt: skip


@entry("aten.nonzero.default")
def _nonzero(w, node, x):
    return where_true(w, x)


@entry("aten.masked_select.default")
def _masked_select(w, node, x, mask):
    shape = w.emit("Shape", w.emit("Add", w.emit("Mul", w.value(x), w.constant(0, out_dtype(node))), w.value(mask, out_dtype(node))), dtype=torch.int64)  # fmt: skip
    wide = [w.emit("Expand", w.value(v), shape) for v in (x, mask)]
    places = w.emit("Transpose", w.emit("NonZero", wide[1], dtype=torch.int64), perm=[1, 0])
    return w.emit("GatherND", wide[0], places)


def coordinates(w: Any, node: Node, indices: Any) -> str:
    """Indices of the leading dimensions as rows of coordinates."""
    places = [k for k, i in enumerate(indices) if i is not None]
    masks = [indices[k] for k in places if indices[k].type.dtype in (torch.bool, torch.uint8)]
    if places != list(range(len(places))) or (masks and len(places) > 1):
        raise w.error(f"{node.op} with a mask among other indices, or with indices that do not lead")  # fmt: skip
    if masks:
        return where_true(w, masks[0])
    shape = w.constant(0)
    for k in places:
        shape = w.emit("Add", shape, w.emit("Mul", w.value(indices[k], torch.int64), w.constant(0)))
    last = w.constant([-1])
    rows = [w.emit("Unsqueeze", w.emit("Add", shape, w.value(indices[k], torch.int64)), last) for k in places]  # fmt: skip
    return w.emit("Concat", *rows, axis=-1)


@entry("aten.index.Tensor")
def _index(w, node, x, indices):
    return w.emit("GatherND", w.value(x), coordinates(w, node, indices), dtype=out_dtype(node))


@entry("aten.index_put.default")
def _index_put(w, node, x, indices, values, accumulate=False):
    rows = coordinates(w, node, indices)
    x = w.value(x)
    shape = w.emit("Shape", w.emit("GatherND", x, rows), dtype=torch.int64)
    spread = w.emit("Expand", w.value(values, out_dtype(node)), shape)
    return w.emit("ScatterND", x, from_front(w, rows, x), spread, reduction="add" if accumulate else "none")  # fmt: skip


def from_front(w: Any, rows: str, x: str) -> str:
    """Coordinates counted from the front: some runtimes do not scatter to negative ones."""
    count = w.emit("Shape", rows, dtype=torch.int64)
    last = w.emit("Gather", count, w.constant([-1]), axis=0)
    sizes = w.emit("Slice", w.emit("Shape", x, dtype=torch.int64), w.constant([0]), last)
    back = w.emit("Less", rows, w.constant(0), dtype=torch.bool)
    return w.emit("Where", back, w.emit("Add", rows, sizes), rows, dtype=torch.int64)


def _rows_like(w: Any, x: Value, dim: int, index: Value) -> str:
    """A 1-d index along ``dim`` spread over the other dimensions."""
    shape = w.emit("Shape", w.value(x), dtype=torch.int64)
    count = w.emit("Reshape", w.emit("Size", w.value(index), dtype=torch.int64), w.constant([1]))
    before = w.emit("Slice", shape, w.constant([0]), w.constant([dim]))
    after = w.emit("Slice", shape, w.constant([dim + 1]), w.constant([rank_of(x)]))
    line = w.emit("Reshape", w.value(index, torch.int64), w.constant([-1] + [1] * (rank_of(x) - dim - 1)))  # fmt: skip
    return w.emit("Expand", line, w.emit("Concat", before, count, after, axis=0))


@entry("aten.index_copy.default aten.index_add.default aten.index_fill.int_Scalar")
def _index_write(w, node, x, dim, index, source, alpha=1):
    dim = dim_of(dim, x)
    places = _rows_like(w, x, dim, index)
    rows = w.value(source, out_dtype(node))
    if alpha != 1:
        rows = w.emit("Mul", rows, w.value(alpha, out_dtype(node)))
    if not isinstance(source, Value):
        rows = w.emit("Expand", rows, w.emit("Shape", places, dtype=torch.int64))
    how = "add" if node.op.startswith("aten.index_add") else "none"
    return w.emit("ScatterElements", w.value(x), places, rows, axis=dim, reduction=how)


@entry("aten.scatter.src aten.scatter_add.default aten.scatter.value")
def _scatter(w, node, x, dim, index, source):
    places = w.value(index, torch.int64)
    shape = w.emit("Shape", places, dtype=torch.int64)
    rows = w.value(source, out_dtype(node))
    if isinstance(source, Value) and rank_of(source):
        ends = w.constant([0] * rank_of(source))
        rows = w.emit("Slice", rows, ends, shape)
    else:
        rows = w.emit("Expand", rows, shape)
    how = "add" if "scatter_add" in node.op else "none"
    return w.emit("ScatterElements", w.value(x), places, rows, axis=dim_of(dim, x), reduction=how)


@entry("aten.slice_scatter.default")
def _slice_scatter(w, node, x, source, dim=0, start=None, end=None, step=1):
    """The rows of the source at the places that the slice of 0, 1, ... gives."""
    dim = dim_of(dim, x)
    base, one = w.value(x), w.constant([1])
    size = w.emit("Gather", w.emit("Shape", base, dtype=torch.int64), w.constant(dim), axis=0)
    line = w.emit("Range", w.constant(0), size, w.constant(1))
    far = torch.iinfo(torch.int64).max
    ends = [w.emit("Reshape", w.value(v, torch.int64), one) for v in (0 if start is None else start, far if end is None else end)]  # fmt: skip
    places = w.emit("Slice", line, *ends, w.constant([0]), w.constant([step]))
    rows = w.value(source, out_dtype(node))
    spread = w.emit("Reshape", places, w.constant([-1] + [1] * (rank_of(x) - dim - 1)))
    spread = w.emit("Expand", spread, w.emit("Shape", rows, dtype=torch.int64))
    return w.emit("ScatterElements", base, spread, rows, axis=dim)


@entry("aten.flip.default")
def _flip(w, node, x, dims):
    dims = [dim_of(d, x) for d in dims]
    least = [torch.iinfo(torch.int64).min] * len(dims)
    return w.emit("Slice", w.value(x), w.constant([-1] * len(dims)), w.constant(least), w.constant(dims), w.constant([-1] * len(dims))) if dims else w.value(x)  # fmt: skip


@entry("aten.repeat.default")
def _repeat(w, node, x, repeats):
    name, more = w.value(x), len(repeats) - rank_of(x)
    if more:
        name = w.emit("Unsqueeze", name, w.constant(list(range(more))))
    if all(isinstance(r, int) for r in repeats):
        return w.emit("Tile", name, w.constant(list(repeats)))
    one = w.constant([1])
    counts = w.emit("Concat", *(w.emit("Reshape", w.value(r, torch.int64), one) for r in repeats), axis=0)  # fmt: skip
    return w.emit("Tile", name, counts)


@entry("aten.constant_pad_nd.default")
def _pad(w, node, x, pad, value=0):
    rank = rank_of(x)
    low, high = [0] * rank, [0] * rank
    for k in range(len(pad) // 2):
        low[rank - 1 - k], high[rank - 1 - k] = pad[2 * k], pad[2 * k + 1]
    return w.emit("Pad", w.value(x), w.constant(low + high), w.value(value, out_dtype(node)))


@entry("aten.sort.default aten.sort.stable")
def _sort(w, node, x, dim=-1, descending=False, stable=None):
    name, axis = w.value(x), dim_of(dim, x)
    size = w.emit("Gather", w.emit("Shape", name, dtype=torch.int64), w.constant([axis]), axis=0)
    made = w.emit("TopK", name, size, count=2, axis=axis, largest=int(descending), sorted=1)
    w.dtypes[made[1]] = torch.int64
    return made


@entry("tg.choose")
def _choose(w, node, tag, options):
    """One of several numbers."""
    dtype = out_dtype(node)
    out = w.value(options[-1], dtype)
    for i, x in enumerate(options[:-1]):
        here = w.emit("Equal", w.value(tag, torch.int64), w.constant(i), dtype=torch.bool)
        out = w.emit("Where", here, w.value(x, dtype), out, dtype=dtype)
    return out
