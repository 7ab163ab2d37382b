"""From a function object to its syntax tree, with positions in the user's file.

The source is found by the code object, not by ``inspect.getsource``, which follows ``__wrapped__`` to another
function. A ``def`` is cut out of its file by its first line; a lambda is found in the parsed file by the columns
that its code object knows, so several lambdas on a line are told apart. Sources come through ``linecache``:
notebooks, doctests and code that was registered there before ``exec`` work like files.

Names such as ``__x`` in a class body are mangled here, as the compiler would do.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import linecache
import tokenize
import types
from dataclasses import dataclass
from typing import Any

from ..errors import SourceError
from ..syntax_trees import parse
from . import source_search
from .recompiling import compiles_to
from .syntax import children, from_ast, gast, walk


@dataclass(frozen=True)
class Parsed:
    """A function's tree; ``node`` is a FunctionDef or Lambda whose positions are those of ``file``."""

    node: gast.AST
    file: str
    name: str
    freevars: tuple[str, ...]


def parse_function(function: types.FunctionType) -> Parsed:
    """The tree of a function; SourceError or ConversionError when there is none or it cannot be converted."""
    code = function.__code__
    file = _file(function)
    lines = linecache.getlines(file, function.__globals__) or _registered(code)
    lines = lines or source_search.lines_of(function)
    if not lines:
        raise SourceError(
            f"the source of {function.__qualname__!r} was not found (it says {code.co_filename!r}, line "
            f"{code.co_firstlineno}). {_why_missing(file)}: put the function into "
            "a file or notebook, register its source in linecache, or leave it alone with tg.do_not_convert."
        )
    try:
        return _parsed(function, file, lines)
    except SourceError:  # of a module that was loaded again, the lines may be those of before
        linecache.checkcache(file)
        now = linecache.getlines(file, function.__globals__)
        if not now or now == lines:
            raise
    return _parsed(function, file, now)


def _parsed(function: types.FunctionType, file: str, lines: list[str]) -> Parsed:
    code = function.__code__
    try:
        node = _lambda_node(code, lines) if code.co_name == "<lambda>" else _def_node(code, lines)
    except SyntaxError:
        raise _changed(code) from None
    renamed = code.co_name != getattr(node, "name", "<lambda>")
    owner = _class_at(lines, code.co_firstlineno) if renamed else _class_name(code)
    if source_search.may_have_changed(function, file) and not compiles_to(node, code, owner):
        raise _changed(code)
    tree = from_ast(node)
    if owner or any(type(n) is gast.ClassDef for n in walk(tree)):
        _mangle(tree, owner)
    return Parsed(tree, file, function.__name__, code.co_freevars)


def _why_missing(file: str) -> str:
    if file.startswith("<"):
        return "Functions made by exec, given on standard input, or typed into a plain prompt may have none"
    return "There is no such file, or none that can be read"


def _changed(code: types.CodeType) -> SourceError:
    return SourceError(
        f"the source of {code.co_name!r} is not at {code.co_filename}, line {code.co_firstlineno}: the file changed after "
        "it was imported, or a decorator compiled the function anew (typeguard's typechecked). Load the file again (importlib.reload), or start the "
        "program again; a function that a decorator made is left alone with tg.do_not_convert, or converted without the decorator"
    )


def _file(function: types.FunctionType) -> str:
    """The file of a function; that of a module that Python has frozen (``collections.abc``) is told by the module."""
    file = function.__code__.co_filename
    known = function.__globals__.get("__file__") if file.startswith("<frozen ") else None
    return known or file


def _registered(code: types.CodeType) -> list[str]:
    if code.co_filename.startswith(
        "<"
    ):  # no module is of such a file, which ``inspect`` looks for among all
        return []
    try:
        return inspect.findsource(code)[0]
    except (OSError, IndexError):
        return []


def _def_node(code: types.CodeType, lines: list[str]) -> ast.AST:
    start = code.co_firstlineno - 1
    if start >= len(lines):
        raise SourceError(
            f"{code.co_filename} has no line {code.co_firstlineno} any more: it changed after it was imported. Load it again (importlib.reload), or start the program again"
        )
    indented = lines[start][:1].isspace()
    module = _first_block(lines, start)
    try:
        if module is None:
            module = _block(inspect.getblock(lines[start:]))
    except (SyntaxError, tokenize.TokenError):
        return _search(parse("".join(lines)), code)
    ast.increment_lineno(module, start - indented)
    first: Any = module.body[0] if module.body else module
    body = first.body if indented else module.body
    found = body[0] if body else None
    if isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef)) and found.name == code.co_name:
        return found
    return _search(parse("".join(lines)), code)


_ENDS = 8  # how many lines that might follow a function are tried


def _first_block(lines: list[str], start: int) -> ast.Module | None:
    """The tree of the function that begins at a line, by its indentation; None where that does not tell its end.

    It ends before a line that is indented no more than its first one. Such a line may also stand inside of it, in a
    string or in brackets: then what is before it is no whole code. ``inspect.getblock`` tokenizes, for ten times as long.
    """
    first = _indent(lines[start])
    tries = 0
    for end in range(start + 1, len(lines) + 1):
        if end < len(lines) and (_indent(lines[end]) > first or lines[end].lstrip()[:1] in ("", "#")):  # fmt: skip
            continue
        try:
            return _block(lines[start:end])
        except SyntaxError:
            tries += 1
            if tries == _ENDS:
                return None
    return None


