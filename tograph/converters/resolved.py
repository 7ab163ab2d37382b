"""Arguments of code that is not converted, as that code needs them: one kind of value each, flags as bools, sizes that are known.

What is one thing or another by a staged condition is taken apart in branches (``union``, ``flags``). A tensor whose size a condition
decided has that size where the answer is known, and a number is that number; elsewhere the call is traced once, if the code asks for
neither, else for each answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.symbols.funcgraph import current_graph
from ..runtime.values import facts
from . import union
from .flags import each_way, flag_of

Run = Callable[[tuple, dict[str, Any]], Any]


def resolved(run: Run, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """``run(args, kwargs)``, which calls ``f``."""

    def again(args: tuple, kwargs: dict[str, Any]) -> Any:
        return resolved(run, f, args, kwargs)

    if union.holds_union(args, kwargs):
        return union.apply(lambda *a, **k: again(a, k), *args, **kwargs)
    flag = flag_of(f, args, kwargs)
    if flag is not None:
        return each_way(again, flag, args, kwargs)
    args = tuple(map(facts.as_known, args))
    kwargs = {k: facts.as_known(v) for k, v in kwargs.items()}
    tests = (facts.undecided(x) for x in (*args, *kwargs.values()))
    test = next((t for t in tests if t is not None), None)
    if test is None:
        return run(args, kwargs)
    return _settled(test, lambda: run(args, kwargs), lambda: again(args, kwargs))


def _settled(test: Any, run: Callable[[], Any], again: Callable[[], Any]) -> Any:
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
