"""List displays make lists that may become lists of the graph: ``[a, b]``  ->  ``ag__.new_list(a, b)``.

Only where the list may change: a display that is subscripted, compared, iterated by a ``for``, or an argument of a function
that only reads it (one of torch, or a C function) stays as it is, with the displays in it.
"""

from __future__ import annotations

import types
from typing import Any

from ..runtime.symbols.funcgraph import is_tracing
from ..runtime.values.growing import StagedList
from ..transpiler.syntax import gast
from .call_rules import is_user_function, module_rule
from .context import OPERATORS, Converter


class Lists(Converter):
    def visit_List(self, node):
        node = self.generic_visit(node)
        if not isinstance(node.ctx, gast.Load):
            return node
        return self.expression(f"{OPERATORS}.new_list(items_)", node, items_=node.elts)

    def visit_Call(self, node):
        node.func = self.visit(node.func)
        handle = self._read if self._reads(node.func) else self.visit
        node.args = [handle(a) for a in node.args]
        for keyword in node.keywords:
            keyword.value = handle(keyword.value)
        return node

    def visit_For(self, node):
        node.iter = self._read(node.iter)
        node.body, node.orelse = self.block(node.body), self.block(node.orelse)
        node.target = self.visit(node.target)
        return node

    def visit_Compare(self, node):
        node.left = self._read(node.left)
        node.comparators = [self._read(c) for c in node.comparators]
        return node

    def visit_Subscript(self, node):
        node.value, node.slice = self._read(node.value), self._read(node.slice)
        return node

    def _read(self, node):
        """A display that is only read, as it is, with the displays in it."""
        if isinstance(node, (gast.List, gast.Tuple)):
            node.elts = [self._read(e) for e in node.elts]
            return node
        return self.visit(node)

    def _reads(self, function) -> bool:
        """Whether a function does not keep the lists that it is given."""
        found = self.context.resolve(function)
        if isinstance(found, types.FunctionType):
            return not is_user_function(found) and not module_rule(found.__module__ or "")
        return isinstance(found, types.BuiltinFunctionType) or any(found is c for c in _COPIES)


_COPIES = (list, tuple, set, frozenset)


def new_list(*items: Any) -> list:
    """A list of the items."""
    return StagedList(items) if is_tracing() else list(items)
