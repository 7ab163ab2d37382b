"""ONNX entries for ops that show the same elements otherwise: views, pieces, joins and rows by an index."""

from __future__ import annotations

import torch

from .onnx_ops import as_sizes, dim_of, entry, out_dtype, rank_of


@entry("aten.view.default aten._unsafe_view.default aten.reshape.default")
def _view(w, node, x, size):
    return w.emit("Reshape", w.value(x), as_sizes(w, size), allowzero=int(-1 not in list(size)))


@entry("aten.expand.default")
def _expand(w, node, x, size, implicit=False):
    return w.emit("Expand", w.value(x), as_sizes(w, [1 if type(n) is int and n == -1 else n for n in size]))  # fmt: skip


@entry("aten.t.default")
def _t(w, node, x):
    return w.emit("Transpose", w.value(x)) if rank_of(x) == 2 else w.value(x)


@entry("aten.transpose.int")
def _transpose(w, node, x, a, b):
    order = list(range(rank_of(x)))
    a, b = dim_of(a, x), dim_of(b, x)
    if order:
        order[a], order[b] = order[b], order[a]
    return w.emit("Transpose", w.value(x), perm=order)


@entry("aten.permute.default")
def _permute(w, node, x, dims):
    return w.emit("Transpose", w.value(x), perm=[dim_of(d, x) for d in dims])


@entry("aten.unsqueeze.default")
def _unsqueeze(w, node, x, dim):
    return w.emit("Unsqueeze", w.value(x), w.constant([dim_of(dim, x, 1)], torch.int64))


@entry("aten.squeeze.dim aten.squeeze.dims aten.squeeze.default")
def _squeeze(w, node, x, dim=None):
    dims = range(rank_of(x)) if dim is None else dim if isinstance(dim, (list, tuple)) else [dim]
    gone = [dim_of(d, x) for d in dims if rank_of(x) and x.type.shape[dim_of(d, x)] == 1]
    return w.emit("Squeeze", w.value(x), w.constant(gone, torch.int64)) if gone else w.value(x)


@entry("aten.select.int")
def _select(w, node, x, dim, index):
    return w.emit("Gather", w.value(x), w.value(index, torch.int64), axis=dim_of(dim, x))


@entry("aten.slice.Tensor")
def _slice(w, node, x, dim=0, start=None, end=None, step=1):
    one = w.constant([1], torch.int64)
    far = torch.iinfo(torch.int64).max
    bounds = [w.emit("Reshape", w.value(v, torch.int64), one) for v in (0 if start is None else start, far if end is None else end)]  # fmt: skip
    return w.emit("Slice", w.value(x), *bounds, w.constant([dim_of(dim, x)]), w.constant([step]))


@entry("aten.cat.default")
def _cat(w, node, xs, dim=0):
    return w.emit(
        "Concat", *(w.value(x, out_dtype(node)) for x in xs), axis=dim_of(dim, node.outputs[0])
    )


@entry("aten.stack.default")
def _stack(w, node, xs, dim=0):
    dim = dim_of(dim, node.outputs[0])
    rows = [w.emit("Unsqueeze", w.value(x, out_dtype(node)), w.constant([dim])) for x in xs]
    return w.emit("Concat", *rows, axis=dim)


@entry("aten.unbind.int")
def _unbind(w, node, x, dim=0):
    return [w.emit("Gather", w.value(x), w.constant(i), axis=dim_of(dim, x)) for i in range(len(node.outputs))]  # fmt: skip


@entry("aten.split.Tensor aten.unsafe_split.Tensor aten.split_with_sizes.default")
def _split(w, node, x, size, dim=0):
    sizes = [v.type.shape[dim_of(dim, x)] for v in node.outputs]
    made = w.emit("Split", w.value(x), w.constant(sizes), count=len(sizes), axis=dim_of(dim, x))
    return made if isinstance(made, list) else [made]


@entry("aten.embedding.default")
def _embedding(w, node, weight, index, *args, **kwargs):
    return w.emit("Gather", w.value(weight), w.value(index), axis=0)


@entry("aten.index_select.default")
def _index_select(w, node, x, dim, index):
    return w.emit("Gather", w.value(x), w.value(index), axis=dim_of(dim, x))


@entry("aten.gather.default")
def _gather(w, node, x, dim, index, **kwargs):
    return w.emit("GatherElements", w.value(x), w.value(index, torch.int64), axis=dim_of(dim, x))


@entry("aten.select_scatter.default")
def _select_scatter(w, node, x, source, dim, index):
    """Where the position along the dimension is the index, the source; else the tensor."""
    dim = dim_of(dim, x)
    base = w.value(x)
    size = w.emit("Gather", w.emit("Shape", base, dtype=torch.int64), w.constant(dim), axis=0)
    at = w.value(index, torch.int64)
    at = w.emit("Where", w.emit("Less", at, w.constant(0), dtype=torch.bool), w.emit("Add", at, size), at, dtype=torch.int64)  # fmt: skip
    line = w.emit("Range", w.constant(0), size, w.constant(1))
    column = w.emit("Reshape", w.emit("Equal", line, at, dtype=torch.bool), w.constant([-1] + [1] * (rank_of(x) - dim - 1)))  # fmt: skip
    row = w.emit("Unsqueeze", w.value(source, out_dtype(node)), w.constant([dim]))
    return w.emit("Where", column, row, base, dtype=out_dtype(node))


@entry("py.size")
def _size(w, node, x, dim):
    return w.emit("Gather", w.emit("Shape", w.value(x), dtype=torch.int64), w.constant(dim_of(dim, x)), axis=0)  # fmt: skip


@entry("py.range_length")
def _range_length(w, node, start, stop, step):
    start, stop, step = (w.value(v, torch.int64) for v in (start, stop, step))
    line = w.emit("Range", start, stop, step)
    return w.emit("Gather", w.emit("Shape", line, dtype=torch.int64), w.constant(0), axis=0)


@entry("aten.tril.default aten.triu.default")
def _triangle(w, node, x, diagonal=0):
    upper = int(node.op == "aten.triu.default")
    return w.emit("Trilu", w.value(x), w.constant(diagonal), upper=upper)
