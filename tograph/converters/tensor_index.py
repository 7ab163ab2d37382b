"""Tensors indexed with what is known only when the graph runs: numbers, bounds of slices, masks, lists of these.

A staged number selects, one dimension after the other; the rest of a key is torch's own indexing, to which sizes and bounds are
staged numbers. A mask of a size that is not known goes to the op itself: torch's Python code would compare sizes.
"""

from __future__ import annotations

from typing import Any

import torch

from ..runtime import control_flow
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.symbols.descriptions import index_of
from ..runtime.symbols.required import require
from ..runtime.symbols.scalars import to_python
from ..runtime.symbols.symbolic import SymTensor, as_symbolic, scalar_of
from .staging import is_staged


def staged_parts(key) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    return any(
        is_staged(p) or (isinstance(p, slice) and any(map(is_staged, (p.start, p.stop, p.step))))
        for p in parts
    )


def as_int(x):
    """An index as torch takes it: a staged number for a 0-d whole tensor."""
    if (
        isinstance(x, torch.Tensor)
        and x.dim() == 0
        and not x.dtype.is_floating_point
        and x.dtype != torch.bool
    ):
        return scalar_of(x) if is_staged(x) else x
    return x


def as_place(x):
    """An index of a sequence, or a bound of a slice: a staged number for a tensor; TypeError for one that is no whole number."""
    if isinstance(x, torch.SymBool):
        return to_python(x, "int")
    if isinstance(x, torch.SymFloat):
        raise TypeError("'float' object cannot be interpreted as an integer")
    return index_of(x) if isinstance(x, torch.Tensor) and is_staged(x) else x


def check_float(x: Any, key: Any) -> None:
    """A staged float is no index: the error that Python or torch gives for a plain one."""
    kinds = (torch.Tensor, list, tuple, str, range)
    parts = key if isinstance(x, torch.Tensor) and isinstance(key, tuple) else (key,)
    if any(isinstance(p, torch.SymFloat) for p in parts) and isinstance(x, kinds):
        plain: Any = next(k for k in kinds if isinstance(x, k))
        plain(torch.zeros(1) if plain is torch.Tensor else 1 if plain is range else "0")[0.5]


def check_bounds(key: slice) -> None:
    """TypeError for a slice that is not between whole numbers."""
    bounds = (p for p in (key.start, key.stop, key.step) if p is not None)
    if any(not hasattr(p, "__index__") and not isinstance(p, torch.SymBool) for p in bounds):
        raise TypeError("slice indices must be integers or None or have an __index__ method")


def check_rank(x: torch.Tensor, key: Any) -> None:
    """torch's error for a key that speaks of more dimensions than there are: its own indexing asks before it takes any."""
    if isinstance(key, SYMBOLS):
        if not x.dim():
            torch.zeros(())[0]
    elif sum(map(_dims, key if isinstance(key, tuple) else (key,))) > x.dim():
        raise IndexError(f"too many indices for tensor of dimension {x.dim()}")


def _is_mask(key) -> bool:
    return isinstance(key, torch.Tensor) and key.dtype == torch.bool


def _rows(x, mask):
    """A tensor and a mask of at least one dimension: a 0-d mask selects the whole tensor or nothing of it."""
    return (x, mask) if mask.dim() else (x.unsqueeze(0), mask.reshape(1))


def _static(x) -> bool:
    """Whether all sizes are known; a number has none."""
    return not isinstance(x, torch.Tensor) or all(type(n) is int for n in x.shape)


def plain_bounds(p):
    """A slice with its bounds as torch takes them."""
    if not isinstance(p, slice):
        return p
    check_bounds(p)
    return slice(as_place(p.start), as_place(p.stop), as_place(p.step))


def tensor_item(x, key):
    """A tensor indexed with staged numbers: one dimension after the other; the rest is torch's own indexing."""
    parts = key if isinstance(key, tuple) else (key,)
    check_rank(x, key)
    if any(isinstance(p, slice) and is_staged(p.step) for p in parts):
        x, parts = _at_steps(x, parts)
        key = tuple(parts)
    if _is_mask(key) and (key.dim() == 0 or not _static(x)):
        x, key = _rows(x, key)
        return torch.ops.aten.index.Tensor(x, [key])
    if not any(isinstance(as_int(p), SYMBOLS) for p in parts):
        bounds = [plain_bounds(p) for p in parts]
        return x[tuple(bounds) if isinstance(key, tuple) else bounds[0]]
    if any(map(_is_list, parts)):
        out, rest = _selected(x, parts)
        return out[rest]
    taken = sum(p is not None and p is not Ellipsis for p in parts)
    dim, out = 0, x
    for p in parts:
        p = as_int(p)
        if isinstance(p, SYMBOLS):
            out = torch.select(out, dim, p)
        elif p is Ellipsis:
            dim += x.dim() - taken
        else:
            p = plain_bounds(p)
            before = out.dim()
            out = out[(slice(None),) * dim + (p,)]
            dim += 1 - (before - out.dim() if p is not None else 0)
    return out


