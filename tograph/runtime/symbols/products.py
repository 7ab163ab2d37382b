"""Matrix products, attention and gathers of tensors whose sizes only the run knows.

torch's ``matmul`` is C++ over smaller ops; that of 2.11 asks for sizes as plain numbers, and so do ``linear`` without a bias and the
attention that are made of it. For such tensors it is written here, of the same ops: ``dot``, ``mv``, ``mm``, and ``bmm`` of what is broadcast.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..inference.shapes import Meta, broadcast


def is_open(x: Any) -> bool:
    """Whether the run decides a size of a tensor."""
    meta = getattr(x, "meta", None) if isinstance(x, torch.Tensor) else None
    return isinstance(meta, Meta) and not meta.static


def matmul(input: Any, other: Any) -> Any:
    """``torch.matmul``."""
    a, b = input, other
    if not (a.dim() and b.dim()):
        return torch.matmul(a, b)
    if a.dim() > 2 and b.dim() > 2:
        return _batched(a, b)
    if b.dim() > 2:
        return _matrix_first(a, b)
    if a.dim() > 2:
        flat = a.reshape(math.prod(a.shape[:-1]), a.shape[-1])
        return _flat(flat, b).view(*a.shape[:-1], *b.shape[1:])
    if a.dim() == 1 and b.dim() == 2:
        return a.unsqueeze(0).mm(b).squeeze(0)
    return a.dot(b) if a.dim() == 1 else _flat(a, b)


def _flat(a: Any, b: Any) -> Any:
    return a.mv(b) if b.dim() == 1 else a.mm(b)


def _matrix_first(a: Any, b: Any) -> Any:
    """A matrix or vector times many matrices, by the transposes."""
    if a.dim() == 1:
        return matmul(b.mT, a)
    return matmul(b.mT, a.t()).mT.contiguous()


def _batched(a: Any, b: Any) -> Any:
    lead = _lead(a, b)
    count = math.prod(lead)

    def matrices(x: Any) -> Any:
        return x.expand(*lead, *x.shape[-2:]).reshape(count, *x.shape[-2:])

    return matrices(a).bmm(matrices(b)).view(*lead, a.shape[-2], b.shape[-1])


def _lead(a: Any, b: Any) -> list[Any]:
    """The sizes of the batch. Of two that only the run knows the sizes of a sum tell."""
    found = broadcast(a.shape[:-2], b.shape[:-2])
    if None not in found:
        return list(found)
    return list((a[..., 0, 0] + b[..., 0, 0]).shape)


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False) -> Any:  # fmt: skip
    """``torch.nn.functional.scaled_dot_product_attention`` as torch computes it without a kernel of its own."""
    if is_causal:
        if attn_mask is not None:
            raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")  # fmt: skip
        attn_mask = query.new_ones((query.shape[-2], key.shape[-2]), dtype=torch.bool).tril()
    if enable_gqa:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    sign = -1 if scale is not None and scale < 0 else 1
    scale = 1 / torch.sym_sqrt(query.shape[-1]) if scale is None else scale
    # the root on either side, as in torch, so that half precision does not overflow
    root = torch.sym_sqrt(abs(scale))
    score = matmul(query * (root * sign), key.mT * root)
    weight = _masked(score, attn_mask)
    return matmul(torch.dropout(weight, dropout_p, True) if dropout_p else weight, value)


def _masked(score: Any, mask: Any) -> Any:
    """The weights that scores give; those of a row that is masked whole are 0."""
    if mask is None:
        return torch.softmax(score, -1)
    if mask.dtype is torch.bool:
        score = score.masked_fill(mask.logical_not(), -torch.inf)
    else:
        score = score + mask
    return torch.softmax(score, -1).masked_fill(score.isneginf().all(-1, True), 0)


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """``torch.nn.functional.linear``."""
    if input.dim() > 2 and (bias is None or not input.is_contiguous()):
        out = matmul(input, weight.t())
        return out if bias is None else out + bias
    return torch.nn.functional.linear(input, weight, bias)


def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """``torch.take_along_dim``."""
    if dim is None:
        input, indices, dim = input.reshape(-1), indices.reshape(-1), 0
    indices = indices.where(indices >= 0, indices + input.shape[dim])
    shapes = [list(x.shape) for x in (input, indices)]
    if len(shapes[0]) != len(shapes[1]):
        raise RuntimeError(
            f"torch.take_along_dim(): input and indices should have the same number of dimensions, but got {input.dim()} dimensions "
            f"for input, and {indices.dim()} dimensions for indices"
        )
    own = [shape[dim] for shape in shapes]
    for shape in shapes:
        shape[dim] = 1
    common = list(broadcast(*shapes))
    if None in common:  # two that only the run knows: equal, or gather raises
        return input.gather(dim, indices)
    sizes = [[*common[: dim % len(common)], n, *common[dim % len(common) + 1 :]] for n in own]
    return input.expand(sizes[0]).gather(dim, indices.expand(sizes[1]))
