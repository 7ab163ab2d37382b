"""Ops of complex tensors as ops of their real and imaginary parts, by torch's formulas.

A form takes an ``Emit`` for one node and gives the two parts of its result. What has no form here torch is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..graph.ir import Node, Value, map_values
from ..graph.types import ScalarType, TensorType
from .complex_emit import REAL, Emit, Pair, Part, broadcast, is_complex, is_number

# ---- arithmetic


def product(e: Emit, a: Pair, b: Pair) -> Pair:
    """``a * b``"""
    real = e.binary("sub", e.binary("mul", a[0], b[0]), e.binary("mul", a[1], b[1]))
    return real, e.binary("add", e.binary("mul", a[0], b[1]), e.binary("mul", a[1], b[0]))


def _sum(op: str) -> Callable[[Emit], Pair | None]:
    def form(e: Emit) -> Pair | None:
        alpha = e.node.kwargs.get("alpha", 1)
        if isinstance(alpha, Value):
            return None
        # torch multiplies by alpha as a complex number, where infinities are lost
        alpha = complex(alpha if op == "add" else -alpha)
        a, b = (
            e.given(0),
            product(e, (alpha.real, 0.0 if not alpha.imag else alpha.imag), e.given(1)),
        )
        return e.binary("add", a[0], b[0]), e.binary("add", a[1], b[1])

    return form


def _div(e: Emit) -> Pair | None:
    if e.node.kwargs:
        return None
    a, b, c, d = map(e.tensor, (*e.given(0), *e.given(1)))
    real_size, imag_size = e.of("abs", c), e.of("abs", d)
    first = e.test("ge.Tensor", real_size, imag_size)  # the larger part of the divisor
    large, small = e.where(first, c, d), e.where(first, d, c)
    p, q = e.where(first, a, b), e.where(first, b, a)
    ratio = e.binary("div", small, large)
    scale = e.of("reciprocal", e.binary("add", large, e.binary("mul", small, ratio)))
    real = e.binary("add", p, e.binary("mul", q, ratio))
    turned = e.binary("mul", p, ratio)
    imag = e.where(first, e.binary("sub", q, turned), e.binary("sub", turned, q))
    nothing = e.test("logical_and.default", first, e.test("eq.Scalar", large, 0))
    return (
        e.where(nothing, e.binary("div", a, real_size), e.binary("mul", real, scale)),
        e.where(nothing, e.binary("div", b, imag_size), e.binary("mul", imag, scale)),
    )


def _pow(e: Emit) -> Pair | None:
    z, n = e.given(0), e.node.args[1]
    if n not in (2, 3) or isinstance(n, Value):
        return None
    square = product(e, z, z)
    return square if n == 2 else product(e, square, z)


def _exp(e: Emit) -> Pair:
    """As C's ``cexp``: what is too large for ``exp(x)`` alone is computed in two steps, and infinities have their limits."""
    x, y = map(e.tensor, e.given(0))
    most = 88.0 if e.dtype == torch.float32 else 709.0
    over = e.test("gt.Scalar", x, most)
    size = e.of("exp", e.where(over, e.binary("sub", x, most), x))
    cos, sin = _turned(e, y)
    wild = e.test("ne.Tensor", cos, cos)
    scale = e.where(over, e.number(math.exp(most)), e.number(1.0))
    real, imag = (e.binary("mul", size, e.binary("mul", part, scale)) for part in (cos, sin))
    edge = e.test("logical_and.default", wild, e.test("eq.Scalar", e.of("abs", x), math.inf))
    limit = e.binary("sub", size, size)
    limit = e.where(e.test("lt.Scalar", y, 0), e.of("neg", limit), limit)
    real, imag = e.where(edge, size, real), e.where(edge, limit, imag)
    return real, e.where(e.test("eq.Scalar", y, 0), y, imag)


def _turned(e: Emit, y: Part) -> Pair:
    return e.of("cos", y), e.of("sin", y)


def _scaled(e: Emit, size: Part, y: Part) -> Pair:
    cos, sin = _turned(e, y)
    return e.binary("mul", size, cos), e.binary("mul", size, sin)


def _polar(e: Emit) -> Pair:
    return _scaled(e, e.node.args[0], e.node.args[1])


def size_of(e: Emit, z: Pair) -> Value:
    """The absolute value of a pair."""
    x, y = map(e.tensor, z)
    return e.add("aten.hypot.default", x, y, shape=broadcast(x, y))


def _conjugate(e: Emit) -> Pair:
    x, y = e.given(0)
    return x, e.of("neg", y) if isinstance(y, Value) else -y


