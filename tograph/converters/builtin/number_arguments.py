"""Functions of torch that take a plain number in C++, of a number that only the run knows.

What draws is recorded as torch's own op, so it draws the same numbers; it has no gradient. The others are written with ops
that take any number, so that values and gradients are torch's. Each takes what torch's takes, and gives None where it does not cover
the arguments: then torch's own is called, which refuses them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from ...runtime.inference.shapes import SYMBOLS
from ...runtime.recording.tracing import dispatch
from ...runtime.symbols.funcgraph import is_tracing
from ...runtime.symbols.products import is_open
from ...runtime.symbols.symbolic import as_symbolic
from ..conversion import converted
from ..left_alone import leave_alone
from ..registry import TENSOR_METHODS, handles
from ..resolved import resolved
from .normalizing import HALVES, rms_norm, standardized, wide

aten = torch.ops.aten


def _is_staged(x: Any) -> bool:
    return isinstance(x, SYMBOLS)


def _of_staged(function: Any, own: Callable[..., Any], numbers: frozenset = frozenset()) -> Callable[..., Any]:  # fmt: skip
    """The form of a function: ``own`` where one of its arguments is a staged number.

    ``numbers``: the positions and names of those that torch takes as numbers, also of tensors of one element.
    """
    decides = getattr(function, "__module__", "") == F.__name__  # in Python, by sizes

    def run(args, kwargs):
        if is_tracing():
            args = tuple(_number(a) if i in numbers else a for i, a in enumerate(args))
            kwargs = {k: _number(a) if k in numbers else a for k, a in kwargs.items()}
        if is_tracing() and any(isinstance(a, SYMBOLS) for a in (*args, *kwargs.values())):
            found = own(*args, **kwargs)
            if found is not None:
                return found
        if decides and any(map(is_open, (*args, *kwargs.values()))):
            return converted(function)(*args, **kwargs)
        return leave_alone(function, args, kwargs)

    def form(*args, **kwargs):
        return resolved(run, function, args, kwargs)

    return form


def _number(x: Any) -> Any:
    """What torch's C++ code makes of a tensor where it takes a number: its one element."""
    if isinstance(x, torch.Tensor) and not x.dim() and not x.requires_grad and not x.is_complex():
        return as_symbolic(x).item()
    return x


def _with_float_defaults(plain: Callable[..., Any]) -> frozenset:
    """The positions and names of the parameters that are floats."""
    found = enumerate(inspect.signature(plain).parameters.values())
    return frozenset(at for i, p in found if type(p.default) is float for at in (i, p.name))


# ---- what draws


def _drawing(name: str, overload: str, numbers: frozenset = frozenset()) -> None:
    op = getattr(getattr(aten, name), overload)
    parameters = [a for a in op._schema.arguments[1:] if not a.kwarg_only]

    def own(x, *args, generator=None, **kwargs):
        if x.requires_grad and torch.is_grad_enabled():
            return x.copy_(own(torch.empty_like(x.detach()), *args, generator=generator, **kwargs))
        if kwargs:  # a node has what is no keyword of the op by position
            rest = parameters[len(args) :]
            if not kwargs.keys() <= {a.name for a in rest}:
                return None
            args = (*args, *(kwargs.get(a.name, a.default_value) for a in rest))
        return dispatch(op, (x, *args), {"generator": generator})

    TENSOR_METHODS[name] = _of_staged(
        getattr(torch.Tensor, name), lambda *a, **k: own(*a, **k), numbers
    )


for _name, _numbers in (
    ("uniform_", ("from", "to")), ("normal_", ("mean", "std")), ("log_normal_", ("mean", "std")),
    ("cauchy_", ("median", "sigma")), ("exponential_", ("lambd",)), ("geometric_", ("p",)),
):  # fmt: skip
    _drawing(_name, "default", frozenset((1, 2, *_numbers)))
_drawing("bernoulli_", "float")


