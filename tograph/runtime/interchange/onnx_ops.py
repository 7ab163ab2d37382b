"""One entry for each op that ONNX can do: ``entry(writer, node, *args, **kwargs)`` gives the name of the output, or several.

An entry casts its operands to what torch computes in; the writer casts the result to the type that the graph says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..graph.ir import Node, Value
from ..graph.types import TensorType

Entry = Callable[..., Any]
TABLE: dict[str, Entry] = {}


def entry(*names: str) -> Callable[[Entry], Entry]:
    def add(function: Entry) -> Entry:
        for name in names:
            TABLE.update(dict.fromkeys(name.split(), function))
        return function

    return add


def out_dtype(node: Node, i: int = 0) -> torch.dtype:
    return node.outputs[i].type.dtype


def rank_of(x: Value) -> int:
    return len(x.type.shape) if isinstance(x.type, TensorType) else 0


def dim_of(d: int, x: Value, more: int = 0) -> int:
    """A dimension counted from the front."""
    return d % max(rank_of(x) + more, 1)


def _operands(w: Any, *xs: Any) -> list[str]:
    """Operands in the dtype that they are compared in."""
    return [w.value(x, _common(*xs)) for x in xs]


def _common(*xs: Any) -> torch.dtype:
    def sample(x: Any) -> Any:
        if not isinstance(x, Value):
            return x
        if isinstance(x.type, TensorType):
            return torch.empty([1] * len(x.type.shape), dtype=x.type.dtype)
        return x.type.kind(1)

    found = [sample(x) for x in xs]
    if any(isinstance(f, torch.Tensor) for f in found):
        return torch.result_type(*found) if len(found) == 2 else found[0].dtype
    return torch.float64 if float in map(type, found) else torch.int64 if int in map(type, found) else torch.bool  # fmt: skip


# ---- pointwise


def _binary(op: str) -> Entry:
    def lower(w: Any, node: Node, a: Any, b: Any, alpha: Any = 1, **_: Any) -> str:
        dtype = out_dtype(node)
        right = w.value(b, dtype)
        if alpha != 1:
            right = w.emit("Mul", right, w.value(alpha, dtype))
        return w.emit(op, w.value(a, dtype), right)

    return lower


for _name, _op in {"add": "Add", "sub": "Sub", "mul": "Mul"}.items():
    TABLE[f"aten.{_name}.Tensor"] = TABLE[f"aten.{_name}.Scalar"] = TABLE[f"py.{_name}"] = _binary(_op)  # fmt: skip
for _name in ("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar"):
    TABLE[f"aten.{_name}"] = TABLE["py.pow"] = _binary("Pow")
for _name, _op in {"maximum": "Max", "minimum": "Min"}.items():
    TABLE[f"aten.{_name}.default"] = _binary(_op)
    TABLE[f"py.{_name[:3]}"] = _binary(_op)


def _compared(op: str, negate: bool = False) -> Entry:
    def lower(w: Any, node: Node, a: Any, b: Any) -> str:
        left, right = _operands(w, a, b)
        if w.dtypes[left] == torch.bool and op != "Equal":
            left, right = w.cast(left, torch.int32), w.cast(right, torch.int32)
        made = w.emit(op, left, right, dtype=torch.bool)
        return w.emit("Not", made) if negate else made

    return lower


for _name, (_op, _negate) in {"lt": ("Less", False), "le": ("LessOrEqual", False), "gt": ("Greater", False),
                              "ge": ("GreaterOrEqual", False), "eq": ("Equal", False), "ne": ("Equal", True)}.items():  # fmt: skip
    for _full in (f"aten.{_name}.Tensor", f"aten.{_name}.Scalar", f"py.{_name}"):
        TABLE[_full] = _compared(_op, _negate)


def _logical(op: str) -> Entry:
    return lambda w, node, a, b: w.emit(op, w.value(a, torch.bool), w.value(b, torch.bool), dtype=torch.bool)  # fmt: skip


def _bits(op: str) -> Entry:
    def lower(w: Any, node: Node, a: Any, b: Any) -> str:
        dtype = out_dtype(node)
        name = op if dtype == torch.bool else f"Bitwise{op}"
        return w.emit(name, w.value(a, dtype), w.value(b, dtype))

    return lower


for _name, _op in {"and": "And", "or": "Or", "xor": "Xor"}.items():
    TABLE[f"aten.logical_{_name}.default"] = _logical(_op)
    for _full in (f"aten.bitwise_{_name}.Tensor", f"aten.bitwise_{_name}.Scalar", f"py.{_name}_" if _name != "xor" else "py.xor"):  # fmt: skip
        TABLE[_full] = _bits(_op)


@entry("aten.logical_not.default py.not")
def _not(w, node, x):
    return w.emit("Not", w.value(x, torch.bool))


@entry("aten.bitwise_not.default py.invert")
def _invert(w, node, x):
    dtype = out_dtype(node)
    return w.emit("Not" if dtype == torch.bool else "BitwiseNot", w.value(x, dtype))


def _unary(op: str, **attributes: Any) -> Entry:
    return lambda w, node, x, *_, **__: w.emit(op, w.value(x, out_dtype(node)), **attributes)


for _name in ["sin", "cos", "tan", "exp", "log", "tanh", "sqrt", "sigmoid", "relu", "abs", "neg", "reciprocal", "erf", "floor", "ceil", "sign", "asin", "acos", "atan", "sinh", "cosh", "round"]:  # fmt: skip
    TABLE[f"aten.{_name}.default"] = _unary(_name.capitalize())
    if _name not in ("relu", "sigmoid", "sign", "round", "floor", "ceil"):
        TABLE[f"py.math.{_name}"] = _unary(_name.capitalize())
for _name in ("neg", "abs"):
    TABLE[f"py.{_name}"] = _unary(_name.capitalize())
TABLE |= {
    "aten.gelu.default": lambda w, node, x, approximate="none": _gelu(w, node, x, approximate),
    "aten.elu.default": lambda w, node, x, alpha=1.0, *_: w.emit("Elu", w.value(x), alpha=float(alpha)),
    "aten.leaky_relu.default": lambda w, node, x, slope=0.01: w.emit("LeakyRelu", w.value(x), alpha=float(slope)),
    "aten.softplus.default": _unary("Softplus"),
    "aten.sgn.default": _unary("Sign"),
    "aten.isnan.default": lambda w, node, x: w.emit("IsNaN", w.value(x), dtype=torch.bool),
    "aten.isinf.default": lambda w, node, x: w.emit("IsInf", w.value(x), dtype=torch.bool),
}  # fmt: skip


def _gelu(w: Any, node: Node, x: Value, approximate: str) -> str:
    dtype = out_dtype(node)
    a = w.value(x, dtype)
    if approximate == "tanh":
        cube = w.emit("Mul", w.emit("Mul", a, a), a)
        inner = w.emit("Add", a, w.emit("Mul", cube, w.constant(0.044715, dtype)))
        gate = w.emit("Tanh", w.emit("Mul", inner, w.constant((2 / torch.pi) ** 0.5, dtype)))
    else:
        gate = w.emit("Erf", w.emit("Mul", a, w.constant(0.5**0.5, dtype)))
    half = w.emit("Mul", a, w.constant(0.5, dtype))
    return w.emit("Mul", half, w.emit("Add", gate, w.constant(1, dtype)))


@entry("aten.silu.default")
def _silu(w, node, x):
    a = w.value(x)
    return w.emit("Mul", a, w.emit("Sigmoid", a))


@entry("aten.rsqrt.default")
def _rsqrt(w, node, x):
    return w.emit("Reciprocal", w.emit("Sqrt", w.value(x, out_dtype(node))))


@entry("aten.log1p.default")
def _log1p(w, node, x):
    dtype = out_dtype(node)
    return w.emit("Log", w.emit("Add", w.value(x, dtype), w.constant(1, dtype)))


@entry("aten.rsub.Scalar aten.rsub.Tensor")
def _rsub(w, node, a, b, alpha=1):
    return _binary("Sub")(w, node, b, a, alpha)


@entry("aten.div.Tensor aten.div.Scalar py.truediv aten.true_divide.Tensor")
def _div(w, node, a, b):
    return w.emit("Div", w.value(a, out_dtype(node)), w.value(b, out_dtype(node)))


@entry("aten.div.Tensor_mode aten.div.Scalar_mode")
def _div_mode(w, node, a, b, rounding_mode=None):
    if rounding_mode == "floor":
        return _floor_divide(w, node, a, b)
    made = _div(w, node, a, b)
    if rounding_mode is None or not out_dtype(node).is_floating_point:
        return made
    return w.emit("Mul", w.emit("Sign", made), w.emit("Floor", w.emit("Abs", made)))


@entry("aten.remainder.Scalar aten.remainder.Tensor py.mod")
def _remainder(w, node, a, b):
    """The sign of the divisor, as Python's ``%``."""
    dtype = out_dtype(node)
    left, right = w.value(a, dtype), w.value(b, dtype)
    if not dtype.is_floating_point:
        return w.emit("Mod", left, right)
    rest = w.emit("Mod", left, right, fmod=1)
    return w.emit("Where", _other_sign(w, rest, right, dtype), w.emit("Add", rest, right), rest, dtype=dtype)  # fmt: skip


