"""Ops on lists of tensors (``torch._foreach_add_``) as the op on each item, which is what PyTorch does on a CPU.

So what optimisers with ``foreach=True`` do is fused like any other code. On a GPU they stay one op. ``each`` gives None where an op is recorded as it is:
lists of different lengths, which are an error of the op, or a form that has no op of one tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

_aten = torch.ops.aten
PREFIX = "_foreach_"

# The overload for one tensor, by the name of that for lists. A number stands in the place of a tensor, as in ``x + 2``.
_ARITHMETIC = {"List": "Tensor", "Scalar": "Tensor", "ScalarList": "Tensor", "Tensor": "Tensor"}
_BOUND = {"List": "Tensor", "Scalar": "default", "ScalarList": "default"}
_EXTREME = {"List": "default"}
_WITH_VALUE = {"Scalar": "default", "ScalarList": "default"}
_FORMS = {
    **dict.fromkeys(("add", "sub", "mul", "div"), _ARITHMETIC),
    **dict.fromkeys(("clamp_min", "clamp_max"), _BOUND),
    **dict.fromkeys(("maximum", "minimum"), _EXTREME),
    **dict.fromkeys(("addcmul", "addcdiv"), _WITH_VALUE),
    "lerp": {"List": "Tensor", "Scalar": "Scalar", "ScalarList": "Scalar"},
    "pow": {"List": "Tensor_Tensor", "Scalar": "Tensor_Scalar", "ScalarList": "Tensor_Scalar"},
    "pow_": {"List": "Tensor", "Scalar": "Scalar", "ScalarList": "Scalar"},
}
_ALONE = [
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "copy_",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "floor",
    "frac",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "neg",
    "reciprocal",
    "round",
    "rsqrt",
]
_ALONE += ["sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "zero_"]


def each(dispatch: Callable[..., Any], func: Any, args: tuple, kwargs: dict) -> Any:
    """``func``, an op on lists, by ``dispatch`` of the op of each item: a list, ``()`` of an op that writes, None where it is recorded as it is."""
    one = _one(func)
    lists = [a for a, many in zip(args, _many(func)) if many]
    if one is None or len(set(map(len, lists))) != 1 or not all(map(_on_cpu, lists)):
        return None
    if not lists[0]:
        raise RuntimeError("Tensor list must have at least one tensor.")
    found = []
    for i in range(len(lists[0])):
        given = [a[i] if many else a for a, many in zip(args, _many(func))]
        named = dict(kwargs)
        if one in _TAKES_VALUE and len(given) > 3:
            named["value"] = given.pop()
        found.append(dispatch(one, tuple(given), named))
    return found if func._schema.returns else ()


def _on_cpu(items: Sequence[Any]) -> bool:
    return all(not isinstance(x, torch.Tensor) or x.device.type == "cpu" for x in items)


@cache
def _many(func: Any) -> tuple[bool, ...]:
    """Which arguments are lists, one item for each tensor."""
    return tuple(str(a.type) in ("List[Tensor]", "List[number]") for a in func._schema.arguments)


@cache
def _one(func: Any) -> Any:
    """The op of one tensor; None where a form has none."""
    name = func._opname.removeprefix(PREFIX)
    base = name.removesuffix("_")
    if name in _ALONE or base in _ALONE:
        return getattr(_aten, name).default
    form = (_FORMS.get(name) or _FORMS.get(base, {})).get(func._overloadname)
    packet = getattr(_aten, name, None)
    return form and getattr(packet, form, None)


_TAKES_VALUE = {getattr(_aten, n).default for n in ("addcmul", "addcmul_", "addcdiv", "addcdiv_")}