def _each(e: Emit) -> Pair:
    """An op that does the same to both parts, and to those of all complex arguments."""
    out = []
    for k in range(2):

        def part(v: Value, k: int = k) -> Value:
            return e.whole(e.pairs(v)[k], v.type) if is_complex(v) else v

        args, kwargs = map_values(part, e.node.args), map_values(part, e.node.kwargs)
        if kwargs.get("dtype") in REAL:
            kwargs = {**kwargs, "dtype": REAL[kwargs["dtype"]]}
        out.append(e.add(e.node.op, *args, options=kwargs))
    return out[0], out[1]


def _each_of_same(e: Emit) -> Pair | None:
    """The same where no tensor among the arguments is real; whole numbers and bools are positions in some ops, and real elements in others."""
    places = e.node.op in _TAKES_PLACES
    kinds = [v.type.dtype for v in e.node.inputs if isinstance(v.type, TensorType)]
    mixed = any(k.is_floating_point if places else k not in REAL for k in kinds)
    numbers = any(isinstance(a, (complex, ScalarType)) for a in e.node.args)
    return None if mixed or numbers else _each(e)


def _copied(e: Emit) -> Pair | None:
    """A copy over a complex tensor; of a real one, of bools too, it has no imaginary part."""
    target, source = e.node.args[:2]
    if is_complex(source):
        return _each(e)
    real = e.whole(e.pairs(target)[0], target.type)
    return e.add("aten.copy.default", real, source), 0.0


def _converts(e: Emit) -> Pair | None:
    if set(e.node.kwargs) - {"dtype", "device", "memory_format"}:
        return None
    parts = [e.spread(p) for p in e.given(0)]
    order = e.node.kwargs.get("memory_format")
    if order in (None, torch.preserve_format):
        return parts[0], parts[1]
    x, y = (p if is_number(p) else e.add("aten.clone.default", p, shape=p.type.shape, options={"memory_format": order}) for p in parts)  # fmt: skip
    return x, y


def _filled(e: Emit) -> Pair | None:
    value = {"zeros": 0.0, "ones": 1.0, "empty": 0.0}.get(e.node.op.split(".")[1].removesuffix("_like").removeprefix("new_"))  # fmt: skip
    if e.node.kwargs.get("memory_format") not in (None, torch.preserve_format):
        return None
    return None if value is None else (value, 0.0)


def _full(e: Emit) -> Pair | None:
    value = e.node.args[0 if e.node.op == "aten.scalar_tensor.default" else 1]
    if isinstance(value, complex):
        return value.real, value.imag
    return value, 0.0


def _constant(e: Emit) -> Pair | None:
    value = e.node.args[0]
    if isinstance(value, (list, tuple)):
        return tuple(_constants(e, value, k) for k in ("real", "imag"))
    number = complex(value)
    return number.real, number.imag


def _constants(e: Emit, value: Any, part: str) -> Value:
    def of(x: Any) -> Any:
        return [of(y) for y in x] if isinstance(x, (list, tuple)) else getattr(complex(x), part)

    return e.add("tg.constant", of(value), e.dtype, *e.node.args[2:])


def _matrices(e: Emit) -> Pair | None:
    a, b = e.node.args[:2]
    if not (is_complex(a) and is_complex(b)):
        return None
    (ar, ai), (br, bi) = ([e.whole(p, x.type) for p in e.pairs(x)] for x in (a, b))
    times = lambda x, y: e.add(e.node.op, x, y)  # noqa: E731
    real = e.add("aten.sub.Tensor", times(ar, br), times(ai, bi))
    return real, e.add("aten.add.Tensor", times(ar, bi), times(ai, br))


def _addmm(e: Emit) -> Pair | None:
    if e.node.kwargs or not all(map(is_complex, e.node.args)):
        return None
    (cr, ci), (ar, ai), (br, bi) = ([e.whole(p, x.type) for p in e.pairs(x)] for x in e.node.args)
    times = lambda x, y: e.add("aten.mm.default", x, y)  # noqa: E731
    real = e.add("aten.sub.Tensor", e.add("aten.addmm.default", cr, ar, br), times(ai, bi))
    return real, e.add("aten.addmm.default", e.add("aten.addmm.default", ci, ar, bi), ai, br)


def _made_of(e: Emit) -> Pair:
    re, im = e.node.args
    return e.add("tg.fresh", e.spread(re)), e.add("tg.fresh", e.spread(im))


def _viewed(e: Emit) -> Pair:
    x = e.node.args[0]
    last = len(x.type.shape) - 1
    return e.add("aten.select.int", x, last, 0), e.add("aten.select.int", x, last, 1)


def _where(e: Emit) -> Pair:
    a, b = e.given(1), e.given(2)
    out = []
    for x, y in zip(a, b):
        out.append(e.add("aten.where.self", e.node.args[0], e.tensor(x), e.tensor(y)))
    return out[0], out[1]


