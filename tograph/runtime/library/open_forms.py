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
