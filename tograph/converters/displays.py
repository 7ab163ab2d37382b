"""List displays with parts that are spread: ``[*xs, y]``  ->  ``ag__.list_display((True, xs), (False, y))``.

So are ``(*xs, y)``, by ``tuple_display``, and ``{*xs, y}``, by ``set_display``. ``xs`` may be a list of the graph; what is one thing or another by a staged condition is spread option by option.
"""

from __future__ import annotations

from typing import Any

from ..runtime.values.growing import StagedList
from ..runtime.values.structure import is_union
from ..transpiler.syntax import gast
from ..transpiler.templates import constant
from .calls import call
from .consumers import gathered
from .context import OPERATORS, Converter
from .iterables import staged_source
from .lists import new_list
from .union import apply


class Displays(Converter):
    def visit_List(self, node):
        return self._spread(node, "list_display")

    def visit_Tuple(self, node):
        return self._spread(node, "tuple_display")

    def visit_Set(self, node):
        return self._spread(node, "set_display")

    def _spread(self, node, operator: str):
        node = self.generic_visit(node)
        spread = any(isinstance(e, gast.Starred) for e in node.elts)
        stored = not isinstance(getattr(node, "ctx", gast.Load()), gast.Load)
        if stored or not spread:
            return node
        parts = [self._pair(e) for e in node.elts]
        return self.expression(f"{OPERATORS}.{operator}(parts_)", node, parts_=parts)

    def _pair(self, element):
        starred = isinstance(element, gast.Starred)
        mark = gast.copy_location(constant(starred), element)
        value = element.value if starred else element
        return gast.copy_location(gast.Tuple([mark, value], gast.Load()), element)


def list_display(*parts: tuple[bool, Any]) -> list:
    """A list of values, and of the items of those that are marked True."""
    spread = [i for i, (starred, _) in enumerate(parts) if starred]
    if any(is_union(parts[i][1]) for i in spread):

        def of(*options: Any) -> list:
            given = dict(zip(spread, options))
            return list_display(*((s, given.get(i, x)) for i, (s, x) in enumerate(parts)))

        return apply(of, *(parts[i][1] for i in spread))
    made = new_list()
    for starred, x in parts:
        if starred:
            items = gathered(x)
            if staged_source(items) is not None:
                items = call(list, items)
            call(made.extend, items if isinstance(items, StagedList) else [*items])
        else:
            call(made.append, x)
    return made


def tuple_display(*parts: tuple[bool, Any]) -> tuple:
    """A tuple of values, and of the items of those that are marked True."""
    return call(tuple, list_display(*parts))


def set_display(*parts: tuple[bool, Any]) -> set:
    """A set of values, and of the items of those that are marked True."""
    made = call(set)
    for starred, x in parts:
        call(made.update, call(set, x) if starred else (x,))
    return made
