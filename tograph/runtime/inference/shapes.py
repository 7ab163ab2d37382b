"""What an ATen op gives: sizes, strides and dtypes of its outputs, without running it.

A rule of the table below answers for the common ops in a few microseconds. Where there is none, torch's own
kernel runs on **meta** tensors, which is exact but costs up to a second at its first use, because it imports
torch's Python decompositions. Both are memoised on the op and all its arguments, unless a size is symbolic.

A rule takes the arguments of the op, with a ``Meta`` for each tensor, and returns a ``Meta`` (or a list of
them); it returns None when the case is not its own. Views always use the meta kernel: it is C++ and cheap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch

from .memory_formats import RANKS, channels_last, suggests_channels_last

SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


_INT = frozenset([int])


class Meta(NamedTuple):
    """What is known of a tensor while tracing. Sizes and strides may be ``torch.SymInt``."""

    dtype: torch.dtype
    size: tuple
    stride: tuple
    offset: Any
    device: torch.device

    @property
    def rank(self) -> int:
        return len(self.size)

    @property
    def static(self) -> bool:
        return _INT.issuperset(map(type, self.size))

    @property
    def laid_out(self) -> bool:
        """Whether sizes and strides are all known: a slice of what has a staged size may have other strides than sizes."""
        return _INT.issuperset(map(type, (*self.size, *self.stride)))

    @property
    def placed(self) -> bool:
        """Whether sizes, strides and offset are all known."""
        return _INT.issuperset(map(type, (self.offset, *self.size, *self.stride)))


def contiguous(dtype: torch.dtype, size: Sequence, device: torch.device) -> Meta:
    """A freshly made tensor."""
    stride, step = [], 1
    for n in reversed(size):
        stride.append(step)
        step = step * (max(n, 1) if type(n) is int else 1 if n is None else n)
    return Meta(dtype, tuple(size), tuple(reversed(stride)), 0, device)


def like(x: Meta, dtype: torch.dtype | None = None, size: Sequence | None = None) -> Meta:
    """A contiguous tensor with the properties of ``x`` but for those given."""
    return contiguous(dtype or x.dtype, x.size if size is None else size, x.device)


def is_packed(x: Meta) -> bool:
    """Whether a tensor is known to be contiguous."""
    return x.laid_out and x.stride == like(x).stride


def has_channels_last(x: Meta) -> bool:
    """Whether images or volumes are known to lie in the order of their pixels."""
    return x.laid_out and suggests_channels_last(x.size, x.stride)


def in_its_order(made: Meta, x: Meta) -> Meta:
    """A result that lies in the order of its pixels where ``x`` does."""
    return in_format(made, torch.channels_last) if made.static and has_channels_last(x) else made


def in_format(x: Meta, memory_format: torch.memory_format) -> Meta:
    """A new tensor of this size in a format for images, or for volumes; which of them the rank tells."""
    assert memory_format in RANKS
    return x._replace(stride=channels_last(x.size))


def _of_format(
    x: Meta, memory_format: torch.memory_format | None, dtype: torch.dtype
) -> Meta | None:
    """A new tensor like ``x`` in a format; None for a format that tensors of this rank do not have."""
    if memory_format in (None, torch.preserve_format):
        return pointwise((x,), dtype)
    if memory_format is torch.contiguous_format:
        return like(x, dtype)
    fits = x.static and RANKS.get(memory_format) == x.rank
    return in_format(like(x, dtype), memory_format) if fits else None


RULES: dict[str, Callable[..., Any]] = {}


def rule(*names: str):
    def add(function):
        for name in names:
            RULES.update(dict.fromkeys(name.split(), function))
        return function

    return add


# ---- pointwise ops


@cache
def _dummy(dtype: torch.dtype, scalar: bool) -> torch.Tensor:
    with torch.utils._python_dispatch._disable_current_modes():
        return torch.empty(() if scalar else (0,), dtype=dtype)


def _number(x: Any) -> Any:
    """A plain number that promotes as ``x`` does."""
    if isinstance(x, SYMBOLS):
        return x.node.kind(1)
    return x


def result_type(*xs: Any) -> torch.dtype:
    """torch's promotion over metas and numbers."""
    dummies = [_dummy(x.dtype, not x.size) if isinstance(x, Meta) else _number(x) for x in xs]
    out = dummies[0]
    if len(dummies) == 1:
        return torch.result_type(out, out)
    if len(dummies) == 2:
        return torch.result_type(*dummies)
    return _promote(dummies)


