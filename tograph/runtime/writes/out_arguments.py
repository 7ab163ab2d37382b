"""``out=``: the shape and dtype that it takes, and what it tells of a function that makes a tensor of numbers.

What an op computes has the shape of ``out``. Where it has another one eager PyTorch changes that of ``out``. Of a tensor without
elements (``out=torch.empty(0)``) nobody else can see the memory, so a graph does the same; other tensors are refused. Which other
dtypes an op takes there has no rule: some convert what they compute, some compute in that dtype, most refuse it. Torch is asked.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_unflatten

from ...errors import UnsupportedOpError
from ..inference.shapes import SYMBOLS, same_shape
from ..symbols import journal
from ..symbols.funcgraph import current_graph, user_location
from ..symbols.symbolic import SymTensor, as_symbolic

aten = torch.ops.aten

_OPTIONS = ("dtype", "layout", "device", "pin_memory")
# Ops that compute in the dtype of ``out`` where they are given no other.
_IN_ITS_DTYPE = frozenset(["sum", "prod", "nansum", "cumsum", "cumprod"])
_MOST = 1 << 20  # elements of tensors on which torch is asked
_DATA: Any = torch._C.TensorBase.data  # the descriptor


def told_by_out(argument: Any, func: Any) -> bool:
    """Whether an argument of the form without ``out=`` is told by that tensor: ``torch.eye(3, out=x)`` has its dtype."""
    taken = func._schema.arguments
    made = any(a.is_out for a in taken) and argument.name in _OPTIONS
    return made and all(a.name != argument.name for a in taken)


def left(form: Any, func: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The named arguments of the form without ``out=``."""
    outs = [a.name for a in func._schema.arguments if a.is_out]
    rest = {k: v for k, v in kwargs.items() if k not in outs}
    if len(outs) == 1 and isinstance(out := kwargs.get(outs[0]), torch.Tensor):
        told = {a.name for a in form._schema.arguments if told_by_out(a, func)}
        meta = as_symbolic(out).meta
        rest |= {name: getattr(meta, name) for name in ("dtype", "device") if name in told}
        if func._schema.name.split("::")[-1] in _IN_ITS_DTYPE and rest.get("dtype") is None:
            rest["dtype"] = meta.dtype
    return rest


_OF_TORCH = (RuntimeError, TypeError, ValueError, IndexError)  # what its ops raise


def check_dtypes(func: Any, args: tuple, kwargs: dict, outs: list[Any], results: list[Any]) -> None:
    """Raise what torch raises where what is computed has another dtype than ``out``: the op runs on ones, and on zeros, which are positions.

    Of many elements on meta tensors, which know of fewer dtypes that are refused.
    """
    pairs = [(as_symbolic(a).meta, as_symbolic(b).meta) for a, b in zip(outs, results) if isinstance(a, torch.Tensor)]  # fmt: skip
    if all(a.dtype == b.dtype for a, b in pairs):
        return
    leaves, shape = tree_flatten((args, kwargs))
    metas = [as_symbolic(x).meta for x in leaves if isinstance(x, torch.Tensor)]
    if any(isinstance(x, SYMBOLS) for x in leaves) or not all(m.static and m.device.type == "cpu" for m in metas):  # fmt: skip
        return
    device = "cpu" if sum(math.prod(m.size) for m in metas) <= _MOST else "meta"
    first: Exception | None = None
    for number in (1, 0):
        with _disable_current_modes(), torch.no_grad():
            given = [_filled(x, number, device) for x in leaves]
            try:
                args, kwargs = tree_unflatten(given, shape)
                func(*args, **kwargs)
                return
            except _OF_TORCH as error:
                first = first or error
    assert first is not None
    raise first


def _filled(x: Any, number: int, device: str) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    meta = as_symbolic(x).meta
    return torch.full(tuple(meta.size), number, dtype=meta.dtype, device=device)


def fit(target: torch.Tensor, result: torch.Tensor, record: Callable[..., Any]) -> None:
    """Give ``target`` the shape of ``result``."""
    x, y = as_symbolic(target).meta, as_symbolic(result).meta
    if same_shape(x, y) or not x.static or not (y.static or _is_empty_here(target)):
        return
    if not _is_empty_here(target):
        raise UnsupportedOpError(
            f"out= has the shape {tuple(x.size)}, and the result {tuple(y.size)}: a graph does not resize it. Give a tensor of the "
            "shape of the result, or one of no elements that is made in the same function, branch or loop body",
            user_location(),
        )
    place = {"dtype": x.dtype, "device": x.device}
    if y.static:
        become(target, record(aten.empty_strided.default, (list(y.size), list(y.stride)), place))
    else:
        become(target, record(aten.empty_like.default, (result,), place))


def resize(x: torch.Tensor, size: list[int], record: Callable[..., Any]) -> bool:
    """``x.resize_(size)`` of a tensor that has no elements, as torch's own code resizes ``out``; False for others."""
    if not _is_empty_here(x):
        return False
    meta = as_symbolic(x).meta
    place = {"dtype": meta.dtype, "device": meta.device}
    become(x, record(aten.empty.memory_format, (list(size),), place))
    return True


def _is_empty_here(x: torch.Tensor) -> bool:
    """Whether this body made ``x``, as no view, and it has no elements."""
    if not isinstance(x, SymTensor) or x.numel() or x.chain or x.ref is None:
        return False
    storage = x.storage_
    outer = storage.external is not None or storage.argument is not None or storage.derived
    return not outer and x.ref.graph is current_graph()


def become(x: SymTensor, made: SymTensor) -> None:
    """The same object is, from here on, what ``made`` is."""
    before = SymTensor(x.meta, x.storage_, x.chain, x.ref)
    before.version = x.version
    journal.undone_by(functools.partial(_become, x, before))
    _become(x, made)


def _become(x: SymTensor, made: SymTensor) -> None:
    # What torch asks before of the two types would be the first call of a `__torch_dispatch__` of a class, for
    # which it loads its distributed tensors and sympy: 0.5 s.
    with torch._C._DisableTorchDispatch():
        _DATA.__set__(x, made)
    x.meta, x.storage_, x.chain = made.meta, made.storage_, made.chain
    x.ref, x.version = made.ref, made.version