def _other_sign(w: Any, rest: str, right: str, dtype: torch.dtype) -> str:
    zero = w.constant(0, dtype)
    less = [w.emit("Less", x, zero, dtype=torch.bool) for x in (rest, right)]
    nonzero = w.emit("Not", w.emit("Equal", rest, zero, dtype=torch.bool))
    return w.emit("And", nonzero, w.emit("Xor", *less))


@entry("aten.floor_divide.default py.floordiv")
def _floor_divide(w, node, a, b):
    dtype = out_dtype(node)
    left, right = w.value(a, dtype), w.value(b, dtype)
    if dtype.is_floating_point:
        rest = w.emit("Mod", left, right, fmod=1)
        wrong = _other_sign(w, rest, right, dtype)
        count = w.emit("Div", w.emit("Sub", left, rest), right)
        count = w.emit("Where", wrong, w.emit("Sub", count, w.constant(1, dtype)), count, dtype=dtype)  # fmt: skip
        return w.emit("Round", count)
    return w.emit("Div", w.emit("Sub", left, w.emit("Mod", left, right)), right)


@entry("aten.where.self aten.where.ScalarSelf aten.where.ScalarOther aten.where.Scalar py.select")
def _where(w, node, c, a, b):
    dtype = out_dtype(node)
    return w.emit("Where", w.value(c, torch.bool), w.value(a, dtype), w.value(b, dtype), dtype=dtype)  # fmt: skip


