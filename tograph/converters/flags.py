"""Flags: a staged bool for which torch's own code takes a Python bool, such as ``keepdim=`` or ``is_causal=``.

The call is traced for True and for False, in the branches of an ``If`` on the flag; where it is known which one it is, for that one.
A bool that stands for a number (``torch.full((2,), flag)``) stays staged.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import torch

from ..runtime import control_flow
from ..runtime.values import facts


def flag_of(f: Any, args: tuple, kwargs: dict[str, Any]) -> int | str | None:
    """Where the arguments of a call of torch's code have a staged bool that the code needs now: a position or a name."""
    if not any(isinstance(a, torch.SymBool) for a in (*args, *kwargs.values())):
        return None
    for where, a in (*enumerate(args), *kwargs.items()):
        if isinstance(a, torch.SymBool) and _is_flag(f, where):
            return where
    return None


def each_way(call: Any, where: int | str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """``call(args, kwargs)`` with the flag at ``where`` True, or False, as it is when the graph runs."""

    def given(flag: bool) -> Any:
        if isinstance(where, int):
            return call((*args[:where], flag, *args[where + 1 :]), kwargs)
        return call(args, {**kwargs, where: flag})

    flag = args[where] if isinstance(where, int) else kwargs[where]
    known = facts.answer(flag)
    if known is not None:
        return given(known)
    return control_flow.staged_if(flag, lambda: given(True), lambda: given(False))


def _is_flag(f: Any, where: int | str) -> bool:
    if type(f) is types.FunctionType or type(f) is types.MethodType:
        return (getattr(f, "__module__", None) or "").partition(".")[0] == "torch"
    if isinstance(where, int) and isinstance(getattr(f, "__self__", None), torch.Tensor):
        where += 1
    kinds = _kinds(getattr(f, "__name__", ""), where)
    return bool(kinds & _BOOL) and not kinds & _NUMBER


_BOOL = frozenset(["bool", "Optional[bool]"])
_NUMBER = frozenset(["number", "Optional[number]", "int", "float", "Optional[float]", "Tensor"])


@functools.cache
def _kinds(name: str, where: int | str) -> frozenset[str]:
    """What the overloads of an operator of torch take in one place."""
    found = set()
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        for i, a in enumerate(schema.arguments):
            if a.name == where or (i == where and not a.kwarg_only):
                found.add(str(a.type))
    return frozenset(found)