_EACH = ["view", "_unsafe_view", "reshape", "permute", "transpose.int", "t", "unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims", "expand",
         "select.int", "slice.Tensor", "diagonal", "unfold", "alias", "detach", "clone", "contiguous", "lift_fresh", "lift_fresh_copy",
         "select_scatter", "slice_scatter", "stack", "cat", "roll", "flip", "index_select", "gather", "tril", "triu", "cumsum", "sum", "sum.dim_IntList", "mean", "mean.dim",
         "index.Tensor", "index_put", "neg", "repeat", "diag_embed", "diag", "trace", "index_add", "scatter_add", "embedding"]  # fmt: skip
_TAKES_PLACES = frozenset(
    f"aten.{n}"
    for n in ["index_select.default", "gather.default", "index.Tensor", "index_put.default", "index_add.default", "scatter_add.default", "embedding.default"]
)  # fmt: skip
_NAMED: dict[str, Callable[[Emit], Pair | None]] = {
    "add.Tensor": _sum("add"), "sub.Tensor": _sum("sub"), "mul.Tensor": lambda e: product(e, e.given(0), e.given(1)), "div.Tensor": _div,
    "pow.Tensor_Scalar": _pow, "exp": _exp, "polar": _polar, "_conj": _conjugate, "conj_physical": _conjugate, "_conj_physical": _conjugate, "_to_copy": _converts,
    "zeros": _filled, "ones": _filled, "empty.memory_format": _filled, "zeros_like": _filled, "ones_like": _filled, "empty_like": _filled,
    "new_zeros": _filled, "new_ones": _filled, "full": _full, "scalar_tensor": _full, "full_like": _full, "mm": _matrices, "bmm": _matrices, "mv": _matrices, "dot": _matrices,
    "addmm": _addmm, "copy": _copied, "complex": _made_of, "view_as_complex": _viewed, "where.self": _where,
}  # fmt: skip
FORMS = {f"aten.{n}" if "." in n else f"aten.{n}.default": _each_of_same for n in _EACH}
FORMS |= {f"aten.{n}" if "." in n else f"aten.{n}.default": form for n, form in _NAMED.items()}
FORMS["tg.constant"] = _constant
_SUMS = frozenset(["aten.add.Tensor", "aten.sub.Tensor", "aten.div.Tensor", "aten.where.self"])


def fills(node: Node) -> bool:
    """Whether each part of the result has all of its sizes, whichever these are: of a sum with a real tensor the imaginary part need not."""
    tensors = [v for v in node.inputs if isinstance(v.type, TensorType) and v.type.shape and v.type.dtype != torch.bool]  # fmt: skip
    return node.op not in _SUMS or len(tensors) < 2 or all(map(is_complex, tensors))


# ---- real results of complex arguments


def _as_real(e: Emit) -> Value:
    x = e.node.args[0]
    parts = [e.whole(p, x.type) for p in e.pairs(x)]
    return e.add("aten.stack.default", parts, -1)


def _equal(word: str, both: str) -> Callable[[Emit], Value]:
    def form(e: Emit) -> Value:
        a, b = (e.pairs(x) for x in e.node.args)
        tests = []
        for x, y in zip(a, b):
            x, y = (y, x) if is_number(x) else (x, y)
            x = e.number(x, torch.float64) if is_number(x) else x
            tests.append(e.add(f"aten.{word}.{'Scalar' if is_number(y) else 'Tensor'}", x, y, shape=broadcast(x, y)))  # fmt: skip
        return e.add(f"aten.{both}.default", *tests)

    return form


def _norm(e: Emit) -> Value:
    z, *rest = e.node.args
    size = size_of(e, tuple(e.whole(p, z.type) for p in e.pairs(z)))
    return e.add(e.node.op, size, *rest, options=e.node.kwargs)


def _angle(e: Emit) -> Value:
    x, y = (e.whole(p, e.node.args[0].type) for p in e.pairs(e.node.args[0]))
    return e.add("aten.atan2.default", y, x)


def _abs(e: Emit) -> Value:
    z = e.node.args[0]
    return size_of(e, tuple(e.whole(p, z.type) for p in e.pairs(z)))


def _one(k: int) -> Callable[[Emit], Value]:
    return lambda e: e.whole(e.pairs(e.node.args[0])[k], e.node.args[0].type)


REALS: dict[str, Callable[[Emit], Value]] = {
    "aten.view_as_real.default": _as_real, "aten.abs.default": _abs, "aten.angle.default": _angle, "aten.real.default": _one(0), "aten.imag.default": _one(1),
    "aten.linalg_vector_norm.default": _norm,
    "aten.eq.Tensor": _equal("eq", "logical_and"), "aten.ne.Tensor": _equal("ne", "logical_or"),
    "aten.eq.Scalar": _equal("eq", "logical_and"), "aten.ne.Scalar": _equal("ne", "logical_or"),
}  # fmt: skip
