"""What every converter shares: fresh names, the user's file, and a visitor that can put statements before one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import ConversionError
from ..transpiler.names import Namer
from ..transpiler.syntax import FIELDS_WITH_NODES, children, gast
from ..transpiler.templates import fill, fill_expression

OPERATORS = "ag__"
FUNCTIONS = (gast.FunctionDef, gast.AsyncFunctionDef, gast.Lambda)
LOOPS = (gast.For, gast.While)
_SCOPES = frozenset((*FUNCTIONS, gast.ClassDef))


@dataclass
class Context:
    """The conversion of one function. ``resolve`` gives the object that a global or closure name has now; ``class_names``: some node was marked
    that is of a class body (``class_scopes``)."""

    file: str
    namer: Namer
    resolve: Callable[[gast.AST], Any]
    first_param: str | None = None
    class_names: bool = False

    def error(self, node: gast.AST, text: str) -> ConversionError:
        return ConversionError(text, (self.file, getattr(node, "lineno", 1)))


# Kinds of field values with nothing below them that a pass may change.
_LEAVES = frozenset({str, int, bool, type(None), gast.Constant})


# Nodes that only stand in blocks, and the fields that hold blocks, or what has some: no expression has a statement in it.
_IN_BLOCKS = (gast.mod, gast.stmt, gast.ExceptHandler, gast.match_case)
_BLOCKS = frozenset({"body", "orelse", "finalbody", "handlers", "cases"})


class _Blocks(dict[type[gast.AST], tuple[str, ...]]):
    """By class of nodes: the fields with statements below."""

    def __missing__(self, kind: type[gast.AST]) -> tuple[str, ...]:
        held = FIELDS_WITH_NODES[kind] if issubclass(kind, _IN_BLOCKS) else ()
        self[kind] = tuple(f for f in held if f in _BLOCKS)
        return self[kind]


_FIELDS_WITH_STATEMENTS = _Blocks()


class _Code(dict[type[gast.AST], tuple[str, ...]]):
    """By class of nodes: the fields with nodes below, but for annotations, which stay as they are: ``__future__`` makes texts of them."""

    def __missing__(self, kind: type[gast.AST]) -> tuple[str, ...]:
        held = FIELDS_WITH_NODES[kind]
        self[kind] = tuple(f for f in held if f not in ("annotation", "returns"))
        return self[kind]


_FIELDS_OF_CODE = _Code()


class Converter(gast.NodeTransformer):
    """A pass. ``prelude`` holds statements to put before the one being visited.

    ``handled``: the method for each kind of node that the pass changes. ``visited``: the fields in which it looks for these; where all are
    statements, no expression.
    """

    handled: dict[type, Callable[..., Any]] = {}
    leaves: frozenset[type] = _LEAVES
    visited: dict[type, tuple[str, ...]] = _FIELDS_OF_CODE

    def __init_subclass__(cls) -> None:
        names = [n for n in dir(cls) if n.startswith("visit_") and n != "visit_Constant"]
        cls.handled = {getattr(gast, n.removeprefix("visit_")): getattr(cls, n) for n in names}
        only = all(issubclass(kind, _IN_BLOCKS) for kind in cls.handled)
        cls.visited = _FIELDS_WITH_STATEMENTS if only else _FIELDS_OF_CODE
        # A parameter is a Name with an annotation below it, which stays as it is.
        cls.leaves = _LEAVES if gast.Name in cls.handled else _LEAVES | {gast.Name}

    def __init__(self, context: Context):
        self.context = context
        self.prelude: list[gast.stmt] = []

    def convert(self, tree: gast.AST) -> gast.AST:
        return self.visit(tree)

    def visit(self, node: gast.AST) -> Any:
        handler = self.handled.get(type(node))
        return self.generic_visit(node) if handler is None else handler(self, node)

    def block(self, statements: list[gast.stmt]) -> list[gast.stmt]:
        out: list[gast.stmt] = []
        for statement in statements:
            outer, self.prelude = self.prelude, []
            new = self.visit(statement)
            out += self.prelude
            out += new if isinstance(new, list) else [] if new is None else [new]
            self.prelude = outer
        return out

    def generic_visit(self, node):
        fields, leaves = node.__dict__, self.leaves
        for field in self.visited[type(node)]:
            value = fields.get(field)
            if value is None:
                continue
            kind = type(value)
            if kind is list:
                if not value:
                    continue
                if isinstance(value[0], gast.stmt):
                    fields[field] = self.block(value)
                else:
                    fields[field] = [v if type(v) in leaves else self.visit(v) for v in value]
            elif kind not in leaves and isinstance(value, gast.AST):
                fields[field] = self.visit(value)
        return node

    def fill(self, text: str, origin: gast.AST, **holes: Any) -> list[gast.stmt]:
        return fill(text, origin, **holes)

    def expression(self, text: str, origin: gast.AST, **holes: Any) -> gast.expr:
        return fill_expression(text, origin, **holes)


def own_nodes(root: gast.AST):
    """The nodes below ``root`` that belong to its own function scope."""
    todo = children(root)
    while todo:
        node = todo.pop()
        yield node
        if node.__class__ not in _SCOPES:
            todo += children(node)


def own_statements(root: gast.AST) -> Iterator[gast.AST]:
    """Those of ``own_nodes`` that are statements, and what of them holds blocks: handlers and cases."""
    todo = [root]
    while todo:
        node = todo.pop()
        if node is not root:
            yield node
            if node.__class__ in _SCOPES:
                continue
        fields = node.__dict__
        for name in _FIELDS_WITH_STATEMENTS[node.__class__]:
            todo += fields.get(name) or ()


def has_walrus(node: gast.AST) -> bool:
    return isinstance(node, gast.NamedExpr) or any(
        isinstance(n, gast.NamedExpr) for n in own_nodes(node)
    )


def walrus_names(node: gast.AST) -> list[str]:
    nodes = [node, *own_nodes(node)]
    return sorted({n.target.id for n in nodes if isinstance(n, gast.NamedExpr)})


def has_yield(node: gast.AST) -> bool:
    return any(isinstance(n, (gast.Yield, gast.YieldFrom, gast.Await)) for n in own_nodes(node))


def is_docstring(s: gast.stmt) -> bool:
    """Whether a statement, if it is the first one of a function, says what that is for."""
    return (
        isinstance(s, gast.Expr)
        and isinstance(s.value, gast.Constant)
        and isinstance(s.value.value, str)
    )
