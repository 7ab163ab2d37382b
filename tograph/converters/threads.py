"""Threads that the code starts while it is traced.

They run beside the trace, in plain Python, and what belongs to the graph has no value there. Python prints the error that ends a thread, and goes
on without what the thread would have done. So an error of ours in one is noted, and raised in the trace: as soon as the thread is waited for, at the latest
where the function ends.
"""

from __future__ import annotations

import threading
from typing import Any

from ..errors import ScopeError, TographError
from ..runtime.guarding import reads
from ..runtime.symbols.funcgraph import user_location


def starts(thread: Any) -> None:
    """``thread`` is about to be started in a trace."""
    watch, where = reads.current(), user_location()
    if watch is None or not isinstance(thread, threading.Thread):
        return
    run, fields = thread.run, vars(thread)
    before = {"run": fields["run"]} if "run" in fields else {}

    def noting() -> None:
        try:
            run()
        except TographError as error:
            watch.strayed = ScopeError(
                "the thread that is started here uses what has a value only when the graph runs, while it is traced: give it plain Python values, "
                f"or start it outside of the function, or in tg.py_function ({error})",
                where,
            )
            raise
        finally:
            fields.pop("run", None)
            fields.update(before)

    fields["run"] = noting


def check() -> None:
    """ScopeError where a thread of this trace has failed."""
    watch = reads.current()
    if watch is not None and watch.strayed is not None:
        raise watch.strayed
