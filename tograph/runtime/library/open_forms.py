"""Functions of torch that ask in C++ for sizes as plain numbers, of tensors whose sizes only the run knows: written with ops that do not.

Each takes what torch's takes, without ``out``, and gives None where it does not cover the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..symbols import products
from ..symbols.assumptions import assumed
from ..symbols.products import is_open
from ..symbols.required import require


def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """``torch.cov`` [variables, observations]; a number of variables that the run decides is not 1.

    RuntimeError, when the graph runs, for weights that are negative or sum to zero.
    """
    if input.dim() > 2:
        return None
    x = input if input.dim() == 2 else input.reshape(1, -1)
    alone = _alone(x.shape[0])
    if alone is None or not all(_is_weight(w, x, w is fweights) for w in (fweights, aweights)):
        return None
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(torch.get_default_dtype())
    total, free, w = _normalisation(x, correction, fweights, aweights)
    centred = x - (x if w is None else x * w).sum(1, keepdim=True) / total
    weighted = centred if w is None else centred * w
    found = products.matmul(centred, weighted.mT.conj()) / free.clamp(min=0)
    return found.reshape(()) if alone else found


def _is_weight(w: Any, x: Any, counts: bool) -> bool:
    """Whether weights are none, or of a kind that ``torch.cov`` takes."""
    if w is None:
        return True
    whole = not (w.is_floating_point() or w.is_complex() or w.dtype is torch.bool)
    return w.dim() == 1 and whole == counts and not is_open(w) and w.shape[0] == x.shape[1]


def _normalisation(x: Any, correction: int, fweights: Any, aweights: Any) -> tuple[Any, Any, Any]:
    """(sum of the weights, what the sum of products is divided by, the weights) of ``cov``."""
    for w, name in ((fweights, "fweights"), (aweights, "aweights")):
        if w is not None:
            require((w >= 0).all().item(), RuntimeError(f"cov(): {name} cannot be negative"))
    if fweights is None and aweights is None:
        count = torch.scalar_tensor(x.shape[1], dtype=x.real.dtype, device=x.device)
        return count, count - correction, None
    w = aweights if fweights is None else fweights if aweights is None else fweights * aweights
    total = w.sum()
    require((total != 0).item(), RuntimeError("cov(): weights sum to zero, can't be normalized"))
    taken = correction if aweights is None else correction * (w * aweights).sum() / total
    return total, total - taken, w


def _alone(n: Any) -> bool | None:
    """Whether a size is 1; that of the run is not, which the graph checks."""
    if type(n) is int:
        return n == 1
    ref = (n == 1).node.ref
    return None if ref is None else assumed(ref)


def corrcoef(input: Any) -> Any:
    """``torch.corrcoef``."""
    found = cov(input)
    if found is None or found.dim() == 0:
        return found if found is None else found / found
    deviations = found.diagonal().sqrt()
    found = found / deviations.unsqueeze(1) / deviations.unsqueeze(0)
    return found if found.is_complex() else found.clip(-1, 1)


def kron(input: Any, other: Any) -> Any:
    """``torch.kron``: each element of ``input`` times all of ``other``."""
    rank = max(input.dim(), other.dim())
    a, b = ((1,) * (rank - x.dim()) + tuple(x.shape) for x in (input, other))
    left = input.reshape([n for m in a for n in (m, 1)])
    right = other.reshape([n for m in b for n in (1, m)])
    return (left * right).reshape([m * n for m, n in zip(a, b)])


def multi_dot(tensors: Sequence[Any]) -> Any:
    """``torch.linalg.multi_dot`` from left to right: which order is the shortest only the run knows."""
    if len(tensors) < 2 or any(x.dim() != 2 for x in tensors[1:-1]):
        return None
    found = tensors[0]
    for x in tensors[1:]:
        found = products.matmul(found, x)
    return found


def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """``torch.fft.rfft``: the first half of ``fft``."""
    if input.is_complex():
        return None
    found = torch.fft.fft(input, n, dim, norm)
    return found.narrow(dim, 0, found.shape[dim] // 2 + 1)


def matrix_norm(A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Any:  # fmt: skip
    """``torch.linalg.matrix_norm``, and ``norm`` of a matrix, by the largest or smallest singular value; others ask for no size."""
    whole = A.dim() == 2 if dim is None else [d % max(A.dim(), 1) for d in dim] == [A.dim() - 2, A.dim() - 1]  # fmt: skip
    if isinstance(ord, (str, bool)) or ord not in (2, -2) or dtype is not None or not whole or not (A.is_floating_point() or A.is_complex()):  # fmt: skip
        return None
    values = torch.linalg.svdvals(A)
    if ord > 0:  # of no values it is 0
        below = torch.scalar_tensor(values.shape[-1], dtype=values.dtype, device=A.device).clamp(
            max=1
        )
        values = torch.cat([values, -below.expand([*values.shape[:-1], 1])], -1)
    found = values.amax(-1) if ord > 0 else values.amin(-1)
    return found[..., None, None] if keepdim else found


def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:  # fmt: skip
    """``torch.linalg.norm``."""
    vectors = isinstance(dim, int) or (dim is not None and len(dim) != 2)
    return None if ord is None or vectors else matrix_norm(A, ord, dim, keepdim, dtype=dtype)


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """``torch.combinations``: the elements at places that rise."""
    if type(r) is not int or r < 1 or input.dim() != 1:
        return None
    n = input.shape[0]
    places = torch.arange(n, device=input.device)
    chosen = torch.ones((n,) * r, dtype=torch.bool, device=input.device)
    for k in range(r - 1):
        first, second = (places.reshape([-1 if d == i else 1 for d in range(r)]) for i in (k, k + 1))  # fmt: skip
        chosen = chosen & (first <= second if with_replacement else first < second)
    return input[chosen.nonzero().clone(memory_format=torch.contiguous_format)]


def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    """``torch.vander``: products of 1 and more and more factors, the highest power first.

    RuntimeError, when the graph runs, for fewer than no powers.
    """
    if x.dim() != 1:
        return None
    n = x.shape[0] if N is None else N
    require(n >= 0, RuntimeError("N must be non-negative."))
    x = x.to(torch.promote_types(x.dtype, torch.long))
    factors = torch.where(
        torch.arange(n, device=x.device) == 0, torch.ones_like(x)[:, None], x[:, None]
    )
    return factors.cumprod(-1) if increasing else factors.cumprod(-1).flip(-1)


def powers(x: Any, *, N: Any = None) -> Any:
    """``torch.linalg.vander``.

    RuntimeError, when the graph runs, for fewer than two powers.
    """
    n = x.shape[-1] if N is None else N
    require(n > 1, RuntimeError("N must be greater than 1."))
    found = x.unsqueeze(-1).expand([*x.shape, n - 1]).cumprod(-1)
    return torch.cat([found.new_ones([*x.shape, 1]), found], -1)


def triu_indices(row: Any, col: Any, offset: Any = 0, *, dtype: Any = torch.long, device: Any = None, layout: Any = torch.strided) -> Any:  # fmt: skip
    """``torch.triu_indices``."""
    distance = torch.arange(col, device=device) - torch.arange(row, device=device).unsqueeze(1)
    return (distance >= offset).nonzero().t().clone(memory_format=torch.contiguous_format).to(dtype)


def tril_indices(row: Any, col: Any, offset: Any = 0, *, dtype: Any = torch.long, device: Any = None, layout: Any = torch.strided) -> Any:  # fmt: skip
    """``torch.tril_indices``."""
    distance = torch.arange(col, device=device) - torch.arange(row, device=device).unsqueeze(1)
    return (distance <= offset).nonzero().t().clone(memory_format=torch.contiguous_format).to(dtype)


def gradient(input: Any, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> Any:
    """``torch.gradient`` between points at one distance.

    RuntimeError, when the graph runs, for fewer points than the ends take.
    """
    dims = range(input.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    if type(spacing) not in (int, float) or edge_order not in (1, 2) or input.dtype is torch.uint8:
        return None
    return tuple([_slope(input, spacing, d, edge_order) for d in dims])


def _slope(x: Any, step: float, d: int, order: int) -> Any:
    least = RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    require(x.shape[d] >= order + 1, least)

    def item(k: int) -> Any:
        return x.narrow(d, k, 1) if k >= 0 else x.narrow(d, x.shape[d] + k, 1)

    inside = (x.narrow(d, 2, x.shape[d] - 2) - x.narrow(d, 0, x.shape[d] - 2)) / step / 2
    if order == 1:
        ends = [(item(1) - item(0)) / step, (item(-1) - item(-2)) / step]
    else:
        ends = [
            -(3 * item(0) - 4 * item(1) + item(2)) / 2 / step,
            (3 * item(-1) - 4 * item(-2) + item(-3)) / 2 / step,
        ]
    return torch.cat([ends[0], inside, ends[1]], d)
