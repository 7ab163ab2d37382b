"""Tensors of open size in memory of the largest size: one handler for each kind of op of ``bounding``.

What lies beyond a size is any content: elementwise ops compute on it for nothing, a fold over it is given the neutral
element of the fold instead, a product zeros. Views keep a dim of open size where the elements before it and after it
stay the same number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..ir import Node, Value, map_values
from ..kernels.loop_ir import Unsupported
from ..kernels.pointwise import ROWS
from ..kernels.reductions import REDUCERS
from ..types import INT, TensorType
from .bounding import Bounding, Handler, Rep, adder
from .forms import Padded

HANDLERS: dict[str, Handler] = {}
handler = adder(HANDLERS)


def tensor_args(b: Bounding, node: Node) -> list[Rep]:
    """What stands for the tensors among a node's arguments."""
    return [b.of(v) for v in node.inputs if isinstance(v.type, TensorType)]


def is_open(b: Bounding, node: Node) -> bool:
    return any(isinstance(b.of(v).form, Padded) for v in node.inputs)


def value_of(b: Bounding, x: Any) -> Any:
    """The memory of an old graph's tensor; a number, or a value of the new graph, as it is."""
    return b.env[x].parts[0] if x in b.env else x


def emit(b: Bounding, node: Node, sizes: Sequence[Sequence[Any]], shapes: Sequence[Sequence[Any]], args: Any = None) -> list[Rep]:  # fmt: skip
    """The node on memory of the largest sizes. ``sizes``, ``shapes``: of each output, as they are and as they are at most."""
    given = map_values(lambda v: value_of(b, v), node.args if args is None else args)
    kwargs = map_values(lambda v: value_of(b, v), node.kwargs)
    types = [replace(v.type, shape=tuple(s)) for v, s in zip(node.outputs, shapes, strict=True)]  # type: ignore[type-var]
    made = b.emit(node.op, tuple(given), *types, **kwargs)
    made = made if isinstance(made, tuple) else (made,)
    return [b.sized(m, _open(size)) for m, size in zip(made, sizes)]


def _open(sizes: Sequence[Any]) -> dict[int, Any]:
    return {d: n for d, n in enumerate(sizes) if isinstance(n, Value)}


def masked(b: Bounding, rep: Rep, dims: Sequence[int], neutral: Any) -> Value:
    """The memory with ``neutral`` beyond the sizes of ``dims``."""
    x, kind = rep.parts[0], rep.form.type  # type: ignore[union-attr]
    for d in dims:
        if not isinstance(n := rep.size(d), Value):
            continue
        most = kind.shape[d]
        items = b.emit("aten.arange.default", (most,), b.tensor(torch.int64, most), device=torch.device(b.device))  # fmt: skip
        inside = b.emit("aten.lt.Scalar", (items, n), b.tensor(torch.bool, most))
        column = [most if i == d else 1 for i in range(len(kind.shape))]
        inside = b.emit("aten.view.default", (inside, column), b.tensor(torch.bool, *column))
        other = b.emit("aten.scalar_tensor.default", (neutral,), b.tensor(kind.dtype), dtype=kind.dtype, device=torch.device(b.device))  # fmt: skip
        x = b.emit("aten.where.self", (inside, x, other), kind)
    return x


# ---- elementwise


def _broadcast(b: Bounding, node: Node) -> tuple[list[Any], list[int]]:
    """(sizes, largest sizes) of what a node's tensors spread to."""
    reps = tensor_args(b, node)
    rank = max(len(r.form.type.shape) for r in reps)  # type: ignore[union-attr]
    sizes: list[Any] = [1] * rank
    most = [1] * rank
    for r in reps:
        shape = r.form.type.shape  # type: ignore[union-attr]
        for i, n in enumerate(r.sizes):
            d = rank - len(shape) + i
            if n == 1 or n is sizes[d] or n == sizes[d]:
                continue
            if sizes[d] != 1:
                raise Unsupported("sizes that are equal only at run time")
            sizes[d], most[d] = n, shape[i]
    return sizes, most


def _elementwise(b: Bounding, node: Node) -> list[Rep]:
    if not is_open(b, node):
        return b.closed(node)
    sizes, most = _broadcast(b, node)
    return emit(b, node, [sizes] * len(node.outputs), [most] * len(node.outputs))


def _like(b: Bounding, node: Node) -> list[Rep]:
    """The same sizes as the first argument."""
    if not is_open(b, node):
        return b.closed(node)
    rep = b.of(node.args[0])
    return emit(b, node, [rep.sizes] * len(node.outputs), [rep.form.type.shape] * len(node.outputs))  # type: ignore[union-attr]


# ---- folds


def _lowest(dtype: torch.dtype) -> Any:
    return (
        -math.inf
        if dtype.is_floating_point
        else torch.iinfo(dtype).min
        if dtype != torch.bool
        else False
    )