def _indent(line: str) -> int:
    line = line.expandtabs()
    return len(line) - len(line.lstrip())


def _block(lines: list[str]) -> ast.Module:
    head = "if 1:\n" if lines[0][:1].isspace() else ""
    return parse(head + "".join(lines))


def _search(module: ast.Module, code: types.CodeType) -> ast.AST:
    """The ``def`` at the first line of a code object; one of another name where the code was given a new one (``code.replace``)."""
    here = [
        node
        for node in ast.walk(module)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and min([node.lineno] + [d.lineno for d in node.decorator_list]) == code.co_firstlineno
    ]
    for node in here:
        if node.name == code.co_name:
            return node
    if len(here) == 1 and _compiled_here(module, code):
        return here[0]
    raise _changed(code)


def _compiled_here(module: ast.Module, code: types.CodeType) -> bool:
    """Whether the file has the same instructions at a code object's first line."""
    left = [compile(module, code.co_filename, "exec", dont_inherit=True)]
    for found in left:
        if found.co_firstlineno == code.co_firstlineno and found.co_code == code.co_code:
            return True
        left += [c for c in found.co_consts if isinstance(c, types.CodeType)]
    return False


def _class_at(lines: list[str], line: int) -> str | None:
    """The innermost class of a file that a line stands in, for a function whose names tell another one."""
    classes = [
        node
        for node in ast.walk(parse("".join(lines)))
        if isinstance(node, ast.ClassDef) and node.lineno < line <= (node.end_lineno or line)
    ]
    return max(classes, key=lambda node: node.lineno).name if classes else None


_TREES: dict[tuple[str, int], ast.Module] = {}


def _lambda_node(code: types.CodeType, lines: list[str]) -> ast.AST:
    text = "".join(lines)
    key = (code.co_filename, hash(text))
    if key not in _TREES:
        _TREES.clear()
        _TREES[key] = parse(text)
    wanted = {p for p in code.co_positions() if p[0] is not None and p[2] is not None}
    found = [
        n for n in ast.walk(_TREES[key]) if isinstance(n, ast.Lambda) and _covers(n, wanted, lines)
    ]
    exact = [
        n
        for n in found
        if _signature(n) == code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    ]
    exact = [n for n in exact if n.lineno == code.co_firstlineno] or exact
    if not exact:
        raise SourceError(
            f"the source of a lambda was not found at {code.co_filename}, line {code.co_firstlineno}"
        )
    if len(exact) > 1:  # such as constants: from Python 3.12 on their code knows no columns
        exact = [n for n in exact if _compiles_to(n, code)] or exact
    return min(exact, key=lambda n: (n.end_lineno - n.lineno, n.end_col_offset - n.col_offset))


def _compiles_to(node: ast.Lambda, code: types.CodeType) -> bool:
    """Whether a lambda's code is this, as far as that can be told without what is around it."""
    outer = compile(ast.Expression(node), code.co_filename, "eval")
    *_, made = (c for c in outer.co_consts if isinstance(c, types.CodeType))  # behind its defaults
    return made.co_code == code.co_code and repr(made.co_consts) == repr(code.co_consts)


def _signature(node: ast.Lambda) -> tuple[str, ...]:
    a = node.args
    return tuple(x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs))


def _covers(node: ast.Lambda, wanted: set, lines: list[str]) -> bool:
    """Whether all positions of the code lie in the body of this lambda."""
    body = node.body
    first, last = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    for line, end_line, column, end_column in wanted:
        if line == node.lineno and column == 0 and end_column == 0:
            continue
        if (line, column) < (node.lineno, node.col_offset) or (end_line, end_column) > last:
            return False
        if (line, column) < first and (end_line, end_column) > first:
            return False
    return True


def _class_name(code: types.CodeType) -> str | None:
    """The innermost class around a code object, by its qualified name, which decorators do not change.

    A part of the name with ``<locals>`` behind it is a function, one such as ``<listcomp>`` no class either.
    """
    parts = code.co_qualname.split(".")
    for part, behind in reversed(list(itertools.pairwise(parts))):
        if behind != "<locals>" and not part.startswith("<"):
            return part
    return None


def _mangle(tree: gast.AST, class_name: str | None) -> None:
    """Spell private names as the compiler does in a class body."""
    stripped = (class_name or "").lstrip("_")

    def spell(name: str, owner: str) -> str:
        private = name.startswith("__") and not name.endswith("__") and "." not in name
        return f"_{owner}{name}" if private and owner else name

    def spell_below(node: gast.AST, owner: str) -> None:
        if isinstance(node, gast.ClassDef):
            owner = node.name.lstrip("_")
        for field in ("id", "attr", "name"):
            value = getattr(node, field, None)
            if isinstance(value, str) and not isinstance(node, (gast.ClassDef, gast.alias)):
                setattr(node, field, spell(value, owner))
        if isinstance(node, (gast.Global, gast.Nonlocal)):
            node.names = [spell(n, owner) for n in node.names]
        for child in children(node):
            spell_below(child, owner)

    name = getattr(tree, "name", None)
    spell_below(tree, stripped)
    if name is not None:
        tree.name = name
