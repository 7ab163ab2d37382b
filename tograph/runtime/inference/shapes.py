"""What an ATen op gives: sizes, strides and dtypes of its outputs, without running it.

A rule of the table below answers for the common ops in a few microseconds. Where there is none, torch's own
kernel runs on **meta** tensors, which is exact but costs up to a second at its first use, because it imports
torch's Python decompositions. Both are memoised on the op and all its arguments, unless a size is symbolic.

This module has the table and what rules are made of; the rules themselves stand by subject in the modules named ``*_shapes``.
A rule takes the arguments of the op, with a ``Meta`` for each tensor, and returns a ``Meta`` (or a list of
them); it returns None when the case is not its own. Views always use the meta kernel: it is C++ and cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch

from .memory_formats import RANKS, channels_last, suggests_channels_last

SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


INT_ONLY = frozenset([int])


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
        return INT_ONLY.issuperset(map(type, self.size))

    @property
    def laid_out(self) -> bool:
        """Whether sizes and strides are all known: a slice of what has a staged size may have other strides than sizes."""
        return INT_ONLY.issuperset(map(type, (*self.size, *self.stride)))

    @property
    def placed(self) -> bool:
        """Whether sizes, strides and offset are all known."""
        return INT_ONLY.issuperset(map(type, (self.offset, *self.size, *self.stride)))


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


def of_format(
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
def dummy(dtype: torch.dtype, scalar: bool) -> torch.Tensor:
    with torch.utils._python_dispatch._disable_current_modes():
        return torch.empty(() if scalar else (0,), dtype=dtype)


def as_number(x: Any) -> Any:
    """A plain number that promotes as ``x`` does."""
    if isinstance(x, SYMBOLS):
        return x.node.kind(1)
    return x


def result_type(*xs: Any) -> torch.dtype:
    """torch's promotion over metas and numbers."""
    dummies = [dummy(x.dtype, not x.size) if isinstance(x, Meta) else as_number(x) for x in xs]
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
    return dummy(dtype, not any(isinstance(x, torch.Tensor) and x.dim() for x in xs))


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


def floating(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.get_default_dtype()
