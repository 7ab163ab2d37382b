"""``tg.TensorSpec``: what a tensor argument of a function may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...errors import InvalidArgumentError, SignatureError
from ..graph.types import DTYPE_NAMES
from ..inference import layouts


def dimensions(shape: Any) -> tuple[int | None, ...] | None:
    """A shape as a tuple; SignatureError for what is none, InvalidArgumentError for a negative size."""
    if shape is None:
        return None
    sizes = tuple(shape) if isinstance(shape, (list, tuple)) else None
    whole = (int, torch.SymInt)
    if sizes is None or not all(
        n is None or (isinstance(n, whole) and not isinstance(n, bool)) for n in sizes
    ):
        raise SignatureError(
            f"a shape is a list of whole numbers, with None for a dimension of any size, or None for any rank, not {shape!r}"
        )
    if any(type(n) is int and n < 0 for n in sizes):
        raise InvalidArgumentError(
            f"a shape has no negative sizes: {list(sizes)}; None stands for a dimension of any size"
        )
    return sizes


class TensorSpec:
    """The dtype and shape of a tensor argument.

    ``shape``: a sequence with None for a dimension of any size (0 and 1 included), or None for any rank.
    ``dtype``: a torch.dtype. ``name``: shown for the argument in the graph. Raises SignatureError for a shape or dtype that is
    none, InvalidArgumentError for a negative size.

    Example: ``tg.TensorSpec([None, 4], torch.float32)``
    """

    def __init__(
        self,
        shape: Sequence[int | None] | None,
        dtype: torch.dtype,
        name: str | None = None,
        device: Any = "cpu",
    ):
        self.shape = dimensions(shape)
        self.dtype, self.name, self.device = dtype, name, torch.device(device)
        if not isinstance(dtype, torch.dtype) or dtype not in DTYPE_NAMES:
            raise SignatureError(f"dtype must be a torch.dtype, not {dtype!r}")
        if not isinstance(name, str | None):
            raise SignatureError(f"the name of a TensorSpec must be a str, not {name!r}")

    @classmethod
    def of(cls, x: torch.Tensor) -> TensorSpec:
        """The exact spec of a tensor; UnsupportedOpError for one that a graph cannot have."""
        if x.dtype not in DTYPE_NAMES:
            layouts.check(x)
        return cls(tuple(x.shape), x.dtype, device=x.device)

    def accepts(self, x: torch.Tensor) -> bool:
        """Whether a tensor fits."""
        if x.dtype != self.dtype:
            return False
        if self.shape is None:
            return True
        return len(self.shape) == x.dim() and all(
            s is None or (type(n) is int and s == n) for s, n in zip(self.shape, x.shape)
        )

    def of_rank(self, shape: Sequence[int | None]) -> TensorSpec:
        """The spec of an input of this shape as it was traced: one of any rank was traced with the rank of its first tensor."""
        if self.shape is not None:
            return self
        return TensorSpec([None] * len(shape), self.dtype, self.name, self.device)

    def _key(self) -> tuple:
        return self.shape, self.dtype, str(self.device)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"TensorSpec({None if self.shape is None else list(self.shape)}, {self.dtype})"
