"""List displays make lists that may become lists of the graph: ``[a, b]``  ->  ``ag__.new_list(a, b)``.

Only where the list may change: a display that is subscripted, iterated by a ``for``, or an argument of a call stays as it is, but
for what a list takes: ``rows.append([])``.
"""

from __future__ import annotations

from typing import Any

from ..runtime.funcgraph import is_tracing
from ..runtime.growing import StagedList
from ..transpiler.syntax import gast
from .context import OPERATORS, Converter

_STORING = frozenset(["append", "appendleft", "insert"])


class Lists(Converter):
    def visit_Call(self, node):
        node = self.generic_visit(node)
        if isinstance(node.func, gast.Attribute) and node.func.attr in _STORING:
            node.args = [self._displays(a) for a in node.args]
        return node

    def visit_Assign(self, node):
        node = self.generic_visit(node)
        node.value = self._displays(node.value)
        return node

    def _displays(self, node):
        """A display with the lists in it, at any depth of displays."""
        if isinstance(node, (gast.List, gast.Tuple)):
            node.elts = [self._displays(e) for e in node.elts]
        elif isinstance(node, gast.Dict):
            node.values = [self._displays(v) for v in node.values]
        return self._made(node) if isinstance(node, gast.List) else node

    def visit_Return(self, node):
        return self.generic_visit(node)

    def _made(self, node):
        return self.expression(f"{OPERATORS}.new_list(items_)", node, items_=node.elts)


def new_list(*items: Any) -> list:
    """A list of the items."""
    return StagedList(items) if is_tracing() else list(items)
