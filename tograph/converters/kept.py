"""Conversions that earlier processes made, by the code object of the function: its names, constants, bytecode and positions.

The source is not read for that, and one that has changed since is another code object. Beside the code, a conversion depends
on the passes (``_passes``) and on what they found behind global and closure names: these facts are kept with it, and hold
again (``facts_hold``) or the function is converted anew. Functions without a file are converted in each process.
"""

from __future__ import annotations

import builtins
import functools
import hashlib
import marshal
import os
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .. import disk
from ..transpiler import loader
from ..transpiler.printing import Printed
from ..transpiler.syntax import gast

Facts = dict[str, str]  # what stands behind names and dotted names


@dataclass(frozen=True)
class Kept:
    code: types.CodeType
    printed: Printed


def name_of(function: types.FunctionType, form: str) -> str | None:
    """The name of the file for a function, in a form of it; None where there is none."""
    code, passes = function.__code__, _passes()
    if passes is None or not os.path.isfile(code.co_filename):
        return None
    own = (function.__name__, function.__qualname__, form, passes)
    parts = (*own, sys.version, sys.flags.optimize, torch.__version__)
    digest = hashlib.sha256(repr(parts).encode())
    for part in _spelled(code):
        digest.update(part.encode("utf-8", "backslashreplace"))
    return f"{digest.hexdigest()}.py"


def load(function: types.FunctionType, name: str) -> Kept | None:
    """The conversion that was stored under a name, where what it depends on is as it was."""
    content = disk.load(name)
    if content is None:
        return None
    code, source, lines, facts = marshal.loads(content)
    return Kept(code, Printed(source, dict(lines))) if facts_hold(function, facts) else None


def store(name: str, code: types.CodeType, printed: Printed, facts: Facts) -> None:
    """Keep a conversion for later processes."""
    lines = list(printed.line_map.items())
    disk.store(name, marshal.dumps((code, printed.source, lines, facts)))


def facts_hold(function: types.FunctionType, facts: Mapping[str, str]) -> bool:
    """Whether the names stand for what they stood for."""
    return all(what(look_up(function, path)) == found for path, found in facts.items())


def look_up(function: types.FunctionType, path: str) -> Any:
    """The object behind a global, built-in or closure name of a function, or a dotted path of modules; None where there is none."""
    first, *rest = path.split(".")
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    if first in cells:
        try:
            found = cells[first].cell_contents
        except ValueError:
            return None
    else:
        found = function.__globals__.get(first, getattr(builtins, first, None))
    for name in rest:
        found = getattr(found, name, None) if isinstance(found, types.ModuleType) else None
    return found


_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)


def what(x: Any) -> str:
    """All that a pass asks of an object: its kind, and which one it is where it is a module, class or function."""
    kind = type(x)
    told = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(x, types.ModuleType):
        return f"{told} {x.__name__} {sys.modules.get(x.__name__) is x}"
    if not isinstance(x, _NAMED):
        return told
    found: Any = sys.modules.get(str(x.__module__))
    for name in x.__qualname__.split("."):
        found = getattr(found, name, None)
    return f"{told} {x.__module__}.{x.__qualname__} {found is x}"


@functools.cache
def _passes() -> str | None:
    """Which version of the passes this is."""
    return disk.version_of(__file__, loader.__file__, gast.__file__)


def _spelled(code: types.CodeType) -> Iterator[str]:
    """All of a code object as text, the same in every process."""
    yield repr(
        (code.co_filename, code.co_name, code.co_qualname, code.co_firstlineno, code.co_flags)
    )
    yield repr((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount))
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
    yield repr((code.co_code, code.co_linetable, code.co_exceptiontable))
    yield from _constants(code.co_consts)


def _constants(values: Iterable[Any]) -> Iterator[str]:
    for x in values:
        if isinstance(x, types.CodeType):
            yield from _spelled(x)
        elif isinstance(x, tuple):
            yield "("
            yield from _constants(x)
            yield ")"
        else:
            shown = sorted(map(repr, x)) if isinstance(x, frozenset) else repr(x)
            yield f"{type(x).__name__} {shown} "
