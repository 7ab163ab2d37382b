"""User's functions that use the name ``ag__`` themselves.

Their name gives way while the passes run, and in the rewritten Python that people read: ``ag___`` stands for it. The code that was
compiled has it again, and the operators then have a name there that no program can spell.
"""

from __future__ import annotations

import dataclasses
import types

from ..transpiler.parsing import Parsed
from ..transpiler.syntax import gast, walk
from .context import OPERATORS

UNSPELLED = "<operators>"


def apart(parsed: Parsed, function: types.FunctionType) -> tuple[Parsed, str | None]:
    """A tree with another name for the user's ``ag__``, and that name; None where it is not used."""
    used = {n for node in walk(parsed.node) for n in _names(node)}
    if OPERATORS not in used:
        return parsed, None
    name = f"{OPERATORS}_"
    while name in used or name in function.__code__.co_names:
        name += "_"
    for node in walk(parsed.node):
        if isinstance(node, gast.Name) and node.id == OPERATORS:
            node.id = name
        elif isinstance(node, (gast.Global, gast.Nonlocal)):
            node.names = [name if n == OPERATORS else n for n in node.names]
        elif getattr(node, "name", None) == OPERATORS:
            node.name = name
        elif isinstance(node, gast.alias):
            _import(node, name)
    free = tuple(name if n == OPERATORS else n for n in parsed.freevars)
    return dataclasses.replace(parsed, freevars=free), name


def _names(node: gast.AST) -> list[str]:
    if isinstance(node, gast.Name):
        return [node.id]
    if isinstance(node, (gast.Global, gast.Nonlocal)):
        return node.names
    if isinstance(node, gast.alias):
        return [node.asname or node.name]
    name = getattr(node, "name", None)
    return [name] if isinstance(name, str) else []


def _import(node: gast.alias, name: str) -> None:
    if (node.asname or node.name) == OPERATORS:
        node.asname = name


def restored(code: types.CodeType, name: str) -> types.CodeType:
    """Compiled code with the user's name instead of the one that stood for it."""
    variables = {name: OPERATORS, OPERATORS: UNSPELLED}

    def spelled(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(variables.get(n, n) for n in names)

    return code.replace(
        co_name=OPERATORS if code.co_name == name else code.co_name,
        co_varnames=spelled(code.co_varnames),
        co_freevars=spelled(code.co_freevars),
        co_cellvars=spelled(code.co_cellvars),
        co_names=tuple(OPERATORS if n == name else n for n in code.co_names),
        co_consts=tuple(_constant(c, name) for c in code.co_consts),
    )


def _constant(constant: object, name: str) -> object:
    if isinstance(constant, types.CodeType):
        return restored(constant, name)
    if isinstance(constant, tuple):
        return tuple(_constant(c, name) for c in constant)
    return OPERATORS if constant == name else constant
