"""Guards on sizes and numbers in words, as people would write them."""

from __future__ import annotations

from typing import Any

from ..graph.families import OPPOSITE

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "lt": "<", "le": "<=",
          "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "and_": "and", "or_": "or", "lshift": "<<", "rshift": ">>"}  # fmt: skip


def describe_size(expr: Any, wanted: Any, names: list[str]) -> str:
    """A guard on sizes and numbers in the user's names: ``x.shape[0] > 4``."""
    if wanted is False and isinstance(expr, tuple) and expr[0] in OPPOSITE:
        expr, wanted = (OPPOSITE[expr[0]], *expr[1:]), True
    text = _describe(_without_ones(expr), names)
    if wanted is True:
        return text
    return f"not ({text})" if wanted is False else f"{text} == {wanted!r}"


def _without_ones(expr: Any) -> Any:
    """An expression without factors of 1."""
    if not isinstance(expr, tuple):
        return expr
    parts = [_without_ones(e) for e in expr[1:]]
    if expr[0] == "mul" and 1 in parts:
        return parts[1 - parts.index(1)]
    return (expr[0], *parts)


def _describe(expr: Any, names: list[str]) -> str:
    if not isinstance(expr, tuple):
        return repr(expr)
    if expr[0] == "size":
        return f"{names[expr[1]]}.shape[{expr[2]}]"
    if expr[0] == "number":
        return names[expr[1]] if expr[1] < len(names) else "a number"
    parts = [_describe(e, names) for e in expr[1:]]
    if expr[0] in _SIGNS:
        parts = [f"({p})" if isinstance(e, tuple) and e[0] in _SIGNS else p for p, e in zip(parts, expr[1:])]  # fmt: skip
        return f" {_SIGNS[expr[0]]} ".join(parts)
    return f"{expr[0]}({', '.join(parts)})"