def _promote(dummies: list) -> torch.dtype:
    # torch.result_type takes two; cat-free fold by category: dimensioned, then 0-d, then numbers.
    ranked: list[list[Any]] = [
        [d for d in dummies if isinstance(d, torch.Tensor) and d.dim()],
        [d for d in dummies if isinstance(d, torch.Tensor) and not d.dim()],
        [max((d for d in dummies if not isinstance(d, torch.Tensor)), key=_rank, default=None)],
    ]
    out: Any = None
    for group in ranked:
        best = None
        for d in (x for x in group if x is not None):
            best = d if best is None else _dummy_like(torch.result_type(best, d), best, d)
        if best is not None:
            out = best if out is None else _dummy_like(torch.result_type(out, best), out, best)
    return torch.result_type(out, out)


def _rank(number: Any) -> int:
    """Of several numbers the one of the highest kind decides, and it stays a number: it promotes less than a tensor."""
    return [bool, int, float, complex].index(type(number))


def _dummy_like(dtype: torch.dtype, *xs: Any) -> torch.Tensor:
    return _dummy(dtype, not any(isinstance(x, torch.Tensor) and x.dim() for x in xs))


def same_size(a: Any, b: Any) -> bool:
    """Whether two sizes are known to be equal."""
    if type(a) is int and type(b) is int:
        return a == b
    return a is b or (
        isinstance(a, torch.SymInt) and isinstance(b, torch.SymInt) and a.node.same(b.node)
    )


def same_shape(a: Meta, b: Meta) -> bool:
    """Whether two tensors are known to have one shape, without asking for sizes that only the run knows."""
    return len(a.size) == len(b.size) and all(map(same_size, a.size, b.size))


def broadcast(*sizes: Sequence) -> tuple:
    """The broadcast size; RuntimeError in torch's words when there is none."""
    rank = max(map(len, sizes))
    out: list[Any] = [1] * rank
    for size in sizes:
        for i, n in enumerate(size, rank - len(size)):
            old = out[i]
            if type(old) is int and old == 1:
                out[i] = n
            elif (type(n) is int and n == 1) or same_size(n, old):
                continue
            elif type(n) is int and type(old) is int:
                raise RuntimeError(
                    f"The size of tensor a ({old}) must match the size of tensor b ({n}) at non-singleton dimension {i}"
                )
            elif type(n) is int:
                out[i] = n  # a symbolic size beside a known one: equal, or 1
            elif type(old) is not int:
                out[i] = _broadcast_symbols(old, n)
    return tuple(out)


def _broadcast_symbols(a: Any, b: Any) -> Any:
    """Two sizes that are known only when the graph runs: equal, or one of them is 1. A hint decides, as a guard."""
    if a is None or b is None or not (a.node.has_hint() and b.node.has_hint()):
        return None
    if a == b:
        return a
    return b if a == 1 else a


def pointwise(xs: Sequence[Any], dtype: torch.dtype) -> Meta:
    """The output of an elementwise op over metas and numbers."""
    metas = [x for x in xs if isinstance(x, Meta)]
    size = broadcast(*(m.size for m in metas)) if len(metas) > 1 else metas[0].size
    device = next((m.device for m in metas if m.size), metas[0].device)
    out = contiguous(dtype, size, device)
    if not out.static or not all(m.laid_out for m in metas):
        return out
    if all(m.size == size and m.stride == out.stride for m in metas):
        return out
    fast = all(isinstance(x, Meta) and x.size == size for x in xs)
    return out._replace(stride=_elementwise_strides(out, metas, fast))


def _is_contiguous(x: Meta, packed: Meta) -> bool:
    return all(s == t or n == 1 for n, s, t in zip(x.size, x.stride, packed.stride, strict=True))


def _is_dense(x: Meta) -> bool:
    """Whether the elements fill one block of memory without overlap, in some order of the dims."""
    step = 1
    for stride, n in sorted((s, n) for s, n in zip(x.stride, x.size, strict=True) if n != 1):
        if stride != step:
            return False
        step *= n
    return True


def _elementwise_strides(out: Meta, metas: list[Meta], fast: bool) -> tuple:  # noqa: C901  TensorIterator, step by step
    """What TensorIterator gives its output: ``fast`` where all operands have one size."""
    if fast and all(_is_contiguous(m, out) for m in metas):
        return out.stride
    if fast and len({m.stride for m in metas}) == 1 and _is_dense(metas[0]):
        return metas[0].stride
    size = out.size
    operands = [_broadcast_strides(m, size) for m in metas]

    def compare(i: int, j: int) -> int:  # > 0 when dim i must lie outside dim j
        for strides in operands:
            a, b = strides[i], strides[j]
            if a == 0 or b == 0:
                continue
            if a != b:
                return 1 if a > b else -1
            if size[i] > size[j]:
                return 1
        return 0

    order = list(range(len(size)))[::-1]  # from the innermost dim outwards; ties keep it
    for k in range(1, len(order)):
        at = k
        for before in range(k - 1, -1, -1):
            found = compare(order[before], order[at])
            if found > 0:
                order[before], order[at] = order[at], order[before]
                at = before
            elif found < 0:
                break
    strides, step = [0] * len(size), 1
    for d in order:
        strides[d] = step
        step *= max(size[d], 1)
    return tuple(strides)


