"""Shape rules of the ops of ``nn`` modules, losses, attention and activations.

A rule of this file answers for contiguous inputs and legal arguments; anything else is None, so that the meta
kernel decides on layouts (channels last) and has the words for an error. An output that ``output_mask`` switches
off is None when the graph runs; while tracing it has the type it would have otherwise, and nobody reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .shapes import (
    Meta,
    has_channels_last,
    in_format,
    in_its_order,
    is_packed,
    like,
    pointwise,
    rule,
)


def _plain(*xs: Any) -> bool:
    """Whether all metas are contiguous, of a common floating dtype and device."""
    return _floats(*xs) and all(_packed(x) for x in xs if isinstance(x, Meta))


def _in_format(x: Meta, *others: Any) -> bool:
    """Whether floats are what a kernel of the CPU brings to the format of its input, or are contiguous."""
    return _floats(x, *others) if x.device.type == "cpu" else _plain(x, *others)


def _floats(*xs: Any) -> bool:
    """Whether all metas are of a common floating dtype and device."""
    metas = [x for x in xs if isinstance(x, Meta)]
    first = metas[0]
    return first.dtype.is_floating_point and all(
        m.dtype == first.dtype and m.device == first.device for m in metas
    )


def _packed(x: Meta) -> bool:
    """Whether a tensor is contiguous; one with sizes or strides known at run time counts as such."""
    return not x.laid_out or is_packed(x)


def _tuple(x: Any, n: int) -> tuple[int, ...]:
    x = (x,) if isinstance(x, int) else tuple(x)
    return x * n if len(x) == 1 else x


# ---- convolution and pooling


def _window(n: Any, k: Any, stride: int, pad: int, dilation: int, ceil: bool = False) -> int | None:
    """How many windows fit: None when ``n`` or ``k`` is symbolic, 0 or less when none does."""
    if type(n) is not int or type(k) is not int:
        return None
    out = (n + 2 * pad - dilation * (k - 1) - 1 + (stride - 1 if ceil else 0)) // stride + 1
    return out - 1 if ceil and (out - 1) * stride >= n + pad else out


def _bad(size: Sequence) -> bool:
    return any(type(n) is int and n <= 0 for n in size)


@rule("convolution")
def _convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    rank = x.rank - 2
    if (
        rank < 1
        or weight.rank != x.rank
        or not all(type(n) is int for n in weight.size[:2])
        or not _floats(x, weight, *([bias] if bias else []))
    ):
        return None
    if x.size[1] != (weight.size[0] if transposed else weight.size[1] * groups) or _bad(x.size):
        return None
    stride, padding, dilation = (_tuple(v, rank) for v in (stride, padding, dilation))
    if transposed:
        more = _tuple(output_padding, rank)
        dims = zip(x.size[2:], weight.size[2:], stride, padding, dilation, more, strict=True)
        size = [
            (n - 1) * s - 2 * p + d * (k - 1) + o + 1 if type(n) is type(k) is int else None
            for n, k, s, p, d, o in dims
        ]
        channels = weight.size[1] * groups
    else:
        size = list(map(_window, x.size[2:], weight.size[2:], stride, padding, dilation))
        channels = weight.size[0]
    if _bad(size) or channels % groups or (bias and bias.size != (channels,)):
        return None
    made = like(x, size=(x.size[0], channels, *size))
    in_f64 = rank == 3 and x.dtype is torch.float64  # torch's own kernel, not one of oneDNN
    if not made.static or in_f64 or not any(map(has_channels_last, (x, weight))):
        return made
    return in_format(made, torch.channels_last)


@rule("convolution_backward")
def _convolution_backward(grad, x, weight, bias_sizes, *args):
    """Both gradients lie in the order of pixels where the input or the weight does, whatever that of the result."""
    if not (x.static and grad.static and _floats(grad, x, weight)):
        return None
    made = [like(x), like(weight), like(weight, size=bias_sizes or (weight.size[0],))]
    if _plain(grad, x, weight):
        return made
    if x.device.type != "cpu" or x.rank != 4:
        return None
    if any(map(has_channels_last, (x, weight))):
        made[:2] = [in_format(m, torch.channels_last) for m in made[:2]]
    return made


@rule("max_pool2d_with_indices")
def _max_pool(x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    out = _pooled(x, kernel, stride, padding, dilation, ceil_mode)
    return None if out is None else [out, in_its_order(like(out, torch.int64), out)]


@rule("avg_pool2d")
def _avg_pool(
    x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    refused = divisor_override is not None and divisor_override == 0
    return None if refused else _pooled(x, kernel, stride, padding, 1, ceil_mode)


def _pooled(x, kernel, stride, padding, dilation, ceil) -> Meta | None:
    if x.rank not in (3, 4) or not _images(x) or _bad(x.size):
        return None
    kernel, padding, dilation = (_tuple(v, 2) for v in (kernel, padding, dilation))
    stride = _tuple(stride, 2) if isinstance(stride, int) or stride else kernel
    if any(2 * p > k for p, k in zip(padding, kernel, strict=True)):
        return None
    size = list(map(_window, x.size[-2:], kernel, stride, padding, dilation, [ceil] * 2))
    return None if _bad(size) else in_its_order(like(x, size=(*x.size[:-2], *size)), x)


def _images(x: Meta) -> bool:
    """Whether a tensor of floats is contiguous, in the order of its dims or in that of its pixels."""
    return _floats(x) and (_packed(x) or has_channels_last(x))


@rule(
    "max_pool2d_with_indices_backward avg_pool2d_backward _adaptive_avg_pool2d_backward adaptive_max_pool2d_backward"
)
def _pool_backward(grad, x, *args, **kwargs):
    return in_its_order(like(x), x) if _floats(grad, x) and _images(x) else None


@rule("_adaptive_avg_pool2d")
def _adaptive_avg_pool(x, size):
    return (
        like(x, size=(*x.size[:-2], *size))
        if _plain(x) and x.rank in (3, 4) and not _bad(x.size)
        else None
    )


@rule("adaptive_max_pool2d")
def _adaptive_max_pool(x, size):
    out = _adaptive_avg_pool(x, size)
    return None if out is None else [out, like(out, torch.int64)]


_RESIZED = (
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d "
    "upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa"
)


@rule(_RESIZED)
def _upsample(x, size, *args):
    fits = len(size) == x.rank - 2 and _images(x) and not _bad((*x.size, *size))
    return in_its_order(like(x, size=(*x.size[:2], *size)), x) if fits else None


@rule(" ".join(f"{name}_backward" for name in _RESIZED.split()))
def _upsample_backward(grad, output_size, input_size, *args):
    return in_its_order(like(grad, size=input_size), grad) if _images(grad) else None


@rule("constant_pad_nd")
def _pad(x, pad, value=0):
    if not (is_packed(x) or has_channels_last(x)) or len(pad) % 2 or len(pad) > 2 * x.rank:
        return None
    size = list(x.size)
    for i in range(len(pad) // 2):
        size[-1 - i] += pad[2 * i] + pad[2 * i + 1]
    return None if any(n < 0 for n in size) else in_its_order(like(x, size=size), x)


_AT_EDGES = "reflection_pad2d reflection_pad3d replication_pad2d replication_pad3d"


@rule(_AT_EDGES)
def _pad_at_edges(x, pad):
    made = _pad(x, pad) if x.device.type == "cpu" else None
    return made if _images(x) and made is not None and 2 * (x.rank - 2) == len(pad) and min(pad) >= 0 and _reach(x, pad) else None  # fmt: skip


def _reach(x: Meta, pad: Sequence[int]) -> bool:
    """Whether each dim has more elements than it is padded by, as a reflection needs."""
    return all(type(n) is int and n > max(pad[2 * i : 2 * i + 2]) for i, n in enumerate(reversed(x.size[2:])))  # fmt: skip


@rule(" ".join(f"{name}_backward" for name in _AT_EDGES.split()))
def _pad_at_edges_backward(grad, x, pad):
    fits = _floats(grad, x) and x.device.type == "cpu" and x.rank == 2 + len(pad) // 2
    return in_its_order(like(x), x) if fits else None


@rule("channel_shuffle native_channel_shuffle")
def _channel_shuffle(x, groups):
    fits = x.rank > 2 and type(x.size[1]) is int and groups > 0 and not x.size[1] % groups
    fits = fits and x.device.type == "cpu"
    return in_its_order(like(x), x) if fits else None


@rule("pixel_shuffle")
def _pixel_shuffle(x, r):
    if x.rank < 3 or not (x.static and _plain(x)) or r <= 0 or x.size[-3] % (r * r):
        return None
    *batch, c, h, w = x.size
    return like(x, size=(*batch, c // (r * r), h * r, w * r))


# ---- normalisation


@rule("native_batch_norm _native_batch_norm_legit_no_training _native_batch_norm_legit")
def _batch_norm(x, weight, bias, *args):
    """The forms differ in their last arguments: (running mean, running var), training, momentum, eps."""
    stats = [a for a in args if isinstance(a, Meta)]
    training = args[-3] if len(args) in (3, 5) else False
    if x.rank < 2 or x.device.type != "cpu" or not _floats(x, weight, bias, *stats):
        return None
    saved = like(x, size=(x.size[1],) if training else (0,))
    return [in_its_order(like(x), x), saved, saved]


@rule("_native_batch_norm_legit_functional")
def _batch_norm_functional(x, weight, bias, mean, var, *args):
    out = _batch_norm(x, weight, bias, mean, var, *args)
    return None if out is None else [*out, like(mean), like(var)]


@rule("native_batch_norm_backward")
def _batch_norm_backward(grad, x, weight, *args):
    channels = like(x, size=(x.size[1],))
    return [in_its_order(like(x), x), channels, channels] if _floats(grad, x) else None


@rule("native_group_norm")
def _group_norm(x, weight, bias, n, channels, inner, groups, eps):
    stats = like(x, size=(n, groups))
    return [in_its_order(like(x), x), stats, stats] if _in_format(x, weight, bias) else None


@rule("native_group_norm_backward")
def _group_norm_backward(grad, x, mean, rstd, weight, n, channels, *args):
    sums = like(x, size=(channels,))
    return [in_its_order(like(x), x), sums, sums] if _in_format(grad, x) else None


@rule("native_layer_norm_backward")
def _layer_norm_backward(grad, x, shape, *args):
    return [like(x), like(x, size=shape), like(x, size=shape)] if _plain(grad, x) else None


# ---- attention


@rule("_safe_softmax")
def _safe_softmax(x, dim, dtype=None):
    return like(x, dtype) if _plain(x) else None


@rule("_scaled_dot_product_flash_attention_for_cpu")
def _attention(q, k, v, dropout=0.0, causal=False, *, attn_mask=None, scale=None):
    """The output has the layout of the query; the sums lie in memory as (batch, length, heads)."""
    if q.rank != 4 or v.size[-1] != q.size[-1] or not q.static or _bad(q.size):
        return None
    batch, heads, length, _ = q.size
    sums = torch.float32 if q.dtype in (torch.float16, torch.bfloat16) else q.dtype
    return [pointwise((q,), q.dtype), _swapped(like(q, sums, (batch, length, heads)))]


def _heads_inside(x: Meta) -> Meta:
    batch, heads, length, width = x.size
    return _swapped(like(x, size=(batch, length, heads, width)))


def _swapped(x: Meta) -> Meta:
    size, stride = list(x.size), list(x.stride)
    size[1], size[2], stride[1], stride[2] = size[2], size[1], stride[2], stride[1]
    return x._replace(size=tuple(size), stride=tuple(stride))


@rule("_scaled_dot_product_flash_attention_for_cpu_backward")
def _attention_backward(grad, q, k, v, *args, **kwargs):
    return list(map(_heads_inside, (q, k, v))) if q.static and k.static else None


@rule("_grouped_mm")
def _grouped_mm(a, b, offsets=None, bias=None, out_dtype=None):
    """torch's meta kernel takes bfloat16 only, as the kernel of CUDA does; that of the CPU takes any."""
    if a.device.type != "cpu" or not (a.rank in (2, 3) and b.rank in (2, 3)):
        return None
    if a.rank == b.rank == 2:
        size = (offsets.size[0], a.size[0], b.size[1])
    else:
        size = (*(a.size[:1] if a.rank == b.rank else ()), a.size[-2], b.size[-1])
    made = like(a, out_dtype or a.dtype, size)
    if not made.static:
        return None
    whole = 16 // made.dtype.itemsize  # rows begin at multiples of 16 bytes
    row = -(-size[-1] // whole) * whole
    return made._replace(stride=(size[-2] * row, row, 1)[-len(size) :])


# ---- losses


def _loss(x: Meta, target: Meta, reduction: int) -> Meta | None:
    if not _plain(x, target):
        return None
    out = pointwise((x, target), x.dtype)
    return out if reduction == 0 else like(x, size=())


@rule("mse_loss")
def _mse(x, target, reduction=1):
    return _loss(x, target, reduction)


@rule("smooth_l1_loss huber_loss")
def _huber(x, target, reduction=1, beta=1.0):
    return _loss(x, target, reduction)


@rule("binary_cross_entropy")
def _cross_entropy(x, target, weight=None, reduction=1):
    return _loss(x, target, reduction) if _may_match(x, target) else None


def _may_match(x: Meta, target: Meta) -> bool:
    """Whether sizes are equal, as far as is known."""
    known = [(a, b) for a, b in zip(x.size, target.size) if type(a) is int is type(b)]
    return x.rank == target.rank and all(a == b for a, b in known)


@rule("binary_cross_entropy_with_logits")
def _cross_entropy_logits(x, target, weight=None, pos_weight=None, reduction=1):
    if weight is not None or pos_weight is not None or not _may_match(x, target):
        return None
    return _loss(x, target, reduction)


@rule("mse_loss_backward smooth_l1_loss_backward huber_loss_backward binary_cross_entropy_backward")
def _loss_backward(grad, x, target, *args):
    return pointwise((x, target), x.dtype) if _plain(x, target) else None


@rule("nll_loss2d_forward")
def _nll2d(x, target, weight, reduction, ignore):
    return [like(x, size=target.size if reduction == 0 else ()), like(x, size=())]


@rule("nll_loss_backward nll_loss2d_backward")
def _nll_backward(grad, x, *args):
    return like(x)


@rule("embedding_dense_backward")
def _embedding_backward(grad, index, count, *args):
    return like(grad, size=(count, grad.size[-1]))


# ---- activations with more than one tensor


@rule("log_sigmoid_forward")
def _log_sigmoid(x):
    return [like(x), like(x)] if x.device.type == "cpu" and _plain(x) else None


@rule(
    "hardsigmoid_backward hardswish_backward mish_backward softshrink_backward hardshrink_backward log_sigmoid_backward"
)
def _activation_backward(grad, x, *args):
    return pointwise((grad, x), x.dtype) if _plain(grad, x) else None


@rule("_prelu_kernel")
def _prelu(x, weight):
    return pointwise((x, weight), x.dtype) if _plain(x, weight) else None


@rule("_prelu_kernel_backward")
def _prelu_backward(grad, x, weight):
    return [like(x), like(x)] if _plain(grad, x) else None


@rule("glu")
def _glu(x, dim=-1):
    if (
        not x.rank
        or not x.static
        or not -x.rank <= dim < x.rank
        or x.size[dim] % 2
        or not _plain(x)
    ):
        return None
    size = list(x.size)
    size[dim] //= 2
    return like(x, size=size)


@rule("glu_backward")
def _glu_backward(grad, x, dim):
    return like(x) if _plain(x) else None


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
