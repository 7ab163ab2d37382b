"""``with``: the statement stays; ``__enter__`` and ``__exit__`` of a user's class are converted.

``with cm as v:``  ->  ``with ag__.context(cm) as v:``. An exception that happens when the graph runs does not pass through
``__exit__``: it leaves the graph.
"""

from __future__ import annotations

from typing import Any

from .call_rules import is_user_function
from .calls import call
from .context import OPERATORS, Converter


class ContextManagers(Converter):
    def visit_With(self, node):
        node = self.generic_visit(node)
        for item in node.items:
            item.context_expr = self.expression(
                f"{OPERATORS}.context(cm_)", item.context_expr, cm_=item.context_expr
            )
        return node


class Converted:
    """A context manager whose methods run converted."""

    def __init__(self, manager: Any):
        self.manager = manager

    def __enter__(self) -> Any:
        return call(type(self.manager).__enter__, self.manager)

    def __exit__(self, *error: Any) -> Any:
        return call(type(self.manager).__exit__, self.manager, *error)


def context(manager: Any) -> Any:
    """The context manager that a ``with`` enters."""
    methods = [getattr(type(manager), n, None) for n in ("__enter__", "__exit__")]
    return Converted(manager) if any(map(is_user_function, methods)) else manager