def _broadcast_strides(x: Meta, size: tuple) -> list[int]:
    skip = len(size) - len(x.size)
    return [0] * skip + [
        0 if n == 1 and m != 1 else s for n, m, s in zip(x.size, size[skip:], x.stride, strict=True)
    ]


def _floating(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.get_default_dtype()


@rule("add sub mul maximum minimum fmax fmin bitwise_and bitwise_or bitwise_xor remainder fmod floor_divide "
      "pow clamp_min clamp_max hypot nextafter __lshift__ __rshift__ __and__ __or__ __xor__ gcd lcm "
      "bitwise_left_shift bitwise_right_shift heaviside")  # fmt: skip
def _binary(a, b, *rest, alpha=None):
    if not isinstance(a, Meta):
        # ``pow.Scalar`` makes a contiguous output.
        return like(b, result_type(a, b)) if isinstance(b, Meta) else None
    return pointwise((a, b), result_type(a, b))


@rule("rsub")
def _rsub(a, b, alpha=1):
    return pointwise((b, a), result_type(b, a))


@rule("div true_divide atan2 xlogy copysign")
def _divide(a, b, *, rounding_mode=None):
    if not isinstance(a, Meta) and not isinstance(b, Meta):
        return None  # of two numbers: torch has tensors of them
    dtype = result_type(a, b)
    return pointwise((a, b), dtype if rounding_mode else _floating(dtype))


@rule("lt le gt ge eq ne logical_and logical_or logical_xor")
def _compare(a, b):
    return pointwise((a, b), torch.bool)


@rule("isnan isinf isfinite logical_not signbit isposinf isneginf")
def _test(x):
    return pointwise((x,), torch.bool)


@rule("sin cos tan exp exp2 expm1 log log2 log10 log1p tanh sinh cosh sigmoid sqrt rsqrt erf erfc erfinv asin acos "
      "atan asinh acosh atanh reciprocal digamma lgamma special_entr i0 sinc logit deg2rad rad2deg")  # fmt: skip
def _float_unary(x, eps=None):
    return pointwise((x,), _floating(x.dtype))


@rule("relu sign sgn floor ceil round trunc frac silu gelu hardtanh leaky_relu elu softplus bitwise_not square "
      "positive mish hardswish hardsigmoid relu6 threshold celu selu nan_to_num hardshrink "
      "softshrink zero")  # fmt: skip
def _unary(x, *args, **kwargs):
    if x.dtype.is_complex:
        return None
    return pointwise((x,), x.dtype)


@rule("abs")
def _abs(x):
    return pointwise((x,), x.dtype.to_real())


@rule("neg")
def _neg(x):
    return pointwise((x,), x.dtype)


@rule("clamp")
def _clamp(x, low=None, high=None):
    given = [v for v in (x, low, high) if v is not None]
    return pointwise([v for v in given if isinstance(v, Meta)], result_type(*given))


@rule("where")
def _where(c, a=None, b=None):
    if a is None or not isinstance(a, Meta) or not isinstance(b, Meta):
        return None
    return pointwise((c, a, b), result_type(a, b))


@rule("addcmul addcdiv lerp")
def _ternary(x, a, b, value=1):
    return pointwise((x, a, b), result_type(x, a, b))


@rule("sigmoid_backward tanh_backward gelu_backward silu_backward hardtanh_backward elu_backward softplus_backward")  # fmt: skip
def _pointwise_backward(g, x, *args, **kwargs):
    return pointwise((g, x), result_type(g, x))


@rule("threshold_backward leaky_relu_backward")
def _threshold_backward(g, x, *args, **kwargs):
    """These take the order of dims from what was given, not from the gradient."""
    return pointwise((x, g), result_type(x, g))


# ---- copies and makers


@rule("bernoulli")
def _bernoulli(x, *args, generator=None):
    return like(x)


@rule("clone contiguous lift_fresh lift_fresh_copy detach_copy alias_copy dropout_")
def _clone(x, *args, memory_format=None, generator=None):
    return _of_format(x, memory_format, x.dtype)


@rule("copy")
def _copy(x, source, non_blocking=False):
    size = broadcast(x.size, source.size) if isinstance(source, Meta) else x.size
    known = all(type(n) is int for n in (*size, *x.size))
    if known and size != tuple(x.size):
        raise RuntimeError(f"output with shape {list(x.size)} doesn't match the broadcast shape {list(size)}")  # fmt: skip
    return x._replace(offset=0)


@rule("_to_copy")
def _to_copy(x, *, dtype=None, device=None, memory_format=None, **kwargs):
    out = _of_format(x, memory_format, dtype or x.dtype)
    return out if out is None or device is None else out._replace(device=torch.device(device))


def _make(size, dtype, device) -> Meta:
    return contiguous(dtype or torch.get_default_dtype(), size, torch.device(device or "cpu"))


@rule("zeros ones empty rand randn")
def _maker(
    size, *, dtype=None, device=None, names=None, memory_format=None, generator=None, **kwargs
):
    return _make(size, dtype, device)


def _value_dtype(value) -> torch.dtype:
    value = _number(value)
    return (
        torch.result_type(_dummy(torch.bool, True), value)
        if value is not None
        else torch.get_default_dtype()
    )


@rule("full")
def _full(size, value, *, dtype=None, device=None, **kwargs):
    return _make(size, dtype or _value_dtype(value), device)


@rule("scalar_tensor")
def _scalar_tensor(value, *, dtype=None, device=None, **kwargs):
    return _make((), dtype, device)


@rule("randint")
def _randint(*args, dtype=None, device=None, **kwargs):
    return _make(args[-1], dtype or torch.int64, device)


@rule("randperm")
def _randperm(n, *, dtype=None, device=None, **kwargs):
    return _make((n,), dtype or torch.int64, device)


@rule("eye")
def _eye(n, m=None, *, dtype=None, device=None, **kwargs):
    return _make((n, n if m is None else m), dtype, device)


@rule("arange")
def _arange(*args, dtype=None, device=None, **kwargs):
    if any(isinstance(a, SYMBOLS) for a in args):
        whole = all(_number(a).__class__ is not float for a in args)
        return _make((None,), dtype or (torch.int64 if whole else None), device)
    if not all(isinstance(a, int) for a in args):
        return None
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    if not step or (stop - start) * step < 0:
        return None
    return _make((len(range(start, stop, step)),), dtype or torch.int64, device)


@rule("linspace")
def _linspace(start, stop, steps, *, dtype=None, device=None, **kwargs):
    return _make((steps,), dtype, device)


@rule("zeros_like ones_like empty_like rand_like randn_like full_like randint_like")
def _make_like(x, *args, dtype=None, device=None, memory_format=None, **kwargs):
    out = _of_format(x, memory_format, dtype or x.dtype)
    return out if out is None or device is None else out._replace(device=torch.device(device))


@rule("new_zeros new_ones new_empty new_full")
def _make_new(x, size, *args, dtype=None, device=None, **kwargs):
    return contiguous(dtype or x.dtype, size, torch.device(device or x.device))


@rule("normal")
def _normal(mean, std=1.0, *args, **kwargs):
    """Of the size that a tensor and a tensor have together, in contiguous memory."""
    given = [x for x in (mean, std) if isinstance(x, Meta)]
    if not given or args or kwargs:
        return None
    size = pointwise(given, given[0].dtype).size
    return contiguous(given[0].dtype, size, given[0].device)


@rule("uniform normal_functional random exponential")
def _filled(x, *args, **kwargs):
    return like(x) if isinstance(x, Meta) else None


# ---- reductions


def dims_of(x: Meta, dim) -> tuple[int, ...]:
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return tuple(range(x.rank))
    dims = dim if isinstance(dim, (list, tuple)) else (dim,)
    rank = max(x.rank, 1)
    for d in dims:
        if not -rank <= d < rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {d})"
            )
    found = tuple(d % rank for d in dims)
    for d in found:
        if found.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return found


