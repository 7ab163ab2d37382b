"""From a rewritten tree back to a function object that shares the original's globals, cells and defaults.

The tree is compiled with the user's file name and positions, so breakpoints, coverage, profilers, ``inspect`` and
tracebacks show the user's own lines; nothing is written to disk.
"""

from __future__ import annotations

import ast
import types
from typing import Any

from .recompiling import FUTURE, codes_in
from .syntax import gast, to_ast, walk


def make_factory(node: gast.FunctionDef, freevars: tuple[str, ...], operators: str) -> gast.Module:
    """A module with one function that takes the free variables and returns the converted function."""
    params = [gast.Name(n, gast.Param(), None, None) for n in (*freevars, operators)]
    arguments = gast.arguments(params, [], None, [], [], None, [])
    ret = gast.Return(gast.Name(node.name, gast.Load(), None, None))
    extra = {"type_params": []} if "type_params" in gast.FunctionDef._fields else {}
    factory = gast.FunctionDef("factory__", arguments, [node, ret], [], None, None, **extra)
    for child in (factory, ret, *params):
        gast.copy_location(child, node)
    return gast.Module([factory], [])


_FACTORY = "factory__.<locals>.converted__"


def load(
    node: gast.FunctionDef,
    file: str,
    freevars: tuple[str, ...],
    operators: str,
    original: types.CodeType | None = None,
) -> tuple[types.CodeType, ast.Module]:
    """The code object of the converted function, whose free variables are ``freevars`` and ``operators``, and its tree.

    The code is named as ``original``, and so are the bodies that conversion made functions of: tracebacks, profilers and
    reports show the user's function.
    """
    # Under its own name the function would hide a global of that name, such as itself when it recurses.
    name, node.name = node.name, "converted__"
    try:
        tree = to_ast(make_factory(node, freevars, operators))
    finally:
        node.name = name
    flags = 0 if original is None else original.co_flags & FUTURE
    module = compile(tree, file, "exec", flags=flags, dont_inherit=True)  # type: ignore[call-overload]
    factory = next(c for c in module.co_consts if isinstance(c, types.CodeType))
    code = next(
        c for c in codes_in(factory.co_consts) if c.co_name == "converted__"
    )  # below its type parameters
    bodies = {n.name for n in walk(node) if getattr(n, "generated", False)}
    names = (name, name) if original is None else (original.co_name, original.co_qualname)
    return _named(code, bodies, *names), _alone(tree, name)


def _alone(module: ast.Module, name: str) -> ast.Module:
    """The converted function without its factory, under its own name."""
    function = module.body[0].body[0]  # type: ignore[attr-defined]
    function.name = name
    return ast.Module([function], [])


def _named(code: types.CodeType, bodies: set[str], name: str, qualname: str) -> types.CodeType:
    """``code`` and what is nested in it under the user's names."""
    path = code.co_qualname.removeprefix(_FACTORY).split(".<locals>.")
    path = [part for part in path if part not in bodies]
    own = name if code.co_name in bodies or code.co_name == "converted__" else code.co_name
    constants = tuple(
        _named(c, bodies, own, qualname)
        if isinstance(c, types.CodeType)
        else _spelled(c, bodies, qualname)
        for c in code.co_consts
    )
    full = qualname + ".<locals>.".join(path)
    return code.replace(co_name=own, co_qualname=full, co_consts=constants)


def _spelled(constant: object, bodies: set[str], qualname: str) -> object:
    """The qualified name that a class body gives its class."""
    if not isinstance(constant, str) or not constant.startswith(_FACTORY):
        return constant
    path = constant.removeprefix(_FACTORY).split(".<locals>.")
    return qualname + ".<locals>.".join(part for part in path if part not in bodies)


def nested_codes(code: types.CodeType) -> list[types.CodeType]:
    """A code object and all that are nested in it."""
    out = [code]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            out += nested_codes(constant)
    return out


def levels(code: types.CodeType) -> int:
    """How many functions stand in each other."""
    return 1 + max((levels(c) for c in code.co_consts if isinstance(c, types.CodeType)), default=0)


def instantiate(
    code: types.CodeType, original: types.FunctionType, operators: str, namespace: Any
) -> types.FunctionType:
    """The converted function over the cells of ``original``."""
    cells = dict(zip(original.__code__.co_freevars, original.__closure__ or ()))
    cells[operators] = types.CellType(namespace)
    closure = tuple(cells[n] for n in code.co_freevars)
    made = types.FunctionType(
        code, original.__globals__, original.__name__, original.__defaults__, closure
    )
    made.__kwdefaults__ = original.__kwdefaults__
    made.__qualname__ = original.__qualname__
    made.__module__ = original.__module__
    made.__doc__ = original.__doc__
    made.__annotations__ = getattr(original, "__annotations__", {})
    made.__dict__.update({k: v for k, v in original.__dict__.items() if k != "__wrapped__"})
    return made