@entry("aten.masked_fill.Scalar aten.masked_fill.Tensor")
def _masked_fill(w, node, x, mask, value):
    return _where(w, node, mask, value, x)


@entry(
    "aten.clamp.default aten.clamp_min.default aten.clamp_max.default aten.clamp.Tensor aten.hardtanh.default"
)
def _clamp(w, node, x, low=None, high=None, *, min=None, max=None):
    if node.op == "aten.clamp_max.default":
        low, high = None, low
    if node.op == "aten.hardtanh.default":
        low, high = -1.0 if low is None else low, 1.0 if high is None else high
    low, high = min if low is None else low, max if high is None else high
    dtype = out_dtype(node)
    made = w.value(x, dtype)
    if low is not None:
        made = w.emit("Max", made, w.value(low, dtype))
    return made if high is None else w.emit("Min", made, w.value(high, dtype))


@entry("tg.written")
def _written(w, node, old, new):
    return _same(w, node, new)


@entry("aten.clone.default aten.alias.default aten.detach.default aten.lift_fresh_copy.default tg.identity tg.read "
       "aten._to_copy.default aten.contiguous.default py.int py.float py.bool py.trunc")  # fmt: skip
def _same(w, node, x, *args, **kwargs):
    """The writer casts to the type of the output; a tensor as a number loses its dimensions."""
    name = w.value(x)
    if node.op.startswith("py.") and isinstance(x, Value) and rank_of(x):
        name = w.emit("Reshape", name, w.constant([], torch.int64))
    return name


# ---- makers


def as_sizes(w: Any, sizes: Any) -> str:
    """A shape as a 1-d tensor; sizes that are known at run time are numbers of the graph."""
    sizes = list(sizes)
    if all(isinstance(n, int) for n in sizes):
        return w.constant(sizes, torch.int64)
    one = w.constant([1], torch.int64)
    return w.emit("Concat", *(w.emit("Reshape", w.value(n, torch.int64), one) for n in sizes), axis=0)  # fmt: skip


def _filled(w: Any, node: Node, sizes: Any, value: Any) -> str:
    return w.emit("Expand", w.value(value, out_dtype(node)), as_sizes(w, sizes))


@entry("py.constant aten.scalar_tensor.default")
def _number(w, node, x, **kwargs):
    return w.value(x, out_dtype(node))