def _empty(x: Meta) -> bool:
    """Whether there is nothing to choose from: the kernel knows where this is an error, and has the words."""
    return any(type(n) is int and n == 0 for n in x.size)


def reduced(x: Meta, dim, keepdim: bool, dtype: torch.dtype) -> Meta:
    dims = dims_of(x, dim)
    if keepdim:
        size = [1 if i in dims else n for i, n in enumerate(x.size)]
    else:
        size = [n for i, n in enumerate(x.size) if i not in dims]
    return like(x, dtype, size)


@rule("sum prod nansum")
def _sum(x, dim=None, keepdim=False, *, dtype=None):
    whole = not x.dtype.is_floating_point and not x.dtype.is_complex
    return reduced(x, dim, keepdim, dtype or (torch.int64 if whole else x.dtype))


@rule("mean")
def _mean(x, dim=None, keepdim=False, *, dtype=None):
    dtype = dtype or x.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {str(x.dtype).removeprefix('torch.').capitalize()}"
        )
    return reduced(x, dim, keepdim, dtype)


@rule("amax amin")
def _extreme(x, dim=(), keepdim=False):
    if _empty(x) or not x.rank or (not isinstance(dim, int) and not dim):
        return None
    return reduced(x, dim, keepdim, x.dtype)


@rule("any all")
def _any(x, dim=None, keepdim=False):
    if isinstance(dim, (list, tuple)) and not dim:
        return None
    return reduced(x, dim, keepdim, torch.uint8 if x.dtype == torch.uint8 else torch.bool)


