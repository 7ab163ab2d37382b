"""What has to hold, now or when the graph runs: an error of Python's or torch's own where it does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..graph.types import ScalarType
from .funcgraph import Ref, current_graph

_expected: list[tuple[bool, Exception]] = []


def require(holds: Any, error: Exception) -> None:
    """Raise ``error`` where a condition, a bool or one of the graph, does not hold."""
    if isinstance(holds, bool):
        if not holds:
            raise error
        return
    graph = current_graph()
    graph.add("tg.assert", (holds.node.value(graph), type(error).__name__, error.args))


@contextmanager
def expecting(answer: bool, error: Exception) -> Iterator[None]:
    """Code that torch has in C asks the values of the graph for one thing only, and raises ``error`` where the answer is another one."""
    _expected.append((answer, error))
    try:
        yield
    finally:
        _expected.pop()


def expected(ref: Ref) -> bool | None:
    """The answer that running code goes on with, which the graph checks; None where it has no such question."""
    if not _expected:
        return None
    graph, (answer, error) = current_graph(), _expected[-1]
    value = graph.resolve(ref)
    test = value if answer else graph.emit("py.not", value, type=ScalarType(bool))
    graph.add("tg.assert", (test, type(error).__name__, error.args))
    return answer
