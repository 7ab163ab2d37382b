"""What the names in an expression hold, in words: ``total: float32 tensor of shape [2, 3]``."""

from __future__ import annotations

import ast
import builtins
import textwrap
import types
from collections.abc import Iterator
from typing import Any

import torch

from ...syntax_trees import parse
from ..inference.shapes import SYMBOLS
from ..values.structure import is_union
from .frames import Frame

MISSING = object()
_MOST = 6  # names shown


def operands(frame: Frame) -> dict[str, Any]:
    """The variables that an expression names, and attributes of them, in order of appearance."""
    return _values(frame, frame.expression()) or _values(frame, frame.source())


def _values(frame: Frame, text: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for path in dict.fromkeys(_paths(_tree(text))):
        value = lookup(frame, path)
        whole = any(name.startswith(".".join(path) + ".") for name in values)
        if value is not MISSING and not whole and not _is_callable(value):
            values[".".join(path)] = value
    return dict(list(values.items())[:_MOST])


def _tree(text: str) -> ast.AST | None:
    text = textwrap.dedent(text).strip()
    text = text.removeprefix("el") if text.startswith("elif ") else text
    for attempt in (text, f"{text}\n    pass", f"({text})"):
        try:
            return parse(attempt)
        except SyntaxError:
            continue
    return None


def _paths(tree: ast.AST | None) -> Iterator[tuple[str, ...]]:
    """``("self", "scale")`` for ``self.scale``; a method's name is not part of it."""
    if tree is None:
        return
    found = [(n.lineno, n.col_offset, _path(n)) for n in ast.walk(tree) if isinstance(n, ast.expr)]
    for _, _, path in sorted((f for f in found if f[2]), key=lambda f: (f[0], f[1], -len(f[2]))):
        yield path


def _path(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        inner = _path(node.value)
        return (*inner, node.attr) if inner else ()
    return ()


def lookup(frame: Frame, path: tuple[str, ...]) -> Any:
    """The value of a dotted name in a frame, or MISSING; no code of the user's runs."""
    first, *rest = path
    scope = frame.frame.f_locals
    value = scope.get(first, frame.frame.f_globals.get(first, MISSING))
    for name in rest:
        value = _member(value, name)
    return value


def _member(owner: Any, name: str) -> Any:
    if owner is MISSING or isinstance(owner, types.ModuleType):
        return MISSING
    tables = [getattr(owner, "__dict__", {})] if not isinstance(owner, type) else []
    if isinstance(owner, torch.nn.Module):
        tables += [owner._parameters, owner._buffers, owner._modules]
    return next((t[name] for t in tables if name in t), MISSING)


def _is_callable(x: Any) -> bool:
    """Whether a value is what an expression calls or takes from, not what it computes with."""
    if isinstance(x, (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType)):
        return True
    if not callable(x):
        return False
    return isinstance(x, types.MethodType) or any(x is v for v in vars(builtins).values())


def describe(x: Any) -> str:
    """A value in words, short."""
    if isinstance(x, torch.Tensor):
        return describe_tensor(x)
    if isinstance(x, SYMBOLS):
        return f"{x.node.kind.__name__} that the graph computes"
    if is_union(x):
        return "of several kinds, which one is decided when the graph runs"
    if isinstance(x, (list, tuple, set, dict)):
        return _container(x)
    if isinstance(x, torch.nn.Module):
        return _clip(repr(x)) if "\n" not in repr(x) else type(x).__name__
    if type(x).__module__ == "numpy" and hasattr(x, "shape"):
        return f"numpy array of {x.dtype}, shape {list(x.shape)}"
    if x is None or isinstance(x, (bool, int, float, str, bytes, complex)):
        return _clip(repr(x))
    if type(x).__module__.startswith("tograph.") and isinstance(x, Iterator):
        return "an iterator"  # the user's code has one of Python's here
    return f"{type(x).__name__} object"


def describe_tensor(x: torch.Tensor) -> str:
    kind = str(x.dtype).removeprefix("torch.")
    size = ", ".join(str(n) if type(n) is int else "?" for n in x.shape)
    where = "" if x.device.type == "cpu" else f" on {x.device}"
    return f"{kind} tensor of shape [{size}]{where}"


def _container(x: Any) -> str:
    kind = x.__class__.__name__.lower()
    if getattr(x, "grew", False):
        return f"{kind} whose length is decided when the graph runs"
    if isinstance(x, dict):
        keys = ", ".join(repr(k) for k in list(x)[:8])
        return (
            f"{kind} with keys {keys}" + (", ..." if len(x) > 8 else "") if x else f"empty {kind}"
        )
    return f"{kind} of {len(x)} items" if len(x) != 1 else f"{kind} of 1 item"


def _clip(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