def _normal(mean, std, size=None, *, generator=None, **options):
    if size is not None:
        return TENSOR_METHODS["normal_"](
            torch.empty(size, **options), mean, std, generator=generator
        )
    if not isinstance(mean, torch.Tensor) or isinstance(std, torch.Tensor) or options:
        return None
    drawn = TENSOR_METHODS["normal_"](
        torch.empty_like(mean.detach()), 0.0, std, generator=generator
    )
    return drawn.add_(mean.detach())


def _bernoulli(input, p, *, generator=None):
    return TENSOR_METHODS["bernoulli_"](torch.empty_like(input.detach()), p, generator=generator)


def _dropout(input, p=0.5, training=True, inplace=False):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    if p == 1:
        return input.mul_(0.0) if inplace else input.mul(0.0)
    noise = torch.empty_like(input.detach()).bernoulli_(1 - p).div_(1 - p)
    return input.mul_(noise) if inplace else input.mul(noise)


# ---- what computes


def _pad(input, pad, mode="constant", value=None):
    if mode != "constant":
        return None
    outside = F.pad(torch.zeros_like(input, dtype=torch.bool), pad, value=True)
    return F.pad(input, pad).masked_fill(outside, value)


def _hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    outside = (input <= min_val) | (input >= max_val)  # there the gradient is 0, at the bounds too
    found = torch.where(outside, input.detach().clamp(min_val, max_val), input)
    return input.copy_(found) if inplace else found


def _isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    a, b = input, other
    if a.dtype != b.dtype:
        raise RuntimeError(f"{a.dtype} did not match {b.dtype}")
    if rtol < 0:
        raise RuntimeError(f"rtol must be greater than or equal to zero, but got {rtol}")
    if atol < 0:
        raise RuntimeError(f"atol must be greater than or equal to zero, but got {atol}")
    close = a == b
    if equal_nan and a.is_floating_point():
        close = close | (a.isnan() & b.isnan())
    b = b if b.is_floating_point() or b.is_complex() else b.to(torch.get_default_dtype())
    error = (a - b).abs()
    return close | (error.isfinite() & (error <= atol + (rtol * b).abs()))


def _reduced(x, reduction):
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return x if reduction == "none" else x.mean() if reduction == "mean" else x.sum()


def _parted(away, z, scale, far):
    """``far`` where ``away``, else ``scale * z * z``: of what is near only, for the gradient of an infinite square is no number."""
    near = torch.where(away, 0, z)
    return torch.where(away, far, scale * near * near)


def _huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    if weight is not None:
        return None
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    z = (input - target).abs()
    return _reduced(_parted(z > delta, z, 0.5, delta * (z - 0.5 * delta)), reduction)


def _smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    if size_average is not None or reduce is not None:
        return None
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    z = (input - target).abs()
    if beta == 0:
        return _reduced(z, reduction)
    return _reduced(_parted(z >= beta, z, 0.5 / beta, z - 0.5 * beta), reduction)


def _margin_ranking_loss(input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):  # fmt: skip
    if size_average is not None or reduce is not None:
        return None
    return _reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


def _layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    given = [x for x in (weight, bias) if x is not None]
    if not isinstance(normalized_shape, (list, tuple)) or not _normalisable(
        input, normalized_shape, given
    ):
        return None
    dims = tuple(range(-len(normalized_shape), 0))
    found = standardized(wide(input), dims, eps)
    found = found if weight is None else found * weight
    return (found if bias is None else found + bias).to(input.dtype)


def _normalisable(input, sizes, given):
    """Whether torch's ``layer_norm`` takes these: parameters of just these sizes, all of one dtype that goes with the input's."""
    shape, dtypes = tuple(sizes), {x.dtype for x in given}
    fits = shape and tuple(input.shape[-len(shape) :]) == shape and input.is_floating_point()
    if not fits or len(dtypes) > 1 or any(tuple(x.shape) != shape for x in given):
        return False
    return dtypes <= {input.dtype, *([torch.float32] if input.dtype in HALVES else ())}


