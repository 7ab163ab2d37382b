"""Relations of sizes, and of numbers that are given, which torch had to decide while tracing: what they are for the tensors of a call.

An expression is a number, ``("size", argument, dimension)``, ``("number", argument)``, or the name of a function with its operands.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

_OPS: dict[str, Any] = {n: getattr(operator, n) for n in
        ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne", "and_", "or_", "xor", "neg", "pos", "abs", "lshift", "rshift"]}  # fmt: skip
_OPS |= {"min": min, "max": max, "not": operator.not_, "int": int, "float": float, "bool": bool}
_OPS |= {"trunc": math.trunc, "ceil": math.ceil, "floor": math.floor, "invert": operator.invert}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}  # fmt: skip


def evaluate(expr: Any, tensors: Sequence[Any]) -> Any:
    """The value of an expression; a size that is not known, as in a specification, is None."""
    if not isinstance(expr, tuple):
        return expr
    if expr[0] == "number":
        return _number(tensors[expr[1]])
    if expr[0] == "size":
        shape = tensors[expr[1]].shape
        return None if shape is None else shape[expr[2]]
    return _OPS[expr[0]](*(evaluate(e, tensors) for e in expr[1:]))


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, torch.Tensor) else None


def compiled(sizes: Sequence[tuple[Any, Any]]) -> Callable[[Sequence[Any]], bool]:
    """A function that says whether expressions have the values that they had, for tensors whose sizes are known: for calls, which ask each time."""
    namespace: dict[str, Any] = {f"{name}_of": f for name, f in _OPS.items()} | {"number": _number}

    def constant(x: Any) -> str:
        name = f"k{len(namespace)}"
        namespace[name] = x
        return name

    def text(expr: Any) -> str:
        if not isinstance(expr, tuple):
            return constant(expr)
        if expr[0] == "number":
            return f"number(tensors[{expr[1]}])"
        if expr[0] == "size":
            return f"tensors[{expr[1]}].shape[{expr[2]}]"
        parts = [text(e) for e in expr[1:]]
        if expr[0] in _SIGNS and len(parts) == 2:
            return f"({parts[0]} {_SIGNS[expr[0]]} {parts[1]})"
        return f"{expr[0]}_of({', '.join(parts)})"

    found = [f"{text(expr)} == {constant(wanted)}" for expr, wanted in sizes]
    return eval(compile(f"lambda tensors: {' and '.join(found) or 'True'}", "<tograph sizes>", "eval"), namespace)  # fmt: skip