@entry("tg.constant")
def _constant(w, node, data, dtype, device):
    return w.constant(data, dtype)


@entry("aten.zeros.default aten.empty.memory_format aten.new_zeros.default aten.new_empty.default")
def _zeros(w, node, *args, **kwargs):
    return _filled(w, node, args[-1], 0)


@entry("aten.ones.default aten.new_ones.default")
def _ones(w, node, *args, **kwargs):
    return _filled(w, node, args[-1], 1)


@entry("aten.full.default")
def _full_of(w, node, size, value, **kwargs):
    return _filled(w, node, size, value)


@entry("aten.new_full.default")
def _new_full(w, node, x, size, value, **kwargs):
    return _filled(w, node, size, value)


def _like(value: Any) -> Entry:
    def lower(w: Any, node: Node, x: Value, given: Any = value, **_: Any) -> str:
        number = given if value is None else value
        return w.emit("Expand", w.value(number, out_dtype(node)), w.emit("Shape", w.value(x), dtype=torch.int64))  # fmt: skip

    return lower


TABLE |= {"aten.zeros_like.default": _like(0), "aten.ones_like.default": _like(1), "aten.full_like.default": _like(None),
          "aten.empty_like.default": _like(0), "aten.fill.Scalar": _like(None), "aten.fill.Tensor": _like(None)}  # fmt: skip


@entry("aten.copy.default")
def _copy(w, node, target, source, non_blocking=False):
    return w.emit("Expand", w.value(source, out_dtype(node)), w.emit("Shape", w.value(target), dtype=torch.int64))  # fmt: skip


@entry("aten.arange.default aten.arange.start aten.arange.start_step")
def _arange(w, node, *args, **kwargs):
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    dtype = out_dtype(node)
    return w.emit("Range", *(w.value(v, dtype) for v in (start, stop, step)))


# ---- reductions and linear algebra


def _reduction(op: str) -> Entry:
    def lower(
        w: Any, node: Node, x: Value, dim: Any = None, keepdim: bool = False, **_: Any
    ) -> str:
        dims = [] if dim is None else list(dim) if isinstance(dim, (list, tuple)) else [dim]
        dtype = out_dtype(node) if out_dtype(node) != torch.bool else torch.int32
        axes = [w.constant([dim_of(d, x) for d in dims])] if dims else []
        made = w.value(x, torch.bool) if out_dtype(node) == torch.bool else w.value(x)
        return w.emit(op, w.cast(made, dtype), *axes, keepdims=int(bool(keepdim)))

    return lower


for _name, _op in {"sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin", "prod": "ReduceProd",
                   "any": "ReduceMax", "all": "ReduceMin", "max": "ReduceMax", "min": "ReduceMin"}.items():  # fmt: skip
    for _overload in ("default", "dim_IntList" if _name == "sum" else "dim", "dim_int", "dims"):
        if not (_name in ("max", "min") and _overload != "default"):
            TABLE[f"aten.{_name}.{_overload}"] = _reduction(_op)


@entry("aten.max.dim aten.min.dim")
def _max_dim(w, node, x, dim, keepdim=False):
    axis, largest = dim_of(dim, x), node.op == "aten.max.dim"
    keep = int(bool(keepdim))
    values = w.emit("ReduceMax" if largest else "ReduceMin", w.value(x), w.constant([axis]), keepdims=keep)  # fmt: skip
    places = w.emit("ArgMax" if largest else "ArgMin", w.value(x), dtype=torch.int64, axis=axis, keepdims=keep)  # fmt: skip
    return [values, places]


@entry("aten.argmax.default aten.argmin.default")
def _argmax(w, node, x, dim=None, keepdim=False):
    op = "ArgMax" if node.op == "aten.argmax.default" else "ArgMin"
    if dim is None:
        flat = w.emit("Reshape", w.value(x), w.constant([-1]))
        return w.emit(op, flat, dtype=torch.int64, axis=0, keepdims=0)
    return w.emit(
        op, w.value(x), dtype=torch.int64, axis=dim_of(dim, x), keepdims=int(bool(keepdim))
    )


@entry("aten.linalg_vector_norm.default")
def _norm(w, node, x, ord=2, dim=None, keepdim=False, *, dtype=None):
    if ord not in (1, 2):
        raise w.error(f"{node.op} of order {ord}")
    return _reduction(f"ReduceL{int(ord)}")(w, node, x, dim, keepdim)


