"""What every converter shares: fresh names, the user's file, and a visitor that can put statements before one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import ConversionError
from ..transpiler.names import Namer
from ..transpiler.syntax import gast
from ..transpiler.templates import fill, fill_expression

OPERATORS = "ag__"
FUNCTIONS = (gast.FunctionDef, gast.AsyncFunctionDef, gast.Lambda)


@dataclass
class Context:
    """The conversion of one function. ``resolve`` gives the object that a global or closure name has now."""

    file: str
    namer: Namer
    resolve: Callable[[gast.AST], Any]
    first_param: str | None = None

    def error(self, node: gast.AST, text: str) -> ConversionError:
        return ConversionError(text, (self.file, getattr(node, "lineno", 1)))


class Converter(gast.NodeTransformer):
    """A pass. ``prelude`` holds statements to put before the one being visited."""

    def __init__(self, context: Context):
        self.context = context
        self.prelude: list[gast.stmt] = []

    def convert(self, tree: gast.AST) -> gast.AST:
        return self.visit(tree)

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
        for field, value in gast.iter_fields(node):
            if isinstance(value, list):
                if value and isinstance(value[0], gast.stmt):
                    setattr(node, field, self.block(value))
                else:
                    setattr(
                        node,
                        field,
                        [self.visit(v) if isinstance(v, gast.AST) else v for v in value],
                    )
            elif isinstance(value, gast.AST):
                setattr(node, field, self.visit(value))
        return node

    def fill(self, text: str, origin: gast.AST, **holes: Any) -> list[gast.stmt]:
        return fill(text, origin, **holes)

    def expression(self, text: str, origin: gast.AST, **holes: Any) -> gast.expr:
        return fill_expression(text, origin, **holes)


def own_nodes(root: gast.AST):
    """The nodes below ``root`` that belong to its own function scope."""
    todo = list(gast.iter_child_nodes(root))
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, gast.ClassDef)):
            todo += gast.iter_child_nodes(node)


def has_walrus(node: gast.AST) -> bool:
    return isinstance(node, gast.NamedExpr) or any(
        isinstance(n, gast.NamedExpr) for n in own_nodes(node)
    )


def walrus_names(node: gast.AST) -> list[str]:
    nodes = [node, *own_nodes(node)]
    return sorted({n.target.id for n in nodes if isinstance(n, gast.NamedExpr)})


def has_yield(node: gast.AST) -> bool:
    return any(isinstance(n, (gast.Yield, gast.YieldFrom, gast.Await)) for n in own_nodes(node))
