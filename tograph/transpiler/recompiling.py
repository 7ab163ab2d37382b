"""Whether a tree is what a code object was compiled from.

A file may have changed since it was imported, in lines that are where they were: what it says then is another program than the
one that Python runs. A function is compiled again, alone, with what is around it as far as that matters (the names that
it takes from outer functions, the class that spells its private names, its module's ``__future__``), and compared.
"""

from __future__ import annotations
import __future__

import ast
import dis
import types
from collections.abc import Iterator, Sequence

from ..syntax_trees import parse

FUTURE = sum(getattr(__future__, n).compiler_flag for n in __future__.all_feature_names[2:])
# What depends on whether a module imports a name.
_PLAIN = {"LOAD_METHOD": "LOAD_ATTR", "PUSH_NULL": "", "EXTENDED_ARG": "", "NOP": ""}


def compiles_to(node: ast.AST, code: types.CodeType, owner: str | None) -> bool:
    """Whether a ``def`` or lambda gives a code object. ``owner``: the class whose body it stands in."""
    name = getattr(node, "name", "<lambda>")
    body = [node if isinstance(node, ast.stmt) else ast.Expr(node, lineno=1, col_offset=0)]
    if code.co_freevars:
        around = parse(f"def around({', '.join(code.co_freevars)}): pass").body
        if name not in code.co_freevars and isinstance(node, ast.FunctionDef):
            body, name = [_named(node, "around")], "around"  # a name that it does not use itself
        around[0].body, body = body, around
    if owner is not None:
        around = parse(f"class {owner}: pass").body
        around[0].body, body = body, around
    flags = code.co_flags & FUTURE
    made = compile(ast.Module(body, []), code.co_filename, "exec", flags=flags, dont_inherit=True)
    return any(c.co_name == name and _same(c, code) for c in codes_in(made.co_consts))


def _named(node: ast.FunctionDef, name: str) -> ast.stmt:
    return ast.copy_location(ast.FunctionDef(**{**dict(ast.iter_fields(node)), "name": name}), node)


def codes_in(constants: Sequence[object]) -> Iterator[types.CodeType]:
    """The code objects among constants, and those in them."""
    for constant in constants:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from codes_in(constant.co_consts)


def _same(a: types.CodeType, b: types.CodeType) -> bool:
    names = (a.co_varnames, a.co_freevars, a.co_cellvars)
    if names != (b.co_varnames, b.co_freevars, b.co_cellvars):
        return False
    if len(a.co_consts) != len(b.co_consts):
        return False
    if not all(map(_same_constant, a.co_consts, b.co_consts)):
        return False
    return (a.co_code == b.co_code and a.co_names == b.co_names) or _steps(a) == _steps(b)


def _same_constant(a: object, b: object) -> bool:
    if isinstance(a, types.CodeType) and isinstance(b, types.CodeType):
        return _same(a, b)
    if isinstance(a, frozenset) and isinstance(b, frozenset):
        return sorted(map(repr, a)) == sorted(map(repr, b))
    if isinstance(a, str) and isinstance(b, str) and "<locals>" in a:
        return True  # the qualified name of something in it
    return repr(a) == repr(b)


def _steps(code: types.CodeType) -> list[tuple[str, object]]:
    """What the instructions do, with jumps by the number of the instruction."""
    found = [i for i in dis.get_instructions(code) if _PLAIN.get(i.opname) != ""]
    offsets = [i.offset for i in dis.get_instructions(code)]
    kept = {i.offset for i in found}
    number, numbers = 0, {}
    for offset in offsets:
        numbers[offset] = number
        number += offset in kept
    jumps = {*dis.hasjrel, *dis.hasjabs}
    return [
        (
            _PLAIN.get(i.opname, i.opname),
            numbers.get(i.argval)
            if i.opcode in jumps
            else "code"
            if isinstance(i.argval, types.CodeType)
            else repr(i.argval),
        )
        for i in found
    ]