@entry("aten.topk.default")
def _topk(w, node, x, k, dim=-1, largest=True, sorted=True):
    count = w.emit("Reshape", w.value(k, torch.int64), w.constant([1]))
    made = w.emit("TopK", w.value(x), count, count=2, axis=dim_of(dim, x), largest=int(largest), sorted=1)  # fmt: skip
    w.dtypes[made[1]] = torch.int64
    return made


@entry("aten.cumsum.default")
def _cumsum(w, node, x, dim, **kwargs):
    return w.emit("CumSum", w.value(x, out_dtype(node)), w.constant(dim_of(dim, x)))


@entry("aten._softmax.default aten._log_softmax.default aten.softmax.int aten.log_softmax.int")
def _softmax(w, node, x, dim, *args):
    return w.emit("LogSoftmax" if "log" in node.op else "Softmax", w.value(x), axis=dim_of(dim, x))


@entry("aten.mm.default aten.bmm.default aten.mv.default aten.dot.default aten.matmul.default")
def _matmul(w, node, a, b):
    return w.emit("MatMul", w.value(a), w.value(b))


@entry("aten.addmm.default aten.baddbmm.default aten.addmv.default")
def _addmm(w, node, c, a, b, *, beta=1, alpha=1):
    dtype = out_dtype(node)
    made = w.emit("MatMul", w.value(a), w.value(b))
    if alpha != 1:
        made = w.emit("Mul", made, w.value(alpha, dtype))
    left = w.value(c) if beta == 1 else w.emit("Mul", w.value(c), w.value(beta, dtype))
    return w.emit("Add", left, made)


# ---- layers


@entry("aten.native_layer_norm.default")
def _layer_norm(w, node, x, shape, weight, bias, eps):
    axes = w.constant(list(range(rank_of(x) - len(shape), rank_of(x))))
    dtype = out_dtype(node)
    a = w.value(x)
    mean = w.emit("ReduceMean", a, axes, keepdims=1)
    centred = w.emit("Sub", a, mean)
    spread = w.emit("ReduceMean", w.emit("Mul", centred, centred), axes, keepdims=1)
    scale = w.emit("Reciprocal", w.emit("Sqrt", w.emit("Add", spread, w.constant(eps, dtype))))
    made = w.emit("Mul", centred, scale)
    made = made if weight is None else w.emit("Mul", made, w.value(weight))
    made = made if bias is None else w.emit("Add", made, w.value(bias))
    return [made, mean, scale]


@entry("aten.convolution.default")
def _convolution(w, node, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):  # fmt: skip
    n = rank_of(x) - 2
    wide = lambda v: list(v) * n if len(v) == 1 else list(v)  # noqa: E731
    more = {"output_padding": wide(output_padding)} if transposed else {}
    given = [w.value(v) for v in (x, weight, bias) if v is not None]
    return w.emit("ConvTranspose" if transposed else "Conv", *given, strides=wide(stride), pads=wide(padding) * 2,
                  dilations=wide(dilation), group=groups, **more)  # fmt: skip


@entry("aten.max_pool2d_with_indices.default")
def _max_pool(w, node, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    pair = lambda v: [v, v] if isinstance(v, int) else list(v) * (2 // len(v))  # noqa: E731
    first = w.constant([0])
    batch = w.value(x) if rank_of(x) == 4 else w.emit("Unsqueeze", w.value(x), first)
    made = w.emit("MaxPool", batch, kernel_shape=pair(kernel), strides=pair(stride or kernel), pads=pair(padding) * 2,
                  dilations=pair(dilation), ceil_mode=int(ceil_mode))  # fmt: skip
    return [made if rank_of(x) == 4 else w.emit("Squeeze", made, first)]


@entry("aten.native_batch_norm.default")
def _native_batch_norm(w, node, x, weight, bias, mean, var, training, momentum, eps):
    if training:
        raise w.error(f"{node.op} in training")
    return _batch_norm(w, node, x, weight, bias, mean, var, momentum, eps)


@entry("aten._native_batch_norm_legit_no_training.default")
def _batch_norm(w, node, x, weight, bias, mean, var, momentum, eps):
    given = [w.value(v) for v in (x, weight, bias, mean, var)]
    return [w.emit("BatchNormalization", *given, epsilon=eps)]
