"""Functions of torch that ask in C++ for sizes as plain numbers, of tensors whose sizes only the run knows: written with ops that do not.

Each takes what torch's takes, without ``out``, and gives None where it does not cover the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..symbols import products
from ..symbols.assumptions import assumed


def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """``torch.cov`` without weights [variables, observations]; a number of variables that the run decides is not 1."""
    if fweights is not None or aweights is not None or input.dim() > 2:
        return None
    x = input if input.dim() == 2 else input.reshape(1, -1)
    alone = _alone(x.shape[0])
    if alone is None:
        return None
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(torch.get_default_dtype())
    centred = x - x.mean(1, keepdim=True)
    free = torch.scalar_tensor(x.shape[1] - correction, dtype=x.real.dtype, device=x.device)
    found = products.matmul(centred, centred.mT.conj()) / free.clamp(min=0)
    return found.reshape(()) if alone else found


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