@rule("argmax argmin")
def _argmax(x, dim=None, keepdim=False):
    if _empty(x):
        return None
    return reduced(x, dim, keepdim, torch.int64)


@rule("max min median")
def _max(x, dim=None, keepdim=False):
    if isinstance(dim, Meta):
        return _binary(x, dim)
    if _empty(x):
        return None
    if dim is None:
        return reduced(x, None, False, x.dtype)
    return [reduced(x, dim, keepdim, x.dtype), reduced(x, dim, keepdim, torch.int64)]


@rule("var std")
def _var(x, dim=None, *args, correction=None, keepdim=False, unbiased=True):
    if isinstance(dim, bool) or args or not x.dtype.is_floating_point:
        return None
    return reduced(x, dim, keepdim, x.dtype)


@rule("norm linalg_vector_norm")
def _norm(x, p=2, dim=None, keepdim=False, *, dtype=None):
    if not x.dtype.is_floating_point or _empty(x):
        return None
    return reduced(x, dim, keepdim, dtype or x.dtype)


@rule("cumsum cumprod")
def _cumsum(x, dim, *, dtype=None):
    dims_of(x, dim)
    return like(
        x, dtype or (x.dtype if x.dtype.is_floating_point or x.dtype.is_complex else torch.int64)
    )


@rule("_softmax _log_softmax")
def _softmax(x, dim, half):
    dims_of(x, dim)
    return like(x) if not half else None


@rule("_softmax_backward_data _log_softmax_backward_data")
def _softmax_backward(g, y, dim, dtype):
    return like(g)


# ---- linear algebra


@rule("mm")
def _mm(a, b):
    if a.rank != 2 or b.rank != 2:
        return None
    _check_product(a, b, a.size[1], b.size[0])
    return like(a, size=(a.size[0], b.size[1]))


def _check_product(a: Meta, b: Meta, n, k) -> None:
    if type(n) is int and type(k) is int and n != k:
        shapes = "x".join(map(str, a.size)), "x".join(map(str, b.size))
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({shapes[0]} and {shapes[1]})"
        )
    if a.dtype != b.dtype:
        names = [str(m.dtype).removeprefix("torch.") for m in (a, b)]
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {names[0]} != {names[1]}"
        )


@rule("addmm")
def _addmm(c, a, b, *, beta=1, alpha=1):
    out = _mm(a, b)
    return out if out is not None and _expands(c, out) else None


def _expands(x: Meta, to: Meta) -> bool:
    sizes = zip(reversed(x.size), reversed(to.size), strict=False)
    return x.rank <= to.rank and all(
        type(n) is not int or type(m) is not int or n in (1, m) for n, m in sizes
    )


@rule("bmm")
def _bmm(a, b):
    if a.rank != 3 or b.rank != 3 or not same_size(a.size[0], b.size[0]):
        return None
    _check_product(a, b, a.size[2], b.size[1])
    return like(a, size=(a.size[0], a.size[1], b.size[2]))


@rule("baddbmm")
def _baddbmm(c, a, b, *, beta=1, alpha=1):
    out = _bmm(a, b)
    return out if out is not None and _expands(c, out) else None


@rule("mv")
def _mv(a, b):
    if a.rank != 2 or b.rank != 1:
        return None
    if type(a.size[1]) is int and type(b.size[0]) is int and a.size[1] != b.size[0]:
        raise RuntimeError(
            f"size mismatch, got input ({a.size[0]}), mat ({a.size[0]}x{a.size[1]}), vec ({b.size[0]})"
        )
    return like(a, size=(a.size[0],))


@rule("dot vdot")
def _dot(a, b):
    if a.rank != 1 or b.rank != 1 or a.dtype != b.dtype:
        return None
    n, k = a.size[0], b.size[0]
    known = type(n) is int and type(k) is int
    return None if known and n != k else like(a, size=())


# ---- rows, indices and joins


@rule("select")
def _select(x, dim, index):
    """Only for an index that is known at run time; other views go to the meta kernel."""
    if not isinstance(index, SYMBOLS):
        return None
    if not x.rank:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = dims_of(x, dim)[0]
    return x._replace(
        size=x.size[:dim] + x.size[dim + 1 :], stride=x.stride[:dim] + x.stride[dim + 1 :]
    )