def _highest(dtype: torch.dtype) -> Any:
    return (
        math.inf
        if dtype.is_floating_point
        else torch.iinfo(dtype).max
        if dtype != torch.bool
        else True
    )


_NEUTRAL: dict[str, Any] = {
    "sum": 0, "any": False, "all": True, "prod": 1, "mean": 0, "linalg_vector_norm": 0, "logsumexp": _lowest,
    "max": _lowest, "amax": _lowest, "argmax": _lowest, "min": _highest, "amin": _highest, "argmin": _highest,
    "_softmax": _lowest, "_log_softmax": _lowest, "cumsum": 0, "cumprod": 1,
}  # fmt: skip
_SAME_SIZE = ("_softmax", "_log_softmax", "cumsum", "cumprod", "native_layer_norm")
_FAIL_EMPTY = ("max", "min", "amax", "amin", "argmax", "argmin")


def _fold(b: Bounding, node: Node) -> list[Rep]:
    rep = b.of(node.args[0])
    others = [r for r in tensor_args(b, node) if r is not rep]
    if not is_open(b, node):
        return b.closed(node)
    if any(isinstance(r.form, Padded) for r in others):
        raise Unsupported(f"{node.op} of sizes that are known only at run time")
    name = node.op.split(".")[1]
    sizes, shape = rep.sizes, rep.form.type.shape  # type: ignore[union-attr]
    dims = [d for d in REDUCERS[node.op].dims(node, len(shape)) if isinstance(sizes[d], Value)]
    x = rep.parts[0]
    if dims:
        if name not in _NEUTRAL:
            raise Unsupported(f"{node.op} over a size that is known only at run time")
        neutral = _NEUTRAL[name]
        x = masked(b, rep, dims, neutral(rep.form.type.dtype) if callable(neutral) else neutral)  # type: ignore[union-attr]
        if name in _FAIL_EMPTY:
            for d in dims:
                b.position(0, sizes[d])
    args = (x, *node.args[1:])
    if name in _SAME_SIZE:
        made = [
            shape if i == 0 else _folded(v.type.shape, shape) for i, v in enumerate(node.outputs)
        ]  # type: ignore[union-attr]
        return emit(b, node, [[n if m == most else m for n, m, most in zip(sizes, s, shape)] for s in made], made, args)  # fmt: skip
    if name == "mean" and dims:
        return [_mean(b, node, rep, x, dims)]
    out = [_reduced(node, v.type.shape, sizes) for v in node.outputs]  # type: ignore[union-attr]
    most = [_reduced(node, v.type.shape, shape) for v in node.outputs]  # type: ignore[union-attr]
    return emit(b, node, out, most, args)


def _reduced(node: Node, traced: Sequence[Any], sizes: Sequence[Any]) -> list[Any]:
    """The sizes of a fold's result, with its dims kept or not."""
    row = REDUCERS[node.op].dims(node, len(sizes))
    if len(traced) == len(sizes):
        return [1 if d in row else n for d, n in enumerate(sizes)]
    return [n for d, n in enumerate(sizes) if d not in row]


def _folded(traced: Sequence[Any], shape: Sequence[int]) -> list[int]:
    return [m if n is None else n for n, m in zip(traced, shape)]


def _mean(b: Bounding, node: Node, rep: Rep, x: Value, dims: Sequence[int]) -> Rep:
    row = REDUCERS[node.op].dims(node, len(rep.sizes))
    kept = bool(node.args[2]) if len(node.args) > 2 else bool(node.kwargs.get("keepdim", False))
    sizes = _reduced(node, node.outputs[0].type.shape, rep.sizes)  # type: ignore[union-attr]
    most = _reduced(node, node.outputs[0].type.shape, rep.form.type.shape)  # type: ignore[union-attr]
    kind = b.tensor(node.outputs[0].type.dtype, *most)  # type: ignore[union-attr]
    total = b.emit("aten.sum.dim_IntList", (x, list(row), kept), kind)
    count: Any = 1
    for d in row:
        count = b.number("py.mul", count, rep.sizes[d])
    return b.sized(b.emit("aten.div.Tensor", (total, count), kind), _open(sizes))


# ---- products


def _product(
    contracted: Mapping[int, int], result: Callable[[list[list[Any]]], list[Any]], first: int = 0
) -> Handler:
    """``contracted``: the contracted dim of each of the two factors, which start at argument ``first``."""

    def run(b: Bounding, node: Node) -> list[Rep]:
        if not is_open(b, node):
            return b.closed(node)
        pair = [b.of(v) for v in node.args[first : first + 2]]
        if first and isinstance(b.of(node.args[0]).form, Padded):
            raise Unsupported(f"{node.op} of sizes that are known only at run time")
        sizes = [r.sizes for r in pair]
        inner = [s[contracted[i]] for i, s in enumerate(sizes)]
        if inner[0] is not inner[1] and inner[0] != inner[1]:
            raise Unsupported("sizes that are equal only at run time")
        factors = [masked(b, r, [contracted[i]], 0) for i, r in enumerate(pair)]
        args = (*node.args[:first], *factors, *node.args[first + 2 :])
        shapes = [list(r.form.type.shape) for r in pair]  # type: ignore[union-attr]
        return emit(b, node, [result(sizes)], [result(shapes)], args)

    return run


