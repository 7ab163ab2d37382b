"""``tograph explain``: line by line, what became part of the graph, what stayed Python, and why.

A function is traced once more while its lines are watched. A line is *graph* when nodes were made there, *Python* when it
ran while tracing and left none, and *not reached* when tracing did not come to it. The reasons come from the
operators (``runtime.decisions``) and from the nodes.
"""

from __future__ import annotations

import ast
import linecache
import re
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from .runtime.diagnosis.frames import is_users
from .runtime.graph.ir import Node, all_nodes
from .runtime.symbols import decisions
from .runtime.symbols.funcgraph import USER_CODE
from .syntax_trees import parse

Place = tuple[str, int]
_STAGES = {"If", "While", "Case", "Try", "Call"}


class Line(NamedTuple):
    """A line of the user's source. ``kind``: graph, python, not reached, or empty for what is no statement."""

    number: int
    source: str
    kind: str
    why: str


class Explained(NamedTuple):
    """A function of the user's that was traced."""

    name: str
    file: str
    lines: list[Line]


class Seen(NamedTuple):
    """The code that ran while tracing, for each file the lines that ran, and for each place what it called."""

    codes: dict[types.CodeType, None]
    lines: dict[str, set[int]]
    calls: dict[Place, dict[str, None]]


@contextmanager
def watching() -> Iterator[Seen]:
    """The user's code that runs inside, as converted."""
    seen = Seen({}, {}, {})

    def line(frame: types.FrameType, event: str, _: Any) -> Callable:
        if event == "line":
            seen.lines.setdefault(frame.f_code.co_filename, set()).add(frame.f_lineno)
        return line

    def call(frame: types.FrameType, event: str, _: Any) -> Callable | None:
        code = frame.f_code
        if code not in USER_CODE or not is_users(code):
            return None
        if "<lambda>" not in code.co_name:
            seen.codes.setdefault(code, None)
            caller = _caller(frame)
            if caller is not None and caller.f_code.co_qualname != code.co_qualname:
                place = caller.f_code.co_filename, caller.f_lineno
                seen.calls.setdefault(place, {})[code.co_name] = None
        return line

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield seen
    finally:
        sys.settrace(before)


def _caller(frame: types.FrameType) -> types.FrameType | None:
    """The user's frame that a frame was called from, directly or through a library."""
    back = frame.f_back
    while back is not None and back.f_code not in USER_CODE:
        back = back.f_back
    return back


def explain(trace: Callable[[], Any]) -> tuple[Any, list[Explained]]:
    """What ``trace()`` returns, a concrete function that it makes, and the functions that were traced."""
    with decisions.recorded() as found, watching() as seen:
        concrete = trace()
    nodes: dict[Place, list[Node]] = {}
    for node in all_nodes(concrete.graph):
        if node.location is not None:
            nodes.setdefault(tuple(node.location), []).append(node)
    told: dict[Place, dict[str, decisions.Decision]] = {}
    for decision in found:
        told.setdefault(tuple(decision.location), {})[decision.why] = decision
    return concrete, [_function(code, seen, nodes, told) for code in _outermost(seen.codes)]


def _outermost(codes: dict[types.CodeType, None]) -> list[types.CodeType]:
    """Code that is not nested in other code of the list, in the order it ran first."""
    nested = {id(c) for code in codes for c in _nested(code)}
    return [code for code in codes if id(code) not in nested]


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _nested(constant)


def _function(code: types.CodeType, seen: Seen, nodes: dict, told: dict) -> Explained:
    file, first = code.co_filename, code.co_firstlineno
    last = max(n for c in (code, *_nested(code)) for _, _, n in c.co_lines() if n is not None)
    statements = _statements(file, first, last)
    lines = []
    staged_until = 0
    for number in range(first, last + 1):
        place, statement = (file, number), statements.get(number)
        made, said = nodes.get(place, []), told.get(place, {})
        kind, why = "", ""
        if statement or made or said:
            ran = number in seen.lines.get(file, ())
            context = _Context(ran, number <= staged_until, list(seen.calls.get(place, {})))
            kind, why = _verdict(made, said, statement, context)
        if statement and any(d.staged for d in said.values()):
            staged_until = max(staged_until, statement.end_lineno or 0)
        lines.append(Line(number, linecache.getline(file, number).rstrip(), kind, why))
    return Explained(code.co_qualname.replace(".<locals>", ""), file, lines)


