"""The base of a view with new content where the view shows it: the inverse of one step of a view chain.

A view that keeps all elements is undone; of one that shows some, the content is scattered; of any other view, the positions
of the base, seen through the view, tell where each element goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from ...errors import UnsupportedOpError
from ..graph.ir import Value
from ..graph.ops import overload_name
from ..inference.infer import tensor_type
from ..inference.shapes import Meta, like
from ..symbols.funcgraph import FuncGraph, user_location
from ..symbols.symbolic import View, apply_view, argument


def scatter(graph: FuncGraph, view: View, base: Value, value: Value) -> Value:
    """The base value with ``value`` in the place that the view shows."""
    name = overload_name(view.func)
    kind = tensor_type(view.base)
    args = tuple(argument(graph, a) for a in view.args)
    if name == _STRIDED and view.base.stride == like(view.base).stride:
        # The derivative that torch has of ``as_strided_scatter`` drops what lies between the elements.
        return scatter_by_index(graph, [view], base, value)
    if name in _SCATTER:
        return graph.emit(_SCATTER[name], base, value, *args, type=kind)
    if name in _INVERSE:
        return _INVERSE[name](graph, view, base, value)
    return scatter_by_index(graph, [view], base, value)


def steps(chain: Sequence[View]) -> int:
    """How many views of a chain are written through one by one: those in front of one that shows elements more than once, and of which
    only a part is written."""
    for i, view in enumerate(chain[:-1]):
        if overload_name(view.func) == _EXPAND and math.prod(_view_size(view)) != math.prod(view.base.size):  # fmt: skip
            return i
    return len(chain)


def scatter_by_index(graph: FuncGraph, views: Sequence[View], base: Value, value: Value) -> Value:
    """Any views of a static shape: viewing the positions of the base tells where each element goes."""
    view = views[0]
    if not view.base.static:
        raise UnsupportedOpError(
            f"writing through a view made by {view.func} is not supported", user_location()
        )
    count = torch.Size(view.base.size).numel()
    kind, flat = tensor_type(view.base), tensor_type(like(view.base, size=(count,)))
    places = like(view.base, torch.int64)
    device = torch.device(view.base.device)
    index = graph.emit(
        "aten.arange.default", count, type=tensor_type(like(places, size=(count,))), device=device
    )
    index = graph.emit("aten.view.default", index, list(view.base.size), type=tensor_type(places))
    shown = index
    for v in views:
        seen = like(v.base, torch.int64)
        shown = apply_view(graph, View(v.func, v.args, v.kwargs, v.index, seen), shown)
    content = graph.emit("aten.view.default", base, [count], type=flat)
    written = graph.emit("aten.index_put.default", content, [shown], value, type=flat)
    return graph.emit("aten.view.default", written, list(view.base.size), type=kind)


_EXPAND = "aten.expand.default"
_STRIDED = "aten.as_strided.default"
_SCATTER = {
    "aten.select.int": "aten.select_scatter.default",
    "aten.slice.Tensor": "aten.slice_scatter.default",
    "aten.diagonal.default": "aten.diagonal_scatter.default",
    _STRIDED: "aten.as_strided_scatter.default",
}


def _reshape_back(graph: FuncGraph, view: View, base: Value, value: Value) -> Value:
    size = [argument(graph, n) for n in view.base.size]
    return graph.emit("aten.view.default", value, size, type=tensor_type(view.base))


def _same(graph: FuncGraph, view: View, base: Value, value: Value) -> Value:
    return value


def _permute_back(graph: FuncGraph, view: View, base: Value, value: Value) -> Value:
    dims = list(view.args[0])
    rank = len(dims)
    inverse = sorted(range(rank), key=lambda i: dims[i] % rank)
    return graph.emit("aten.permute.default", value, inverse, type=tensor_type(view.base))


def _transpose_back(graph: FuncGraph, view: View, base: Value, value: Value) -> Value:
    return graph.emit(overload_name(view.func), value, *view.args, type=tensor_type(view.base))


def _expand_back(graph: FuncGraph, view: View, base: Value, value: Value) -> Value:
    """All elements that share a place are equal: only ``fill_`` and ``zero_`` write such a view (``overlap``)."""
    size, wanted = list(_view_size(view)), list(view.base.size)
    while len(size) > len(wanted):
        size.pop(0)
        kind = tensor_type(like(view.base, size=size))
        value = graph.emit("aten.select.int", value, 0, 0, type=kind)
    for dim, n in enumerate(wanted):
        if size[dim] != n:
            size[dim] = 1
            kind = tensor_type(like(view.base, size=size))
            value = graph.emit("aten.slice.Tensor", value, dim, 0, 1, type=kind)
    return value


def _view_size(view: View) -> tuple:
    out = view.shown()
    return tuple((out[view.index or 0] if isinstance(out, list) else out).size)


def _pieces(view: View) -> list[Meta]:
    return view.shown()


def _split_back(graph: FuncGraph, view: View, base: Value, value: Value) -> Value:
    dim = view.args[1] if len(view.args) > 1 else view.kwargs.get("dim", 0)
    sizes = [m.size[dim] for m in _pieces(view)]
    start = sum(sizes[: view.index])
    ends = [argument(graph, n) for n in (start, start + sizes[view.index or 0])]
    return graph.emit(
        "aten.slice_scatter.default", base, value, dim, *ends, 1, type=tensor_type(view.base)
    )


def _unbind_back(graph: FuncGraph, view: View, base: Value, value: Value) -> Value:
    dim = view.args[0] if view.args else view.kwargs.get("dim", 0)
    return graph.emit(
        "aten.select_scatter.default", base, value, dim, view.index, type=tensor_type(view.base)
    )


def _as_complex(graph: FuncGraph, view: View, base: Value, value: Value) -> Value:
    """The complex numbers of pairs, which may lie in any way."""
    half = like(view.base, view.base.dtype.to_real(), size=view.base.size)
    parts = [graph.emit("aten.select.int", value, -1, i, type=tensor_type(half)) for i in range(2)]
    return graph.emit("aten.complex.default", *parts, type=tensor_type(view.base))


def _as_pairs(graph: FuncGraph, view: View, base: Value, value: Value) -> Value:
    return graph.emit("aten.view_as_real.default", value, type=tensor_type(view.base))


def _bits_back(graph: FuncGraph, view: View, base: Value, value: Value) -> Value:
    kind = value.type
    packed = graph.emit(
        "aten.clone.default", value, memory_format=torch.contiguous_format, type=kind
    )
    return graph.emit("aten.view.dtype", packed, view.base.dtype, type=tensor_type(view.base))


def _same_back(graph: FuncGraph, view: View, base: Value, value: Value) -> Value:
    """Of an op that is its own inverse."""
    return graph.emit(overload_name(view.func), value, type=tensor_type(view.base))


_INVERSE: dict[str, Callable[..., Value]] = {
    "aten.view.default": _reshape_back,
    "aten._unsafe_view.default": _reshape_back,
    "aten._reshape_alias.default": _reshape_back,
    "aten.unsqueeze.default": _reshape_back,
    "aten.squeeze.default": _reshape_back,
    "aten.squeeze.dim": _reshape_back,
    "aten.squeeze.dims": _reshape_back,
    "aten.alias.default": _same,
    "aten.detach.default": _same,
    "aten.t.default": _transpose_back,
    "aten.transpose.int": _transpose_back,
    "aten.permute.default": _permute_back,
    _EXPAND: _expand_back,
    "aten.view_as_real.default": _as_complex,
    "aten.view_as_complex.default": _as_pairs,
    "aten.view.dtype": _bits_back,
    "aten._conj_physical.default": _same_back,
    "aten.neg.default": _same_back,
    "aten.split.Tensor": _split_back,
    "aten.split_with_sizes.default": _split_back,
    "aten.unbind.int": _unbind_back,
}
