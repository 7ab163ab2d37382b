"""What copies, new tensors and draws are."""

from __future__ import annotations

import torch

from .shapes import (
    SYMBOLS,
    Meta,
    as_number,
    broadcast,
    contiguous,
    dummy,
    like,
    of_format,
    pointwise,
    rule,
)


@rule("bernoulli")
def _bernoulli(x, *args, generator=None):
    return like(x)


@rule("clone contiguous lift_fresh lift_fresh_copy detach_copy alias_copy dropout_")
def _clone(x, *args, memory_format=None, generator=None):
    return of_format(x, memory_format, x.dtype)


@rule("copy")
def _copy(x, source, non_blocking=False):
    size = broadcast(x.size, source.size) if isinstance(source, Meta) else x.size
    known = all(type(n) is int for n in (*size, *x.size))
    if known and size != tuple(x.size):
        raise RuntimeError(f"output with shape {list(x.size)} doesn't match the broadcast shape {list(size)}")  # fmt: skip
    return x._replace(offset=0)


@rule("_to_copy")
def _to_copy(x, *, dtype=None, device=None, memory_format=None, **kwargs):
    out = of_format(x, memory_format, dtype or x.dtype)
    return out if out is None or device is None else out._replace(device=torch.device(device))


def _make(size, dtype, device) -> Meta:
    return contiguous(dtype or torch.get_default_dtype(), size, torch.device(device or "cpu"))


@rule("zeros ones empty rand randn")
def _maker(
    size, *, dtype=None, device=None, names=None, memory_format=None, generator=None, **kwargs
):
    return _make(size, dtype, device)


def _value_dtype(value) -> torch.dtype:
    value = as_number(value)
    return (
        torch.result_type(dummy(torch.bool, True), value)
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
        whole = all(as_number(a).__class__ is not float for a in args)
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
    out = of_format(x, memory_format, dtype or x.dtype)
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


@rule("multinomial")
def _multinomial(p, n, replacement=False, *, generator=None):
    return like(p, torch.int64, (*p.size[:-1], n))