def _statements(file: str, first: int, last: int) -> dict[int, ast.stmt]:
    """The statements that start in a range of lines, by line."""
    try:
        tree = parse("".join(linecache.getlines(file)))
    except SyntaxError:  # a notebook cell with magic commands
        return {}
    found: dict[int, ast.stmt] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and first <= node.lineno <= last and not _is_text(node):
            found.setdefault(node.lineno, node)
    return found


def _is_text(node: ast.stmt) -> bool:
    """Whether a statement is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


class _Context(NamedTuple):
    ran: bool
    staged: bool  # inside a staged block
    calls: list[str]


def _verdict(made: list[Node], said: dict, statement: Any, context: _Context) -> tuple[str, str]:
    stages = any(n.op in _STAGES for n in made)
    reasons = [_with_state(d) for d in said.values() if d.staged or not stages]
    if context.calls:
        reasons.append(f"calls {', '.join(context.calls)}")
    ops = [n for n in made if n.op not in _STAGES]
    if ops:
        reasons.append(_count(ops))
    if made or context.calls or any(d.staged for d in said.values()):
        return "graph", "; ".join(reasons) or ", ".join(sorted({n.op for n in made}))
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return "", ""
    if not context.ran and not said:
        return "not reached", "tracing did not come to this line"
    return "python", "; ".join(reasons) or _why_python(statement, context)


def _why_python(statement: Any, context: _Context) -> str:
    if isinstance(statement, ast.Return):
        return "returns" + (" from a staged block: kept in its state" if context.staged else "")
    if context.staged:
        return "in a staged block: what it sets is kept in the state"
    return "runs once, while tracing"


def _with_state(decision: decisions.Decision) -> str:
    """The reason with the variables of the user's that are state; names that conversion made are left out."""
    source = linecache.getlines(decision.location[0])
    words = set(re.findall(r"\w+", "".join(source)))
    names = ", ".join(n for n in decision.state if n in words)
    return f"{decision.why}; state: {names}" if names else decision.why


def _count(nodes: list[Node]) -> str:
    """``3 nodes: mul, sub (2)``."""
    names: dict[str, int] = {}
    for node in nodes:
        names[short(node.op)] = names.get(short(node.op), 0) + 1
    words = [name if n == 1 else f"{name} ({n})" for name, n in names.items()]
    return f"{len(nodes)} node{'s' * (len(nodes) > 1)}: {', '.join(words)}"


def short(op: str) -> str:
    """``mul`` for ``aten.mul.Tensor``, ``int add`` for ``py.add``."""
    space, _, rest = op.partition(".")
    name = rest.split(".")[0]
    return {"aten": name, "py": f"Python {name}", "tg": name.replace("_", " ")}.get(space, op)


def show(functions: list[Explained], name: Callable[[str], str] = str) -> str:
    """The explanation as text; ``name`` says how a file is called."""
    blocks = []
    for function in functions:
        width = min(64, max(len(line.source) for line in function.lines))
        rows = [f"{function.name}  {name(function.file)}:{function.lines[0].number}"]
        for line in function.lines:
            row = f"{line.kind:>11} {line.number:>5} | {line.source:<{width}}"
            rows.append(f"{row}  # {line.why}" if line.why else row.rstrip())
        blocks.append("\n".join(rows))
    return "\n\n".join(blocks)


_STYLES = {"graph": "32", "python": "33", "not reached": "90"}
_ROW = re.compile(r"^( *)(graph|python|not reached)( +\d+ \|)(.*?)(  # .*)?$", re.MULTILINE)


def highlight(text: str) -> str:
    """The text with colours: the verdicts, and the reasons faint."""

    def row(found: re.Match) -> str:
        indent, kind, number, source, why = found.groups()
        faint = f"\033[90m{why}\033[0m" if why else ""
        return f"{indent}\033[{_STYLES[kind]}m{kind}\033[0m{number}{source}{faint}"

    return _ROW.sub(row, text)
