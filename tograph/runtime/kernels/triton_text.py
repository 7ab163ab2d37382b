"""What all Triton sources have: ``Source`` itself, the head of its module, a kernel's parameters, and the text of a pointwise op."""

from __future__ import annotations

from dataclasses import dataclass

from . import triton_ops
from .loop_ir import FLOATS, INTEGERS, Expr
from .triton_ops import literal

HEADER = """import triton
import triton.language as tl
from triton.language.extra import libdevice
"""


ERROR = "error"  # the parameter that points to an int32: the largest error code of all programs


@dataclass(frozen=True)
class Source:
    """``text``: a Python module; ``name``: the function in it. ``signature``: type of each run-time parameter.

    ``programs``: the size of its one-dimensional grid. ``constants``: its block sizes.
    """

    name: str
    text: str
    signature: dict[str, str]
    constants: dict[str, int]
    programs: int
    warps: int


def parameters(signature: dict[str, str], constants: dict[str, int]) -> str:
    """A kernel's parameters: numbers have a type, so that Triton does not pass them as 32 bits."""
    names = [
        n if k.startswith("*") else f"{n}: {triton_ops.ANNOTATIONS[k]}"
        for n, k in signature.items()
    ]
    return ", ".join([*names, *(f"{c}: tl.constexpr" for c in constants)])


def failing(e: Expr) -> bool:
    """Whether an integer division may have a divisor of 0."""
    return e.op in triton_ops.DIVISIONS and e.dtype in INTEGERS and not _nonzero(e.args[1])


def operation(e: Expr, args: list[str]) -> tuple[str, tuple[str, ...]]:
    """(text, helpers that it calls) of a pointwise op for the texts of its arguments."""
    constant = [a.op == "const" for a in e.args]
    if e.op == "cast":
        return triton_ops.cast(args[0], e.args[0].dtype, e.dtype), ()
    if e.op == "select":
        return f"tl.where({', '.join(args)})", ()
    if e.op in triton_ops.LITERALS and constant.count(True) == 1:
        args = [literal(a.value, a.dtype) if c else x for a, x, c in zip(e.args, args, constant)]
    if e.op in ("max", "min") and e.dtype in FLOATS and constant == [False, True]:
        sign, bound = "<" if e.op == "max" else ">", e.args[1]
        if bound.value == bound.value:
            return f"tl.where({args[0]} {sign} {literal(bound.value, bound.dtype)}, {args[1]}, {args[0]})", ()  # fmt: skip
    return triton_ops.call(e.op, e.args[0].dtype, *args)


def _nonzero(e: Expr) -> bool:
    return e.op == "const" and bool(e.value)