@rule("slice")
def _slice(x, dim=0, start=None, end=None, step=1):
    """Only for bounds that are known at run time: the size is unknown."""
    if not x.rank:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    dim = dims_of(x, dim)[0]
    if type(x.size[dim]) is int and not any(isinstance(v, SYMBOLS) for v in (start, end, step)):
        return None
    return like(x, size=(*x.size[:dim], None, *x.size[dim + 1 :]))


@rule("cat")
def _cat(xs, dim=0):
    for i, x in enumerate(xs):
        if not x.rank:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    dtype = result_type(*xs)  # what has no elements counts
    xs = [x for x in xs if x.rank != 1 or type(x.size[0]) is not int or x.size[0]] or list(xs)
    first = xs[0]
    if any(x.rank != first.rank for x in xs) or not first.rank:
        return None
    dim = dims_of(first, dim)[0]
    for x in xs:
        for i, (n, m) in enumerate(zip(first.size, x.size, strict=True)):
            if i != dim and type(n) is int and type(m) is int and n != m:
                return None  # the kernel has the words for it
    size = list(first.size)
    size[dim] = sum(x.size[dim] for x in xs[1:]) + size[dim]
    made = like(first, dtype, size)
    return in_its_order(made, first) if all(map(has_channels_last, xs)) else made


@rule("stack")
def _stack(xs, dim=0):
    first, rank = xs[0], xs[0].rank + 1
    for i, x in enumerate(xs):
        if first.static and x.static and tuple(x.size) != tuple(first.size):
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first.size)} at entry 0 and {list(x.size)} at entry {i}"
            )
    if any(x.rank != first.rank for x in xs) or not -rank <= dim < rank:
        return None
    size = [_common(sizes) for sizes in zip(*(x.size for x in xs), strict=True)]
    if None in size:
        return None
    size.insert(dim % rank, len(xs))
    if all(map(has_channels_last, xs)):
        return None
    return like(first, result_type(*xs), size)


def _common(sizes: Sequence) -> Any:
    """The one size that all of these have to be, or None; where only the graph's run tells, it compares them."""
    one = next((n for n in sizes if type(n) is int), sizes[0])
    others = [n for n in sizes if not same_size(n, one)]
    if any(type(n) is int or n.node.has_hint() for n in others):
        return None
    return one if type(one) is int or not others or not one.node.has_hint() else None


@rule("index_select")
def _index_select(x, dim, index):
    if index.rank > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if not x.rank:
        return None
    dim = dims_of(x, dim)[0]
    return like(x, size=(*x.size[:dim], index.size[0] if index.rank else 1, *x.size[dim + 1 :]))


@rule("gather")
def _gather(x, dim, index, *, sparse_grad=False):
    if not x.rank or x.rank != index.rank or _empty(index):
        return None
    at = dims_of(x, dim)[0]
    beyond = any(_exceeds(n, m) for d, (n, m) in enumerate(zip(index.size, x.size)) if d != at)
    return None if beyond else like(x, size=index.size)


def _exceeds(n: Any, m: Any) -> bool:
    """Whether a size is known to be larger than another one."""
    return type(n) is int and type(m) is int and n > m


@rule("embedding")
def _embedding(weight, index, *args, **kwargs):
    if weight.rank != 2:
        raise RuntimeError("'weight' must be 2-D")
    return like(weight, size=(*index.size, weight.size[1]))


@rule("index")
def _index(x, indices):
    given = [i for i in indices if i is not None]
    if any(i.dtype in (torch.bool, torch.uint8) for i in given):
        return _masked(x, indices, given)
    if len(indices) > x.rank:
        return None
    places = [k for k, i in enumerate(indices) if i is not None]
    size = broadcast(*(i.size for i in given))
    together = places == list(range(places[0], places[-1] + 1))
    kept = [n for k, n in enumerate(x.size) if k not in places]
    at = places[0] if together else 0
    static = all(type(n) is int for n in (*size, *x.size))
    if static and not (together and is_packed(x)):  # its strides follow those of x
        return None
    return like(x, size=(*kept[:at], *size, *kept[at:]))


def _masked(x, indices, given):
    """One mask: as many rows as it has true elements, which is known at run time."""
    if len(given) != 1:
        return None
    at = next(k for k, i in enumerate(indices) if i is not None)
    return like(x, size=(*x.size[:at], None, *x.size[at + given[0].rank :]))


@rule("nonzero argwhere")
def _nonzero(x):
    return like(x, torch.int64, (None, x.rank))


@rule("_unique")
def _unique(x, sorted=True, return_inverse=False):
    return _unique2(x, sorted, return_inverse)[:2]


@rule("_unique2")
def _unique2(x, sorted=True, return_inverse=False, return_counts=False):
    found, some = like(x, size=(None,)), like(x, torch.int64, (None,))
    inverse = like(x, torch.int64) if return_inverse else like(x, torch.int64, (0,))
    return [found, inverse, some if return_counts else like(x, torch.int64, (0,))]


