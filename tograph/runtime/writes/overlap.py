"""Writes to memory that the same op also reads, or that several elements share: refused, as by PyTorch itself.

The rule is that of ATen's ``get_overlap_status``: an input that is the written view itself is fine, one that shares a part
of its memory is an error where both fill their memory without gaps; in other cases PyTorch does not look either, and an element that it would read after it has written it is an error here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ...errors import SharedMemoryError
from ..graph.ops import overload_name
from ..inference.infer import infer
from ..inference.shapes import Meta
from ..inference.stand_in import is_symbolic
from ..symbols.funcgraph import Storage, user_location
from ..symbols.symbolic import SymTensor, as_symbolic

# Ops that are not elementwise by their tag, and check nevertheless.
_CHECKED = frozenset(["copy_", "where", "cumsum_", "cumsum", "cumprod_", "cumprod", "scatter_", "scatter_add_", "scatter_reduce_", "index_add_", "index_copy_", "index_put_", "put_", "uniform_", "normal_", "exponential_", "cauchy_", "geometric_", "log_normal_", "random_", "eq_", "ne_", "lt_", "le_", "gt_", "ge_"])  # fmt: skip
_EQUAL = ("fill_", "zero_")  # all elements get the same value
_LOOKED_AT = 1 << 16
_SHARED = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. "
    "Please clone() the tensor before performing the operation."
)
_REPEATED = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor "
    "before performing the operation."
)


def check(func: Any, targets: Sequence[Any], inputs: Sequence[Any]) -> None:
    """RuntimeError where PyTorch does not let ``func`` write ``targets`` from ``inputs``, SharedMemoryError where the order would count."""
    name = overload_name(func).split(".")[1]
    if name == "index_put_" and _fills(*inputs):
        inputs = inputs[:2]  # the number is read before all
    for given in targets:
        target = as_symbolic(given) if isinstance(given, torch.Tensor) else None
        if target is None:
            continue
        if name not in _EQUAL:
            _check_picked(func, target)
        if not target.meta.placed:
            continue
        if name not in _EQUAL and _repeats(target.meta):
            raise RuntimeError(_REPEATED)
        others = [x for x in _tensors(inputs) if x.storage_ is target.storage_ and _is_placed(x)]
        if (others or target.chain) and _is_placed(target):
            _check_shared(func, name, target, others)


def _fills(
    x: Any, indices: Sequence[Any], value: Any, accumulate: bool = False, *rest: Any
) -> bool:
    """Whether torch makes a ``masked_fill_`` with a number of it: one element for the places of one mask."""
    masks = [as_symbolic(i).meta.dtype for i in indices if i is not None]
    one = as_symbolic(value).meta.size
    return not accumulate and len(masks) == 1 and masks[0] in (torch.bool, torch.uint8) and all(type(n) is int and n == 1 for n in one)  # fmt: skip


def _check_picked(func: Any, target: SymTensor) -> None:
    """RuntimeError where none of the tensors that a staged condition picks may be written, SharedMemoryError where some of them may not."""
    shown = [_may_show(m, target.chain) for m in _options(target.storage_)]
    metas = [m for m in shown if m is not None and m.placed]
    repeating = list(map(_repeats, metas))
    if repeating and all(repeating):
        raise RuntimeError(_REPEATED)
    pointwise = torch.Tag.pointwise in func.tags
    if any(repeating) or (pointwise and any(_meets(m, None) for m in metas)):
        raise _order(func)


def _options(storage: Storage) -> list[Meta]:
    """How each of the tensors lies in memory that a storage is picked from; none for a storage of its own."""
    found = []
    for x in getattr(storage, "options", ()):
        deeper = _options(x.storage_)
        found += [_shown(m, x.chain) for m in deeper] if deeper else [x.meta]
    return found


def _shown(meta: Meta, chain: Sequence[Any]) -> Meta:
    """What views show of a tensor that lies so."""
    for view in chain:
        made = infer(view.func, (meta, *view.args), view.kwargs)
        meta = made[view.index or 0] if isinstance(made, list) else made
    return meta


def _may_show(meta: Meta, chain: Sequence[Any]) -> Meta | None:
    """The same; None where one of several tensors has no such place: a run that writes there has another one, or fails."""
    try:
        return _shown(meta, chain)
    except (IndexError, RuntimeError):
        return None


def _is_placed(x: SymTensor) -> bool:
    """Whether it is known where in its storage a tensor is: not behind a selection by a staged number."""
    return x.meta.placed and not any(is_symbolic((v.args, v.kwargs)) for v in x.chain)


def _check_shared(func: Any, name: str, target: SymTensor, others: list[SymTensor]) -> None:
    checked = torch.Tag.pointwise in func.tags or name in _CHECKED
    for x in others:
        if x is target or not x.meta.placed:
            continue
        shares = _shares(target.meta, x.meta)
        if shares and checked:
            raise RuntimeError(_SHARED)
        ordered = torch.Tag.pointwise in func.tags or name == "copy_"
        if shares is None and ordered and _meets(target.meta, x.meta):
            raise _order(func)
    if name not in _EQUAL and torch.Tag.pointwise in func.tags and _meets(target.meta, None):
        raise _order(func)


def _order(func: Any) -> SharedMemoryError:
    return SharedMemoryError(
        f"{func} writes memory that it also reads or writes as another element, so its result depends on the order of the elements: clone() "
        "one of the tensors",
        user_location(),
    )


def _tensors(inputs: Sequence[Any]) -> Iterator[SymTensor]:
    for x in inputs:
        if isinstance(x, torch.Tensor):
            yield as_symbolic(x)
        elif isinstance(x, (list, tuple)):
            yield from _tensors(x)


def _count(meta: Meta) -> int:
    return math.prod(meta.size)


def _repeats(meta: Meta) -> bool:
    return _count(meta) > 1 and any(n > 1 and step == 0 for n, step in zip(meta.size, meta.stride))


def _shares(one: Meta, two: Meta) -> bool | None:
    """Whether two views of one storage share a part and are not the same; None where one of them has gaps."""
    if not (_count(one) and _count(two)):
        return False
    if not (is_dense(one) and is_dense(two)):
        return None
    (begin, end), (first, last) = _range(one), _range(two)
    if (begin, end) == (first, last):
        return tuple(one.stride) != tuple(two.stride)
    return begin < last and first < end


def _places(meta: Meta) -> np.ndarray:
    """Where each element is, in elements of the storage."""
    found = np.array(int(meta.offset))
    for n, step in zip(meta.size, meta.stride):
        found = found[..., None] + np.arange(n) * step
    return found


def _meets(one: Meta, two: Meta | None) -> bool:
    """Whether an element of ``two`` is read where another one of ``one`` was written before, or two of ``one`` are at one place; by looking at each.

    PyTorch writes the elements in the order in which they lie in memory: what is read ahead (``x[:, :-1] = x[:, 1:]``) is what was there before.
    """
    if _count(one) > _LOOKED_AT or (two is not None and _count(two) > _LOOKED_AT):
        return False
    if two is None:
        return not is_dense(one) and len(np.unique(_places(one))) < _count(one)
    same_size = one.dtype.itemsize == two.dtype.itemsize and len(two.size) <= len(one.size)
    if not same_size or any(a not in (1, b) for a, b in zip(two.size[::-1], one.size[::-1])):
        return False
    written, read = _places(one), _places(two)
    if written.shape == read.shape and (written == read).all():
        return False
    shown = np.broadcast_to(read, written.shape)
    return bool((np.isin(shown, written) & (shown < written)).any())


def _range(meta: Meta) -> tuple[int, int]:
    begin = int(meta.offset) * meta.dtype.itemsize
    return begin, begin + _count(meta) * meta.dtype.itemsize


def is_dense(meta: Meta) -> bool:
    """Whether the elements fill the memory from the first to the last, each once, in any order of dimensions."""
    expected = 1
    for step, n in sorted((s, n) for s, n in zip(meta.stride, meta.size) if n != 1):
        if step != expected:
            return False
        expected *= n
    return True
