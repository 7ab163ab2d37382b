"""Tensors of open size in memory of the largest size: elementwise ops, folds and products of ``bounding``.

What lies beyond a size is any content: elementwise ops compute on it for nothing, a fold over it is given the neutral
element of the fold instead, a product zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..graph.ir import Node, Value, map_values
from ..graph.types import BOOL, INT, TensorType
from ..kernels.loop_ir import Unsupported
from ..kernels.pointwise import ROWS
from ..kernels.reductions import REDUCERS
from .bounding import Bounding, Handler, adder
from .forms import Padded, Plain, Rep

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
    types = [replace(v.type, shape=tuple(s)) for v, s in zip(node.outputs, shapes, strict=True)]
    made = b.emit(node.op, tuple(given), *types, **kwargs)
    made = made if isinstance(made, tuple) else (made,)
    return [b.sized(m, open_sizes(size)) for m, size in zip(made, sizes)]


def open_sizes(sizes: Sequence[Any]) -> dict[int, Any]:
    return {d: n for d, n in enumerate(sizes) if isinstance(n, Value)}


def masked(b: Bounding, rep: Rep, dims: Sequence[int], neutral: Any) -> Value:
    """The memory with ``neutral`` beyond the sizes of ``dims``."""
    x, kind = rep.parts[0], rep.form.type
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
    rank = max(len(r.form.type.shape) for r in reps)
    sizes: list[Any] = [1] * rank
    most = [1] * rank
    for r in reps:
        shape = r.form.type.shape
        for i, n in enumerate(r.sizes):
            d = rank - len(shape) + i
            if n == 1 or n is sizes[d] or n == sizes[d]:
                continue
            if sizes[d] != 1:
                b.same(sizes[d], n)
                most[d] = min(most[d], shape[i] or 0)
                continue
            sizes[d], most[d] = n, shape[i]
    return sizes, most


def _narrowed(b: Bounding, rep: Rep, most: Sequence[int]) -> Value:
    """The memory of a tensor as far as it can be read where it is as large as others that are smaller at most."""
    x = rep.parts[0]
    shape = list(x.type.shape)
    for d, n in enumerate(most[len(most) - len(shape) :]):
        if isinstance(rep.size(d), Value) and shape[d] > n:
            shape[d] = n
            x = b.emit("aten.slice.Tensor", (x, d, 0, n), b.tensor(x.type.dtype, *shape))
    return x


def _elementwise(b: Bounding, node: Node) -> list[Rep]:
    if not is_open(b, node):
        return b.closed(node)
    sizes, most = _broadcast(b, node)
    near = {v: _narrowed(b, b.of(v), most) for v in node.inputs if isinstance(v.type, TensorType)}
    args = map_values(lambda v: near.get(v, v), node.args)
    return emit(b, node, [sizes] * len(node.outputs), [most] * len(node.outputs), args)


def _like(b: Bounding, node: Node) -> list[Rep]:
    """The same sizes as the first argument."""
    if not is_open(b, node):
        return b.closed(node)
    rep = b.of(node.args[0])
    return emit(b, node, [rep.sizes] * len(node.outputs), [rep.form.type.shape] * len(node.outputs))


@handler("aten.zeros.default", "aten.ones.default", "aten.full.default", "aten.empty.memory_format")
def _filled(b: Bounding, node: Node) -> list[Rep]:
    """Tensors that are made as large as others are."""
    sizes = [b.plain(n) for n in node.args[0]]
    shape = [b.most(n) for n in sizes]
    if shape == sizes:
        return b.closed(node)
    return emit(b, node, [sizes], [shape], (shape, *node.args[1:]))


@handler("aten.new_zeros.default", "aten.new_ones.default", "aten.new_full.default")
def _new(b: Bounding, node: Node) -> list[Rep]:
    """Of the type of a tensor, whatever its size."""
    sizes = [b.plain(n) for n in node.args[1]]
    if not is_open(b, node) and not open_sizes(sizes):
        return b.closed(node)
    kind = b.tensor(node.outputs[0].type.dtype, *(b.most(n) for n in sizes))
    rest = tuple(b.plain(a) for a in node.args[2:])
    made = b.emit(node.op.replace("new_", ""), (list(kind.shape), *rest), kind, dtype=kind.dtype, device=torch.device(b.device))  # fmt: skip
    return [b.sized(made, open_sizes(sizes))]


@handler("aten.arange.default", "aten.arange.start", "aten.arange.start_step")
def _range(b: Bounding, node: Node) -> list[Rep]:
    """As many whole numbers as only the run knows: positions, times the step, from the start on."""
    kind, given = node.outputs[0].type, [b.plain(x) for x in node.args]
    start, end, step = (0, *given, 1) if len(given) == 1 else (*given, 1)[:3]
    whole = all(type(x) is int or (isinstance(x, Value) and x.type == INT) for x in (start, end))
    if None not in kind.shape or not whole or type(step) is not int or not step:
        return b.closed(node)
    first, last = (start, end) if step > 0 else (end, start)
    count = last if first == 0 else b.number("py.sub", last, first)
    if abs(step) > 1:
        b.require(b.emit("py.ge", (count, 0), BOOL))
        count = b.emit("py.floordiv", (b.number("py.add", count, abs(step) - 1), abs(step)), INT)
    most = b.most(count)
    wide = b.tensor(torch.int64, most)
    items = b.emit("aten.arange.default", (most,), wide, device=torch.device(b.device))
    for op, x, neutral in (("mul", step, 1), ("add", start, 0)):
        items = items if x == neutral else b.emit(f"aten.{op}.Tensor", (items, x), wide)
    if kind.dtype is not torch.int64:
        items = b.emit("aten._to_copy.default", (items,), b.tensor(kind.dtype, most), dtype=kind.dtype)  # fmt: skip
    return [b.sized(items, {0: count})]


@handler("py.truth", "py.bool", "py.int", "py.float")
def _only_element(b: Bounding, node: Node) -> list[Rep]:
    """A number from a tensor that has one element, or fails."""
    if not is_open(b, node):
        return b.closed(node)
    rep, kind = b.of(node.args[0]), node.outputs[0].type
    if not all(b.same(n, 1) for n in rep.sizes):
        raise Unsupported("a number from a tensor of several elements")
    x = rep.parts[0]
    for _ in rep.sizes:
        x = b.emit("aten.select.int", (x, 0, 0), b.tensor(x.type.dtype, *x.type.shape[1:]))
    return [Rep(Plain(kind), [b.emit(node.op, (x,), kind)])]


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
    "var": 0, "std": 0,
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
    sizes, shape = rep.sizes, rep.form.type.shape
    dims = [d for d in REDUCERS[node.op].dims(node, len(shape)) if isinstance(sizes[d], Value)]
    x = rep.parts[0]
    if dims:
        if name not in _NEUTRAL:
            raise Unsupported(f"{node.op} over a size that is known only at run time")
        neutral = _NEUTRAL[name]
        x = masked(b, rep, dims, neutral(rep.form.type.dtype) if callable(neutral) else neutral)
        if name in _FAIL_EMPTY:
            for d in dims:
                b.position(0, sizes[d])
    args = (x, *node.args[1:])
    if name in _SAME_SIZE:
        made = [
            shape if i == 0 else _folded(v.type.shape, shape) for i, v in enumerate(node.outputs)
        ]
        return emit(b, node, [[n if m == most else m for n, m, most in zip(sizes, s, shape)] for s in made], made, args)  # fmt: skip
    if name == "mean" and dims:
        return [_mean(b, node, rep, x, dims)]
    if name in _SPREADS and dims:
        return [_spread(b, node, rep, x, dims)]
    out = [_reduced(node, v.type.shape, sizes) for v in node.outputs]
    most = [_reduced(node, v.type.shape, shape) for v in node.outputs]
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
    sizes = _reduced(node, node.outputs[0].type.shape, rep.sizes)
    most = _reduced(node, node.outputs[0].type.shape, rep.form.type.shape)
    kind = b.tensor(node.outputs[0].type.dtype, *most)
    total = b.emit("aten.sum.dim_IntList", (x, list(row), kept), kind)
    count: Any = 1
    for d in row:
        count = b.number("py.mul", count, rep.sizes[d])
    return b.sized(b.emit("aten.div.Tensor", (total, count), kind), open_sizes(sizes))


_SPREADS = ("var", "std")


def _spread(b: Bounding, node: Node, rep: Rep, x: Value, dims: Sequence[int]) -> Rep:
    """A variance or deviation, by the mean: what lies beyond is as far from it as itself."""
    shape, dtype = list(rep.form.type.shape), node.outputs[0].type.dtype
    row = REDUCERS[node.op].dims(node, len(shape))
    kept = bool(node.kwargs.get("keepdim", False))
    single = [1 if d in row else n for d, n in enumerate(shape)]
    count: Any = 1
    for d in row:
        count = b.number("py.mul", count, rep.sizes[d])

    def divided(total: Value, by: Any) -> Value:
        return b.emit("aten.div.Tensor", (total, by), total.type)

    total = b.emit("aten.sum.dim_IntList", (x, list(row), True), b.tensor(dtype, *single))
    away = b.emit("aten.sub.Tensor", (rep.parts[0], divided(total, count)), b.tensor(dtype, *shape))
    square = b.emit("aten.mul.Tensor", (away, away), away.type)
    inside = masked(b, Rep(replace(rep.form, type=away.type), [square, *rep.parts[1:]]), dims, 0)
    most = _reduced(node, node.outputs[0].type.shape, shape)
    sizes = _reduced(node, node.outputs[0].type.shape, rep.sizes)
    kind = b.tensor(dtype, *most)
    made = b.emit("aten.sum.dim_IntList", (inside, list(row), kept), kind)
    correction = node.kwargs.get("correction", 1)
    correction = 1 if correction is None else correction
    if correction != int(correction):
        raise Unsupported(f"a correction of {correction} over a size that is known only at run time")  # fmt: skip
    free = b.number("py.sub", count, int(correction))
    made = divided(made, b.emit("py.max", (free, 0), INT))
    if node.op.startswith("aten.std."):
        made = b.emit("aten.sqrt.default", (made,), kind)
    return b.sized(made, open_sizes(sizes))


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
        most = [r.form.type.shape[contracted[i]] for i, r in enumerate(pair)]
        if most[0] != most[1] or not b.same(*inner):
            raise Unsupported("sizes that are equal only at run time")
        factors = [masked(b, r, [contracted[i]], 0) for i, r in enumerate(pair)]
        args = (*node.args[:first], *factors, *node.args[first + 2 :])
        shapes = [list(r.form.type.shape) for r in pair]
        return emit(b, node, [result(sizes)], [result(shapes)], args)

    return run


HANDLERS["aten.mm.default"] = _product({0: 1, 1: 0}, lambda s: [s[0][0], s[1][1]])
HANDLERS["aten.bmm.default"] = _product({0: 2, 1: 1}, lambda s: [s[0][0], s[0][1], s[1][2]])
HANDLERS["aten.mv.default"] = _product({0: 1, 1: 0}, lambda s: [s[0][0]])
HANDLERS["aten.dot.default"] = _product({0: 0, 1: 0}, lambda s: [])
HANDLERS["aten.addmm.default"] = _product({0: 1, 1: 0}, lambda s: [s[0][0], s[1][1]], 1)
HANDLERS["aten.baddbmm.default"] = _product({0: 2, 1: 1}, lambda s: [s[0][0], s[0][1], s[1][2]], 1)


for _op in ROWS:
    HANDLERS.setdefault(_op, _elementwise)
_SAME = (
    "clone",
    "detach",
    "alias",
    "_to_copy",
    "zeros_like",
    "ones_like",
    "full_like",
    "contiguous",
)
for _op in _SAME:
    HANDLERS[f"aten.{_op}.default"] = _like
HANDLERS["tg.identity"] = _like
for _op in REDUCERS:
    if _op.split(".")[1] in {*_NEUTRAL, "native_layer_norm"}:
        HANDLERS.setdefault(_op, _fold)