@rule("bincount")
def _bincount(x, weights=None, minlength=0):
    dtype = weights.dtype if weights is not None and weights.dtype == torch.float32 else torch.float64  # fmt: skip
    return like(x, torch.int64 if weights is None else dtype, (None,))


@rule("_ctc_loss")
def _ctc_loss(x, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    steps, batch, _ = x.size
    known = isinstance(target_lengths, (list, tuple)) and all(type(n) is int for n in target_lengths)  # fmt: skip
    longest = 2 * max(target_lengths) + 1 if known else None
    return [like(x, size=(batch,)), like(x, size=(batch, steps, longest))]


@rule("repeat_interleave")
def _repeat_interleave(repeats, output_size=None):
    return like(repeats, torch.int64, (output_size,))


@rule("linalg_lstsq")
def _lstsq(a, b, rcond=None, driver=None):
    if a.rank < 2:
        raise RuntimeError("torch.linalg.lstsq: input must have at least 2 dimensions.")
    if a.rank - b.rank not in (0, 1):
        raise RuntimeError("torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1")  # fmt: skip
    *batch, m, n = a.size
    vector = b.rank < a.rank
    rows = b.size[-1] if vector else b.size[-2]
    if type(m) is type(rows) is int and m != rows:
        place = 1 if vector else 2
        raise RuntimeError(f"torch.linalg.lstsq: input.size(-2) should match other.size(-{place})")
    batch = broadcast(batch, b.size[: a.rank - 2])
    width = 1 if vector else b.size[-1]
    driver, real = driver or "gelsy", a.dtype.to_real()
    rank = like(a, torch.int64, (0,) if driver == "gels" else batch)
    known = type(m) is type(n) is int
    singular = (0,) if driver in ("gels", "gelsy") else (*batch, min(m, n) if known else None)
    left = (0,) if driver == "gelsy" or (known and m <= n) else (*batch, width)
    if left != (0,) and not (known and driver == "gels"):
        if batch:  # whether there are any depends on ranks
            return None
        left = (None,)
    return [_solution(a, b, batch, width, vector), like(a, real, left), rank, like(a, real, singular)]  # fmt: skip


def _solution(a: Meta, b: Meta, batch: tuple, width: Any, vector: bool) -> Meta:
    """That of ``linalg_lstsq``: LAPACK writes it over the right-hand side, column by column."""
    n, size = a.size[-1], tuple(a.size[-2:])
    if not _INT.issuperset(map(type, (*batch, width, *size))):
        return like(b, size=(*batch, n) if vector else (*batch, n, width))
    columns = contiguous(b.dtype, (*batch, width, max(size)), b.device).stride
    *outer, column, row = columns
    if vector:
        return Meta(b.dtype, (*batch, n), (*outer, row), 0, b.device)
    return Meta(b.dtype, (*batch, n, width), (*outer, row, column), 0, b.device)


@rule("masked_select")
def _masked_select(x, mask):
    if mask.dtype is not torch.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    if x.static and mask.static:
        broadcast(x.size, mask.size)
    return like(x, size=(None,))


@rule("fill")
def _fill(x, value):
    if isinstance(value, Meta) and value.rank:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.rank} dimensions."
        )
    return _unary(x)


@rule("scatter scatter_add index_add index_copy scatter_reduce")
def _same(x, *args, **kwargs):
    return None if _empty(x) else like(x)


@rule("index_put index_fill")
def _changed(x, *args, **kwargs):
    """A clone of ``x`` with other elements."""
    return None if _empty(x) else pointwise((x,), x.dtype)


@rule("select_scatter")
def _select_scatter(x, source, dim, index):
    if not x.rank or _empty(x):
        return None
    at = dims_of(x, dim)[0]
    return _with_part(x, source, x.size[:at] + x.size[at + 1 :])


@rule("slice_scatter")
def _slice_scatter(x, source, dim=0, start=None, end=None, step=1):
    if not x.rank or _empty(x):
        return None
    at, bounds = dims_of(x, dim)[0], (start, end, step)
    told = type(x.size[at]) is int and all(b is None or type(b) is int for b in bounds)
    count = len(range(x.size[at])[slice(*bounds)]) if told else source.size[at]
    return _with_part(x, source, (*x.size[:at], count, *x.size[at + 1 :]))


def _with_part(x: Meta, source: Meta, size: tuple) -> Meta:
    """``x`` with ``source`` in the place of a part of that size."""
    known = all(type(n) is int for n in (*size, *source.size))
    if known and tuple(size) != tuple(source.size):
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(source.size)}, slice size = {list(size)}"
        )
    return _of_its_strides(x)


