"""``try`` with ``except*`` stays Python's: what its body may fail with when the graph runs must be nothing that its clauses are for.

::

    try:                           with ag__.group_stmt(lambda: (ValueError,), False) as group:
        body                           try:
    except* ValueError:     ->             with group.body:
        ...                                    body
                                       except* ValueError:
                                           ...

A clause would have to take a group apart whose members only the run knows. The error comes behind the statement, which would catch it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ..errors import StagingError
from ..runtime.symbols.funcgraph import current_graph, is_tracing, user_location
from ..transpiler.syntax import gast
from ..transpiler.templates import constant
from .context import OPERATORS, Converter
from .handlers import never_caught


class ExceptionGroups(Converter):
    def visit_TryStar(self, node):
        node = self.generic_visit(node)
        name = self.context.namer.fresh("group")
        kinds = gast.Tuple([copy.deepcopy(h.type) for h in node.handlers], gast.Load())
        node.body = self.fill("with group_.body:\n    body_", node, group_=name, body_=node.body)
        return self.fill(
            f"with {OPERATORS}.group_stmt(lambda: kinds_, final_) as group_:\n    statement_",
            node, kinds_=kinds, final_=constant(bool(node.finalbody)), group_=name, statement_=node,
        )  # fmt: skip


class Body:
    """What a body records in the graph."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.graph: Any = None
        self.mark = 0

    def __enter__(self) -> None:
        if is_tracing():
            self.graph = current_graph()
            self.mark = len(self.graph.graph.nodes)

    def __exit__(self, *error: Any) -> None:
        if self.graph is not None and self.graph is current_graph():
            self.nodes = self.graph.graph.nodes[self.mark :]


class group_stmt:
    """The statement; ``kinds``: what its clauses are for, ``final``: whether something runs on every way out."""

    def __init__(self, kinds: Callable[[], tuple], final: bool):
        self.kinds, self.final, self.body = kinds, final, Body()

    def __enter__(self) -> group_stmt:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if self.body.nodes and not never_caught(self.body.nodes, self._handlers()):
            raise StagingError(
                "something in this `try` may fail when the graph runs, and `except*` (or its `finally`) cannot see that: it is handled while "
                "tracing. Use `except`, or raise the group outside of the function",
                user_location(),
            )

    def _handlers(self) -> list[tuple[Any, Any]]:
        """What the clauses take: a class or a tuple of them each, and any group, which may hold one of theirs."""
        named = () if self.final else (*self.kinds(), BaseExceptionGroup)
        return [(lambda found=found: found, None) for found in named] or [(None, None)]