HANDLERS["aten.mm.default"] = _product({0: 1, 1: 0}, lambda s: [s[0][0], s[1][1]])
HANDLERS["aten.bmm.default"] = _product({0: 2, 1: 1}, lambda s: [s[0][0], s[0][1], s[1][2]])
HANDLERS["aten.mv.default"] = _product({0: 1, 1: 0}, lambda s: [s[0][0]])
HANDLERS["aten.dot.default"] = _product({0: 0, 1: 0}, lambda s: [])
HANDLERS["aten.addmm.default"] = _product({0: 1, 1: 0}, lambda s: [s[0][0], s[1][1]], 1)
HANDLERS["aten.baddbmm.default"] = _product({0: 2, 1: 1}, lambda s: [s[0][0], s[0][1], s[1][2]], 1)


# ---- views


def _view_of(order: Callable[[Node, int], Sequence[int | None]]) -> Handler:
    """A view whose dims are those of the source in another order; None for a new dim of 1."""

    def run(b: Bounding, node: Node) -> list[Rep]:
        if not is_open(b, node):
            return b.closed(node)
        rep = b.of(node.args[0])
        shape = rep.form.type.shape  # type: ignore[union-attr]
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
    source, most = rep.sizes, list(rep.form.type.shape)  # type: ignore[union-attr]
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
    most = [1] * lead + list(rep.form.type.shape)  # type: ignore[union-attr]
    sizes, shape = [], []
    for n, have, top in zip(wanted, source, most):
        if n is not have and n not in (have, -1) and (have != 1 or isinstance(n, Value)):
            raise Unsupported("an expansion to a size that is known only at run time")
        sizes.append(have if n == -1 or n is have else n)
        shape.append(top if n == -1 or n is have else n)
    return emit(b, node, [sizes], [shape], (node.args[0], shape))


@handler("aten.slice.Tensor")
def _slice(b: Bounding, node: Node) -> list[Rep]:
    """``x[:n]`` is the whole memory, and a size; other slices of known dims are what they are."""
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
        shape = list(rep.form.type.shape)  # type: ignore[union-attr]
        shape[d] = len(range(*slice(start, stop, step).indices(size)))
        return emit(
            b, node, [[shape[d] if i == d else n for i, n in enumerate(rep.sizes)]], [shape]
        )
    if start != 0 or step != 1 or type(start) is not int:
        raise Unsupported("a slice that starts at a place that is known only at run time")
    whole = stop is None or (type(stop) is int and stop >= (1 << 62))
    n = size if whole else b.emit("py.slice_stop", (stop, size), INT)
    return [b.sized(rep.parts[0], _open([n if i == d else m for i, m in enumerate(rep.sizes)]))]


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
    return emit(b, node, [rep.sizes], [rep.form.type.shape], (*node.args[:2], d, place))  # type: ignore[union-attr]


@handler("aten.cat.default")
def _cat(b: Bounding, node: Node) -> list[Rep]:
    if not is_open(b, node):
        return b.closed(node)
    reps = [b.of(v) for v in node.args[0]]
    rank = len(reps[0].sizes)
    d = (node.args[1] if len(node.args) > 1 else 0) % rank
    first = reps[0].sizes
    same = all(r.sizes[:d] + r.sizes[d + 1 :] == first[:d] + first[d + 1 :] for r in reps)
    if not same or any(isinstance(r.size(d), Value) for r in reps):
        raise Unsupported("tensors joined along a size that is known only at run time")
    total = sum(r.size(d) for r in reps)
    shape = list(reps[0].form.type.shape)  # type: ignore[union-attr]
    shape[d] = total
    return emit(b, node, [[total if i == d else n for i, n in enumerate(first)]], [shape])


# ---- the table


for _op in ROWS:
    HANDLERS.setdefault(_op, _elementwise)
for _op in (
    "clone",
    "detach",
    "alias",
    "_to_copy",
    "zeros_like",
    "ones_like",
    "full_like",
    "contiguous",
):
    HANDLERS[f"aten.{_op}.default"] = _like
HANDLERS["tg.identity"] = _like
for _op in REDUCERS:
    if _op.split(".")[1] in {*_NEUTRAL, "native_layer_norm"}:
        HANDLERS.setdefault(_op, _fold)
