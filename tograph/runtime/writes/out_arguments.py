"""``out=``: the shape that it takes, and what it tells of a function that makes a tensor of numbers.

What an op computes has the shape of ``out``. Where it has another one eager PyTorch changes that of ``out``. Of a tensor without
elements (``out=torch.empty(0)``) nobody else can see the memory, so a graph does the same; other tensors are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...errors import UnsupportedOpError
from ..inference.shapes import same_shape
from ..symbols.funcgraph import current_graph, user_location
from ..symbols.symbolic import SymTensor, as_symbolic

aten = torch.ops.aten

_OPTIONS = ("dtype", "layout", "device", "pin_memory")
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
    return rest


def fit(target: torch.Tensor, result: torch.Tensor, record: Callable[..., Any]) -> None:
    """Give ``target`` the shape of ``result``."""
    x, y = as_symbolic(target).meta, as_symbolic(result).meta
    if same_shape(x, y) or not (x.static and y.static):
        return
    if not _is_empty_here(target):
        raise UnsupportedOpError(
            f"out= has the shape {tuple(x.size)}, and the result {tuple(y.size)}: a graph does not resize it. Give a tensor of the "
            "shape of the result, or one of no elements that is made in the same function, branch or loop body",
            user_location(),
        )
    place = {"dtype": x.dtype, "device": x.device}
    become(target, record(aten.empty_strided.default, (list(y.size), list(y.stride)), place))


def _is_empty_here(x: torch.Tensor) -> bool:
    """Whether this body made ``x``, as no view, and it has no elements."""
    if not isinstance(x, SymTensor) or x.numel() or x.chain or x.ref is None:
        return False
    storage = x.storage_
    outer = storage.external is not None or storage.argument is not None or storage.derived
    return not outer and x.ref.graph is current_graph()


def become(x: SymTensor, made: SymTensor) -> None:
    """The same object is, from here on, what ``made`` is."""
    # What torch asks before of the two types would be the first call of a `__torch_dispatch__` of a class, for
    # which it loads its distributed tensors and sympy: 0.5 s.
    with torch._C._DisableTorchDispatch():
        _DATA.__set__(x, made)
    x.meta, x.storage_, x.chain = made.meta, made.storage_, made.chain
    x.ref, x.version = made.ref, made.version
