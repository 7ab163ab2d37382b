"""Annotated assignments to variables lose their annotation, which Python does not evaluate either.

``x: int = 1``  ->  ``x = 1``; ``x: int`` alone does nothing where something else binds ``x``, and stays where nothing does: ``x`` is unbound
then, whatever is called so outside of the function. In the body of a class they stay: there they are evaluated, and
declare the fields of dataclasses and named tuples.
"""

from __future__ import annotations

from ..transpiler.scope import names_bound
from ..transpiler.syntax import gast
from .context import Converter


class Annotations(Converter):
    bound: frozenset[str] = frozenset()  # by the function around

    def visit_FunctionDef(self, node):
        around, self.bound = self.bound, names_bound(node.body)
        try:
            return self.generic_visit(node)
        finally:
            self.bound = around

    def visit_ClassDef(self, node):
        fields = [n for n in node.body if isinstance(n, gast.AnnAssign)]
        node.body = [n if n in fields else self.visit(n) for n in node.body]
        return node

    def visit_AnnAssign(self, node):
        if not isinstance(node.target, gast.Name):
            return self.generic_visit(node)
        if node.value is None:
            kept = node.target.id not in self.bound
            return node if kept else gast.copy_location(gast.Pass(), node)
        return gast.copy_location(gast.Assign([node.target], self.visit(node.value), None), node)
