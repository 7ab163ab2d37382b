"""``a, b = items`` and ``[*items]`` take the items of a user's iterator, or of a generator, as a ``for`` would.

Python's own unpacking runs ``__iter__`` and ``__next__`` as plain Python, where a staged condition has no value:
``a, b = items``  ->  ``a, b = ag__.unpacked(items, 2)``.
"""

from __future__ import annotations

from typing import Any

from ..runtime.funcgraph import is_tracing
from ..transpiler.syntax import gast
from ..transpiler.templates import constant
from .calls import is_user_function
from .consumers import gathered
from .context import OPERATORS
from .generators import Generator
from .members import is_conditional
from .targets import Targets

_DISPLAYS = (gast.Tuple, gast.List, gast.Constant, gast.Dict, gast.Set)


class Unpackings(Targets):
    def visit_Assign(self, node):
        node = self.generic_visit(node)
        for target in node.targets:
            if isinstance(target, (gast.Tuple, gast.List)) and not isinstance(node.value, _DISPLAYS):  # fmt: skip
                starred = any(isinstance(e, gast.Starred) for e in target.elts)
                node.value = self._taken(node.value, -1 if starred else len(target.elts))
                break
        return self.in_order(node)

    def visit_Starred(self, node):
        node = self.generic_visit(node)
        if isinstance(node.ctx, gast.Load) and not isinstance(node.value, _DISPLAYS):
            node.value = self._taken(node.value, -1)
        return node

    def _taken(self, value, count: int):
        text = f"{OPERATORS}.unpacked(items_, count_)"
        return self.expression(text, value, items_=value, count_=constant(count))


def unpacked(items: Any, count: int) -> Any:
    """What Python is to unpack into ``count`` targets, or into any number where it is negative."""
    if is_tracing() and (
        isinstance(items, Generator)
        or is_conditional(items)
        or is_user_function(getattr(type(items), "__iter__", None))
    ):
        return gathered(items, count)
    return items
