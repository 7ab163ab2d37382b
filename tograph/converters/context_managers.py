"""``with``: the statement stays; ``__enter__`` and ``__exit__`` of a user's class are converted.

``with cm as v:``  ->  ``with ag__.context(cm) as v:``. An exception that an op raises when the graph runs does not pass through
``__exit__``: it leaves the graph. Where the body itself raises or asserts by a staged condition, that is an error.
"""

from __future__ import annotations

from typing import Any

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.symbols.funcgraph import current_graph, is_tracing, user_location
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
    """A context manager whose methods run converted, where they are a user's."""

    def __init__(self, manager: Any, user: bool):
        self.manager, self.user = manager, user
        self.graph: Any = None
        self.mark = 0

    def __enter__(self) -> Any:
        kind = type(self.manager)
        made = call(kind.__enter__, self.manager) if self.user else self.manager.__enter__()
        if is_tracing():
            self.graph = current_graph()
            self.mark = len(self.graph.graph.nodes)
        return made

    def __exit__(self, *error: Any) -> Any:
        if self.graph is not None and (error[0] is None or error[0] is control_flow.Unreachable):
            self._check()
        if self.user:
            return call(type(self.manager).__exit__, self.manager, *error)
        return self.manager.__exit__(*error)

    def _check(self) -> None:
        """The body may not raise by a staged condition: ``__exit__`` would have to see that when the graph runs."""
        if current_graph() is self.graph and _raises(self.graph.graph.nodes[self.mark :]):
            raise StagingError(
                f"the body of this `with` raises an exception, or asserts, depending on data, and {type(self.manager).__name__}.__exit__ cannot "
                "see that: it runs while tracing. Use try/except/finally in its place, or raise after the `with`",
                user_location(),
            )


def _raises(nodes: list[Any]) -> bool:
    """Whether code says that an exception leaves: not from inside of a ``try`` of its own."""
    for node in nodes:
        if node.op in _RAISING:
            return True
        if node.op != "Try" and any(_raises(region.nodes) for region in node.regions.values()):
            return True
    return False


_RAISING = frozenset(["tg.raise", "tg.reraise", "tg.assert"])


def context(manager: Any) -> Any:
    """The context manager that a ``with`` enters."""
    kind = type(manager)
    user = any(is_user_function(getattr(kind, n, None)) for n in ("__enter__", "__exit__"))
    if user or (is_tracing() and not kind.__module__.startswith("torch")):
        return Converted(manager, user)
    return manager