def _cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                   label_smoothing=0.0):  # fmt: skip
    if not _is_staged(label_smoothing):
        return None
    if label_smoothing > 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")

    def smoothed(by):
        return F.cross_entropy(
            input, target, weight, size_average, ignore_index, reduce, reduction, by
        )

    # The loss is linear in how much it is smoothed. A negative number counts as 0 in torch, and for 0 it leaves the other part
    # out: that is infinite where a class is masked with -inf.
    if label_smoothing > 0:
        return smoothed(0.0) * (1 - label_smoothing) + smoothed(1.0) * label_smoothing
    return smoothed(0.0)


def _linspace(start, end, steps, *, dtype=None, device=None, requires_grad=False):
    dtype = torch.get_default_dtype() if dtype is None else dtype
    numbers = not (isinstance(start, torch.Tensor) or isinstance(end, torch.Tensor))
    if (
        not numbers
        or dtype not in (torch.float32, torch.float64)
        or not isinstance(steps, int)
        or isinstance(steps, bool)
    ):
        return None
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    first = torch.full((), start, dtype=dtype, device=device)
    last = torch.full((), end, dtype=dtype, device=device)
    at = torch.arange(steps, device=device)
    step = (last - first) / max(steps - 1, 1)
    # The second half from the end on, as torch has it; a single number is the first.
    found = torch.where(at < max(steps // 2, 1), first + step * at, last - step * (steps - 1 - at))
    return found.requires_grad_() if requires_grad else found


def _float_power(input, exponent):
    kind = torch.complex128 if any(map(_is_complex, (input, exponent))) else torch.float64
    if isinstance(input, torch.Tensor):
        return input.to(kind).pow(
            exponent.to(kind) if isinstance(exponent, torch.Tensor) else exponent
        )
    return torch.pow(input, exponent.to(kind))


def _is_complex(x):
    return x.is_complex() if isinstance(x, torch.Tensor) else isinstance(x, complex)


def _close(a, b, *, rel_tol=1e-09, abs_tol=0.0):
    if rel_tol < 0 or abs_tol < 0:
        raise ValueError("tolerances must be non-negative")
    if a == b:
        return True
    if math.isinf(a) or math.isinf(b):
        return False
    gap = abs(b - a)
    return gap <= abs(rel_tol * b) or gap <= abs(rel_tol * a) or gap <= abs_tol


def _taking(plain: Callable[..., Any]) -> Callable[..., Any]:
    """``plain``, converted; it covers no arguments that it has no names for (``out``, ``layout``)."""
    signature = inspect.signature(plain)

    def form(*args, **kwargs):
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            return None
        return converted(plain)(*args, **kwargs)

    return form


def _register(
    function: Any, form: Callable[..., Any], method: Any = None, numbers: frozenset = frozenset()
) -> None:
    handles(function)(_of_staged(function, form, numbers))
    if method is not None:
        TENSOR_METHODS[method.__name__] = _of_staged(method, form, numbers)


_register(torch.normal, _normal)
_register(torch.bernoulli, _bernoulli, torch.Tensor.bernoulli)
_register(F.pad, _pad)
for _function, _plain, _method in (
    (F.dropout, _dropout, None),
    (F.hardtanh, _hardtanh, None),
    (torch.isclose, _isclose, torch.Tensor.isclose),
    (torch.float_power, _float_power, torch.Tensor.float_power),
    (F.huber_loss, _huber_loss, None),
    (F.smooth_l1_loss, _smooth_l1_loss, None),
    (F.margin_ranking_loss, _margin_ranking_loss, None),
    (F.layer_norm, _layer_norm, None),
    (F.rms_norm, rms_norm, None),
    (F.cross_entropy, _cross_entropy, None),
    (torch.linspace, _linspace, None),
    (math.isclose, _close, None),
):
    _register(_function, _taking(_plain), _method, _with_float_defaults(_plain))
