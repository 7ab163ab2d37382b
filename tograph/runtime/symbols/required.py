"""What has to hold, now or when the graph runs: an error of Python's or torch's own where it does not."""

from __future__ import annotations

from typing import Any

from .funcgraph import current_graph


def require(holds: Any, error: Exception) -> None:
    """Raise ``error`` where a condition, a bool or one of the graph, does not hold."""
    if isinstance(holds, bool):
        if not holds:
            raise error
        return
    graph = current_graph()
    graph.add("tg.assert", (holds.node.value(graph), type(error).__name__, error.args))
