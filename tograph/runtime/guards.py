"""Guards: what a trace depends on besides its arguments.

``watching`` collects, while a root graph is recorded, the converted functions that run. Their code names globals and
closure cells; the values found there at the end of the trace are compared by identity before the trace is used
again. Modules, classes and built-ins are left out: code that swaps these is rare and the check would cost every
call. Size guards are relations of dynamic sizes that torch had to decide while tracing.
"""

from __future__ import annotations

import dis
import functools
import operator
import threading
import types
from contextlib import contextmanager
from typing import Any

import torch

from .reach import code_names
from .structure import same_number

_SKIPPED = (types.ModuleType, type, types.BuiltinFunctionType, types.FunctionType, types.MethodType)
_OPS = {n: getattr(operator, n) for n in
        ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne", "and_", "or_", "xor", "neg", "pos", "abs", "lshift", "rshift"]}  # fmt: skip
_OPS |= {"min": min, "max": max, "not": operator.not_, "int": int, "float": float, "bool": bool}


class _State(threading.local):
    def __init__(self) -> None:
        self.watches: list[Watch] = []


_state = _State()
_MISSING = object()


class Guards:
    """Checks that a trace still holds."""

    def __init__(self, cells: list, names: list, sizes: list, places: Any = (), grads: Any = ()):
        self.cells, self.names, self.sizes, self.places = cells, names, sizes, list(places)
        self.grads = [(s.late, s.real.grad is None) for s in grads]

    @property
    def empty(self) -> bool:
        """Whether the trace depends on its arguments only."""
        return not (self.cells or self.names or self.sizes or self.places or self.grads)

    def hold(self, tensors: list[Any]) -> bool:
        if not self.hold_outside():
            return False
        for owner, missing in self.grads:
            tensor = tensors[owner] if isinstance(owner, int) else owner
            if (tensor.grad is None) is not missing:
                return False
        return all(_evaluate(expr, tensors) == wanted for expr, wanted in self.sizes)

    def hold_outside(self) -> bool:
        """Whether the Python variables that the trace read are what they were."""
        for cell, old in self.cells:
            try:
                if cell.cell_contents is not old:
                    return False
            except ValueError:
                return False
        for namespace, name, old in self.names:
            if namespace.get(name, _MISSING) is not old:
                return False
        for place, old in self.places:
            now = place.get()
            if now is not old and not same_number(now, old):
                return False
        return True


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "lt": "<", "le": "<=",
          "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "and_": "and", "or_": "or", "lshift": "<<", "rshift": ">>"}  # fmt: skip


def describe_size(expr: Any, wanted: Any, names: list[str]) -> str:
    """A guard on sizes and numbers in the user's names: ``x.shape[0] > 4``."""
    text = _describe(expr, names)
    if wanted is True:
        return text
    return f"not ({text})" if wanted is False else f"{text} == {wanted!r}"


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


def _evaluate(expr: Any, tensors: list[Any]) -> Any:
    if not isinstance(expr, tuple):
        return expr
    if expr[0] == "number":
        return tensors[expr[1]].item() if isinstance(tensors[expr[1]], torch.Tensor) else None
    if expr[0] == "size":
        shape = tensors[expr[1]].shape
        return shape[expr[2]] if shape is not None and shape[expr[2]] is not None else None
    return _OPS[expr[0]](*(_evaluate(e, tensors) for e in expr[1:]))


class Watch:
    """The functions that ran during a trace, and what their names meant when they first ran."""

    def __init__(self) -> None:
        self.cells: dict[int, tuple[Any, Any]] = {}
        self.names: dict[tuple[int, str], tuple[dict, str, Any]] = {}
        self.seen: set[Any] = set()

    def add(self, function: types.FunctionType) -> None:
        """Note what a user's function can read: its cells and globals, by the names in its code."""
        key = (function.__code__, tuple(map(id, function.__closure__ or ())))
        if key in self.seen:
            return
        self.seen.add(key)
        stored = _stored_globals(function.__code__)
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:
                continue
            if not isinstance(content, _SKIPPED):
                self.cells.setdefault(id(cell), (cell, content))
        namespace = function.__globals__
        for name in code_names(function.__code__):
            value = namespace.get(name, _MISSING)
            if value is not _MISSING and name not in stored and not isinstance(value, _SKIPPED):
                self.names.setdefault((id(namespace), name), (namespace, name, value))

    def guards(self, root: Any, outside: Any = (), grads: Any = ()) -> Guards:
        cells = [(c, old) for c, old in self.cells.values() if _unchanged_cell(c, old)]
        names = [(n, k, old) for n, k, old in self.names.values() if n.get(k, _MISSING) is old]
        sizes = list(dict.fromkeys(root.root.guards))
        return Guards(cells, names, sizes, outside, grads)


def _unchanged_cell(cell: Any, old: Any) -> bool:
    """A variable that the traced code itself wrote is not read from outside again."""
    try:
        return cell.cell_contents is old and not isinstance(old, torch.nn.Module)
    except ValueError:
        return False


@functools.cache
def _stored_globals(code: types.CodeType) -> frozenset[str]:
    """Globals that the code itself assigns."""
    import_free = [
        i.argval for i in _instructions(code) if i.opname in ("STORE_GLOBAL", "DELETE_GLOBAL")
    ]
    return frozenset(import_free)


def _instructions(code: types.CodeType):
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _instructions(constant)


def watched(function: types.FunctionType) -> None:
    """A user's function is about to run in a trace."""
    for watch in _state.watches:
        watch.add(function)


@contextmanager
def watching(root: Any):
    """Collect the functions that run while ``root`` is recorded."""
    watch = Watch()
    _state.watches.append(watch)
    try:
        yield watch
    finally:
        _state.watches.pop()