@rule("diagonal_scatter as_strided_scatter")
def _with_some(x, *args, **kwargs):
    return None if _empty(x) else _of_its_strides(x)


def _of_its_strides(x: Meta) -> Meta:
    """A copy of ``x`` of its own strides, also where these leave gaps, unless elements overlap."""
    if not x.laid_out or any(n > 1 and not s for n, s in zip(x.size, x.stride)):
        return like(x)
    return x._replace(offset=0)


@rule("roll")
def _roll(x, shifts, dims=()):
    inside = all(-x.rank <= d < x.rank for d in dims)
    each = len(shifts) == (len(dims) or 1)
    if not inside or not each or _empty(x):
        return None
    if not dims or is_packed(x) or not x.laid_out:
        return like(x)
    if x.device.type != "cpu" or not all(type(n) is int for n in shifts):
        return None
    # Two parts are joined, of which one is empty where nothing moves.
    moves = all(n % x.size[d] for n, d in zip(shifts, dims))
    return in_its_order(like(x), x) if moves else like(x)


@rule("masked_fill masked_scatter")
def _masked_write(x, mask, value):
    return like(x, size=broadcast(x.size, mask.size))


@rule("tril triu")
def _triangle(x, diagonal=0):
    return like(x) if x.rank >= 2 else None


@rule("diag_embed")
def _diag_embed(x, offset=0, dim1=-2, dim2=-1):
    rank = x.rank + 1
    first, second = (d + rank if d < 0 else d for d in (dim1, dim2))
    if not x.rank or first == second or not (0 <= first < rank and 0 <= second < rank):
        return None
    size = list(x.size[:-1])
    for d in sorted((first, second)):
        size.insert(d, x.size[-1] + abs(offset))
    return like(x, size=tuple(size))


@rule("flip")
def _flip(x, dims):
    dims_of(x, dims)
    return pointwise((x,), x.dtype)


@rule("sort")
def _sort(x, dim=-1, descending=False, *, stable=None):
    dims_of(x, dim)
    return [pointwise((x,), dtype) for dtype in (x.dtype, torch.int64)]


@rule("topk")
def _topk(x, k, dim=-1, largest=True, sorted=True):
    if not x.rank:
        return None
    dim = dims_of(x, dim)[0]
    known = type(k) is int and type(x.size[dim]) is int
    if known and not 0 <= k <= x.size[dim]:
        return None
    size = (*x.size[:dim], k, *x.size[dim + 1 :])
    return [like(x, size=size), like(x, torch.int64, size)]


@rule("multinomial")
def _multinomial(p, n, replacement=False, *, generator=None):
    return like(p, torch.int64, (*p.size[:-1], n))


@rule("native_layer_norm")
def _layer_norm(x, shape, weight, bias, eps):
    kept = x.rank - len(shape)
    given = [x.size[max(kept, 0) :], *(w.size for w in (weight, bias) if w is not None)]
    if any(_differ(size, shape) for size in given):
        return None
    stats = like(x, size=(*x.size[:kept], *[1] * len(shape)))
    return [like(x), stats, stats]


def _differ(size: Sequence, other: Sequence) -> bool:
    """Whether two shapes are known to be different ones."""
    known = any(type(n) is int and type(m) is int and n != m for n, m in zip(size, other))
    return len(size) != len(other) or known


@rule("native_dropout")
def _native_dropout(x, p, train):
    return [like(x), like(x, torch.bool)]


@rule("nll_loss_forward")
def _nll(x, target, weight, reduction, ignore):
    size = target.size if reduction == 0 else ()
    return [like(x, size=size), like(x, size=())]


@rule("view")
def _symbolic_view(x, size):
    """Only for sizes that are known at run time; -1 is what the value itself tells, where it does not follow."""
    if isinstance(size, torch.dtype):
        return None
    if x.static and not any(isinstance(n, SYMBOLS) for n in size):
        return None
    return like(
        x, size=[_remaining(x.size, size) if type(n) is int and n == -1 else n for n in size]
    )


def _remaining(old: Sequence, new: Sequence) -> int | None:
    """What -1 stands for in a view whose sizes that only the run knows are sizes of the tensor; None otherwise."""
    left, known = list(old), 1
    for n in new:
        at = next((i for i, m in enumerate(left) if same_size(m, n)), None)
        if type(n) is int:
            known *= n if n != -1 else 1
        elif at is None:
            return None
        else:
            del left[at]
    if not all(type(n) is int for n in left) or not known or math.prod(left) % known:
        return None
    return math.prod(left) // known


@rule("expand")
def _expand(x, size, *, implicit=False):
    """Only for sizes that are known at run time."""
    own = (None,) * (len(size) - x.rank) + x.size
    return like(
        x, size=[m if type(n) is int and n == -1 else n for n, m in zip(size, own, strict=True)]
    )
