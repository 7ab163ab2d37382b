"""Calls of torch's code with a tensor whose size a condition decided: traced once where the code asks for no size, else for each answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..errors import StagingError
from ..runtime import control_flow, facts
from ..runtime.funcgraph import current_graph


def condition(args: Iterable[Any]) -> Any:
    """What decides on the size of one of the arguments; None where nothing does."""
    return next((t for t in map(facts.undecided, args) if t is not None), None)


def settled(test: Any, run: Callable[[], Any], again: Callable[[], Any]) -> Any:
    """``run()``; where that has to assume something of a size, ``again()`` in each branch of ``test``, which knows it."""
    graph, attempt = current_graph(), control_flow.Attempt(())
    before = len(graph.assumed)
    try:
        result = run()
        if len(graph.assumed) == before:
            attempt.commit()
            return result
    except (RuntimeError, StagingError):
        pass  # a branch raises it again, if it is the program's
    except BaseException:
        attempt.commit()
        raise
    attempt.undo()
    return control_flow.staged_if(test, again, again)
