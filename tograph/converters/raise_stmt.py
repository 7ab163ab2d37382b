"""``raise``: of the exception that is being handled, and of a variable that may hold one of several.

``raise``  ->  ``raise ag__.caught()``; ``raise e``  ->  ``raise ag__.raised(e)``. The operators are those of ``try_stmt``.
"""

from __future__ import annotations

from ..transpiler.syntax import gast, walk
from .context import OPERATORS, Converter


class Reraises(Converter):
    """``raise`` without an exception raises the one that is being handled, staged or not; a variable may hold one of several."""

    def __init__(self, context):
        super().__init__(context)
        self.kept: list[gast.stmt] = []

    def visit_TryStar(self, node):
        """Python tells a ``raise`` that stands in a clause from the raising of what the clause has caught: it puts the groups together again."""
        again = [s for h in node.handlers for s in h.body if isinstance(s, gast.Raise) and s.exc is None]  # fmt: skip
        self.kept += again
        return self.generic_visit(node)

    def visit_Raise(self, node):
        if any(node is s for s in self.kept):
            return node
        plain = isinstance(node.exc, gast.Call) and isinstance(
            self.context.resolve(node.exc.func), type
        )
        if node.exc is not None and not plain:
            node.exc = self.expression(f"{OPERATORS}.raised(exc_)", node, exc_=node.exc)
        elif node.exc is None:
            call = gast.Call(
                gast.Attribute(
                    gast.Name(OPERATORS, gast.Load(), None, None), "caught", gast.Load()
                ),
                [],
                [],
            )
            node.exc = call
            for child in walk(node):
                gast.copy_location(child, node)
        return node