def _at_steps(x, parts):
    """``x`` at the places that slices with a staged step name, and the other parts of the key.

    It is a view of ``x`` that cannot be followed: what is read of it is a copy, and a change of either is an error.
    """
    base, rest, dim = as_symbolic(x), [], 0
    taken = sum(map(_dims, parts))
    for p in parts:
        if isinstance(p, slice) and is_staged(p.step):
            x, p = x.index_select(dim, _places(p, x.shape[dim])), slice(None)
        dim += x.dim() - taken if p is Ellipsis else _dims(p)
        rest.append(p)
    control_flow.lose(x, [base.storage_], "a slice with a staged step")
    return x, rest


def _places(p, size):
    """The places that a slice with a staged step names among ``size``; ValueError when the graph runs for a step that is not positive."""
    step = as_place(p.step)
    control_flow.staged_if(step > 0, _nothing, _no_step)
    rows = torch.arange(size)[plain_bounds(slice(p.start, p.stop))]
    return rows[torch.arange(rows.shape[0]) % step == 0]


def _is_list(p) -> bool:
    """Whether a part of a key is a tensor or list of places, or a truth that stands for a dim, not one place."""
    return isinstance(p, (torch.Tensor, list, bool)) and not isinstance(as_int(p), SYMBOLS)


def _selected(x, parts):
    """``x`` at the staged numbers of a key, and the rest of the key: numbers are taken first, as in torch's own indexing."""
    taken = sum(map(_dims, parts))
    dim, out, rest = 0, x, []
    for p in parts:
        if isinstance(as_int(p), SYMBOLS):
            out = torch.select(out, dim, as_int(p))
            continue
        rest.append(plain_bounds(p))
        dim += x.dim() - taken if p is Ellipsis else _dims(p)
    return out, tuple(rest)


def _dims(p) -> int:
    """How many dimensions of a tensor a part of a key speaks of."""
    if p is None or p is Ellipsis or isinstance(p, bool):
        return 0
    return p.dim() if _is_mask(p) else 1


def _stepped(x, key):
    """A key with the places that it names where it has a slice with a staged step, which torch does not take."""
    parts = key if isinstance(key, tuple) else (key,)
    out = list(parts)
    for dim, p in enumerate(parts):
        if p is None or p is Ellipsis:
            break
        if isinstance(p, slice) and is_staged(p.step):
            out[dim] = _places(p, x.shape[dim])
    return tuple(out) if isinstance(key, tuple) else out[0]


def _nothing():
    return None


def _no_step():
    raise ValueError("step must be greater than zero")


def set_tensor(x, key, value) -> None:
    if isinstance(x, SymTensor) or is_staged(x):
        key = _stepped(x, key)
        if isinstance(value, SYMBOLS):
            value = torch.scalar_tensor(value, dtype=x.dtype)
        parts = key if isinstance(key, tuple) else (key,)
        check_rank(x, key)
        if any(isinstance(as_int(p), SYMBOLS) for p in parts):
            if any(map(_is_list, parts)):
                target, rest = _selected(x, parts)
                target[rest] = value
                return
            target = tensor_item(x, key)
            value = value if isinstance(value, torch.Tensor) else torch.as_tensor(value)
            target.copy_(_without_ones(value, target))
            return
        if _is_mask(key) and (key.dim() == 0 or not (_static(x) and _static(value))):
            # x[key] = value would compare sizes that are not known yet
            x, key = _rows(x, key)
            value = value if isinstance(value, torch.Tensor) else torch.scalar_tensor(value)
            torch.ops.aten.index_put_(x, [key], value.to(x.dtype))
            return
        key = tuple(map(plain_bounds, key)) if isinstance(key, tuple) else plain_bounds(key)
        if isinstance(value, torch.Tensor) and not _static(value):
            value = _without_ones(value, x[key])
        if not (_static(value) or any(map(_is_list, key if isinstance(key, tuple) else (key,)))):
            # in torch 2.11 x[key] = value asks whether their sizes are equal
            target = x[key]
            target.copy_(value.expand(target.shape))
            return
    x[key] = value


def _without_ones(value, target):
    """What is written, without leading dimensions beyond those of its target: these are 1, also where only the run knows."""
    while value.dim() > target.dim():
        n = value.shape[0]
        if not isinstance(n, SYMBOLS) and n != 1:
            break
        size, given = list(target.shape), list(value.shape)
        message = (
            f"expand(torch.{value.type().split('.')[-1]}{{{given}}}, size={size}): the number of sizes provided ({len(size)}) must be "
            f"greater or equal to the number of dimensions in the tensor ({value.dim()})"
        )
        if isinstance(n, SYMBOLS):
            require(n == 1, RuntimeError(message))
        value = value.select(0, 0)
    return value
